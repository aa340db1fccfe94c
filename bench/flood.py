"""A gateway whose model says 100 kB of Markdown in 10,000 deltas, as fast as it can, for the two screens."""

import json
import sys
from itertools import count
from pathlib import Path

from bench.processes import Program, free_port

DELTAS = 10_000
PIECE = 10
"""Characters of a delta."""
LAST_WORDS = "Here the answer ends."
_VERSE = """\
## Verse {n}

Verse {n} is sung by the **first** choir, and the *second* one answers it from across the nave: `amen`.

- the first voice of {n}
- the second voice of {n}

"""
_CODE = """\
```python
def verse_{n}(choir: str) -> str:
    \"\"\"What {n} answers.\"\"\"
    return f"{{choir}} sings {n}"
```

"""
_TABLE = """\
| verse | choir | voices |
|---|---|---|
| {n} | first | {n} |
| {n} | second | 4 |

"""
_CONFIG = """
default_model = "demo/flood"
[providers.demo]
type = "script"
file = "script.toml"
[local]
enabled = false
[server]
discover = false
[store]
path = "{data}"
"""


def text() -> str:
    """Numbered verses with lists, now and then code or a table, and the last words: exactly 100 kB."""
    size = DELTAS * PIECE - len(LAST_WORDS)
    said = ""
    for n in count(1):
        verse = _VERSE.format(n=n)
        if n % 5 == 0:
            verse += (_CODE if n % 2 else _TABLE).format(n=n)
        if len(said) + len(verse) > size - 2:
            return said + "." * (size - 2 - len(said)) + "\n\n" + LAST_WORDS
        said += verse
    raise AssertionError


def verses() -> int:
    return text().count("## Verse")


def gateway(where: Path) -> Program:
    """It floods when it is asked to "Begin.", and answers shortly to everything else."""
    whole, short = json.dumps(text()), json.dumps("A *short* answer, sung by `one` voice. " * 2)
    (where / "script.toml").write_text(
        f'[[turns]]\nwhen = {{ contains = "Begin." }}\nsteps = [{{ text = {whole}, chunk = {PIECE} }}]\n'
        f"[[turns]]\nsteps = [{{ text = {short}, chunk = 4 }}]\n"
    )
    config = where / "antiphon.toml"
    config.write_text(_CONFIG.format(data=where / "data"))
    port = free_port()
    command = [sys.executable, "-m", "antiphon", "serve", "--config", str(config), "--port", str(port)]
    return Program("gateway", command, port, log=where / "output.log")
