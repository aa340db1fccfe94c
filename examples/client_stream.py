"""A response as it is being made: its reasoning, its words, and what it cost.

ANTIPHON_BASE_URL says which server to ask. The script in the instructions plays the model on a gateway with
the `script` provider; a real model needs none.
"""

from antiphon import Client, OutputTextDeltaEvent, ReasoningDeltaEvent

SCRIPT = """
```script
[{"reasoning": "A greeting, and a short one.", "chunk": 6}, {"text": "Good morning to you!", "chunk": 5},
 {"usage": {"input_tokens": 20, "output_tokens": 9}}]
```
"""


def main() -> None:
    with Client() as client, client.responses.stream("Greet me.", instructions="Be kind." + SCRIPT) as stream:
        for event in stream:
            if isinstance(event, ReasoningDeltaEvent):
                print(f"({event.delta})", end="", flush=True)
            elif isinstance(event, OutputTextDeltaEvent):
                print(event.delta, end="|", flush=True)
        response = stream.final()
    usage = response.usage
    print(f"\n{response.status}, {usage.total_tokens if usage else 'no'} tokens")


if __name__ == "__main__":
    main()

# > (A gree)(ting, )(and a )(short )(one.)Good |morni|ng to| you!|
# > completed, 29 tokens
