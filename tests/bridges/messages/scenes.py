"""What a model says to a client of the Messages API, on every wire, and what that client must make of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.providers.conformance.said import Called, Counted, Script, Text, Thought

Json = dict[str, Any]

WEATHER: Json = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
PARIS = '{"city": "Paris"}'
TOKYO = '{"city": "Tōkyō 東京"}'


@dataclass(frozen=True)
class Scene:
    """One answer to `asked`: the blocks without what differs between wires, and why it stopped."""

    script: Script
    blocks: list[Json]
    stop_reason: str
    asked: Json = field(default_factory=dict)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _call(city: str) -> Json:
    return {"type": "tool_use", "name": "get_weather", "input": {"city": city}}


SCENES: dict[str, Scene] = {
    "text": Scene(
        Script((Text("Grüße, 世界 🎼"),), usage=Counted(30, 7, cached=10)),
        [_text("Grüße, 世界 🎼")],
        "end_turn",
    ),
    "calls": Scene(
        Script(
            (
                Text("Let me look."),
                Called("get_weather", PARIS, "call_1"),
                Called("get_weather", TOKYO, "call_2"),
            ),
            "tool_calls",
        ),
        [_text("Let me look."), _call("Paris"), _call("Tōkyō 東京")],
        "tool_use",
        {"tools": [WEATHER], "tool_choice": {"type": "any"}},
    ),
    "thinking": Scene(
        Script((Thought("Where is Paris?", "c2ln"), Text("In France."))),
        [{"type": "thinking", "thinking": "Where is Paris?"}, _text("In France.")],
        "end_turn",
        {"thinking": {"type": "adaptive", "display": "summarized"}},
    ),
    "limit": Scene(Script((Text("Once upon"),), "length"), [_text("Once upon")], "max_tokens"),
    "filter": Scene(Script((Text("Well"),), "content_filter"), [_text("Well")], "refusal"),
}


def comparable(message: Json, without: Callable[[str], bool] = lambda name: False) -> list[Json]:
    """The blocks of a message without their ids and signatures, which every wire makes in its own way."""
    own = {"id", "signature", "data", "citations", "caller"}
    return [
        {name: value for name, value in block.items() if name not in own and not without(name)}
        for block in message["content"]
    ]
