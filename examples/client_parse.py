"""An answer as a value: the type is the question.

ANTIPHON_BASE_URL says which server to ask. The script in the instructions plays the model on a gateway with
the `script` provider; a real model needs none.
"""

from dataclasses import dataclass
from typing import Literal

from antiphon import Client, Mismatch, Refused

SCRIPT = """
```script
[{"text": "{\\"name\\": \\"Ada\\", \\"mood\\": \\"glad\\", \\"topics\\": [\\"numbers\\", \\"engines\\"]}"}]
```
"""


@dataclass
class Letter:
    name: str
    mood: Literal["glad", "sad", "angry"]
    topics: list[str]


def main() -> None:
    with Client() as client:
        try:
            found = client.responses.parse(
                "Dear Charles, your engine delights me ... Ada",
                into=Letter,
                instructions="Read the letter." + SCRIPT,
            )
        except (Refused, Mismatch) as error:
            print("no value:", error)
        else:
            print(found.output)


if __name__ == "__main__":
    main()

# > Letter(name='Ada', mood='glad', topics=['numbers', 'engines'])
