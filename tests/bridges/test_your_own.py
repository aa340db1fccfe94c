"""The encoder on the page about bridges of one's own encodes the run that every protocol is held to."""

import re
from pathlib import Path

from antiphon.bridges.encoder import Encoder
from antiphon.spec.events import OutputTextDeltaEvent, RefusalDeltaEvent
from tests.bridges import golden_run

PAGE = Path(__file__).parents[2] / "docs" / "bridges" / "your-own.md"


def test_the_encoder_of_the_page_gives_the_text_of_a_run() -> None:
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, type[Encoder]] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    encoder = names["PlainTextEncoder"]()
    events = golden_run.events()
    told = b"".join(encoder.encode([event]) for event in events) + encoder.keepalive() + encoder.end()
    words = (each.delta for each in events if isinstance(each, OutputTextDeltaEvent | RefusalDeltaEvent))
    assert told.decode() == "".join(words) + "\n"
    assert encoder.content_type.startswith(b"text/plain")
