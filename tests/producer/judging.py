"""What every produced stream is held to: the Auditor's rules, the schema, and agreement with the response."""

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.spec.codec import to_builtins
from antiphon.spec.events import AnyEvent, LifecycleEvent
from antiphon.spec.response import Response
from antiphon.stream.auditor import audit
from antiphon.stream.reader import Reader
from tests.spec.validators import EVENT_SCHEMAS, assert_valid_event, assert_valid_response


def assert_sound(events: Sequence[AnyEvent], response: Response | None = None) -> Response:
    """The response of a stream in which nothing is wrong."""
    payloads: list[dict[str, Any]] = [msgspec.json.decode(event.to_json()) for event in events]
    assert audit(payloads, extensions=True) == []
    plain = {"message", "function_call", "function_call_output", "reasoning"}
    reader = Reader()
    for payload in payloads:
        reader.feed(payload)
        items = [payload.get("item") or {}, *payload.get("response", {}).get("output", [])]
        vendor = any(item.get("type", "message") not in plain for item in items)
        if payload["type"] in EVENT_SCHEMAS and not vendor:
            assert_valid_event(payload)
    last = events[-1]
    assert isinstance(last, LifecycleEvent)
    assert last.is_terminal
    assert to_builtins(reader.response) == to_builtins(last.response)
    if response is not None:
        assert to_builtins(response) == to_builtins(last.response)
    return last.response


def assert_valid(response: Response) -> None:
    assert_valid_response(to_builtins(response))


def types(events: Sequence[AnyEvent]) -> list[str]:
    return [event.type.removeprefix("response.") for event in events]
