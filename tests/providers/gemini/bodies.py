"""Bodies of `generateContent`, each held against the types of Google's SDK."""

from typing import Any

from antiphon.providers.base import Turn
from antiphon.providers.gemini.request import prepare
from antiphon.spec.codec import to_builtins
from tests.providers.compose import make_turn
from tests.providers.gemini.fake import mistakes

NEW, OLD = "gemini-3.5-flash", "gemini-2.5-flash"
PNG = "data:image/png;base64,iVBORw0KGgo="
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TIME: dict[str, Any] = {
    "type": "function",
    "name": "get_time",
    "parameters": {"type": "object", "properties": {}},
}
USER = {"role": "user", "content": "Hi"}


def build(request: dict[str, Any], model: str = NEW, **options: Any) -> tuple[dict[str, Any], Turn]:
    turn = make_turn({"input": "Hi", **request}, model=model, **options)
    body: dict[str, Any] = to_builtins(prepare(turn, "up").body)
    assert mistakes(body) == []
    return body, turn


def body(request: dict[str, Any], model: str = NEW) -> dict[str, Any]:
    return build(request, model)[0]


def receipts(turn: Turn) -> dict[str, str]:
    return {one.param: one.action for one in turn.receipts}
