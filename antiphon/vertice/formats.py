"""Single events as the text of server-sent events, for programs that write a stream by hand.

Each event is complete by the specification. The order is the caller's affair: a text needs its part
(`format_content_part_added` before it, `format_content_part_done` after it), and the last event the output.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from antiphon.spec.enums import ErrorType, ItemStatus, MessageRole
from antiphon.vertice.events import StreamEvent
from antiphon.vertice.types import Item, MessageItem, OutputTextContent, TokenUsage


def format_open_responses_event(event_type: str, data: Mapping[str, Any]) -> str:
    """Any event, from its fields; those of the specification that are missing are defaults."""
    return StreamEvent(**{**data, "type": event_type}).to_sse()


def format_response_created(response_id: str, model: str, seq: int) -> str:
    """The response begins."""
    return _lifecycle("created", seq, id=response_id, model=model)


def format_response_in_progress(response_id: str, seq: int, model: str = "") -> str:
    """The model is at work."""
    return _lifecycle("in_progress", seq, id=response_id, model=model)


def format_output_item_added(item_id: str, role: str, output_index: int, seq: int) -> str:
    """A message begins."""
    item = MessageItem(id=item_id, role=MessageRole(role))
    return _event("output_item.added", seq, output_index=output_index, item=item)


def format_content_part_added(item_id: str, output_index: int, content_index: int, seq: int) -> str:
    """The text of a message begins."""
    return _of_part("content_part.added", seq, item_id, output_index, content_index, part=OutputTextContent())


def format_output_text_delta(
    item_id: str, delta: str, output_index: int, content_index: int, seq: int
) -> str:
    """A piece of the text."""
    return _of_part("output_text.delta", seq, item_id, output_index, content_index, delta=delta)


def format_output_text_done(item_id: str, text: str, output_index: int, content_index: int, seq: int) -> str:
    """The whole text."""
    return _of_part("output_text.done", seq, item_id, output_index, content_index, text=text)


def format_content_part_done(item_id: str, text: str, output_index: int, content_index: int, seq: int) -> str:
    """The text of a message ends."""
    part = OutputTextContent(text)
    return _of_part("content_part.done", seq, item_id, output_index, content_index, part=part)


def format_output_item_done(
    item_id: str, item_type: str, role: str, text: str, output_index: int, seq: int
) -> str:
    """A message ends; other types have other fields, for which there is `format_open_responses_event`."""
    if item_type != "message":
        raise ValueError(f"expected the item type 'message', got {item_type!r}; use the event's own fields")
    item = MessageItem(
        id=item_id, role=MessageRole(role), status=ItemStatus.COMPLETED, content=[OutputTextContent(text)]
    )
    return _event("output_item.done", seq, output_index=output_index, item=item)


def format_response_completed(
    response_id: str, usage: Mapping[str, int], seq: int, *, model: str = "", output: Iterable[Item] = ()
) -> str:
    """The response ends as it should. `output` has the items that the stream told, each completed."""
    counted = msgspec.convert(usage, TokenUsage).balanced()
    return _lifecycle("completed", seq, id=response_id, model=model, output=[*output], usage=counted)


def format_response_failed(
    response_id: str, error_message: str, seq: int, *, model: str = "", output: Iterable[Item] = ()
) -> str:
    """The response fails. `output` has the items that the stream told, the last of them incomplete."""
    error = {"code": ErrorType.SERVER_ERROR, "message": error_message}
    return _lifecycle("failed", seq, id=response_id, model=model, output=[*output], error=error)


def _lifecycle(status: str, seq: int, **fields: Any) -> str:
    now = int(time.time())
    shown = ItemStatus.IN_PROGRESS if status == "created" else ItemStatus(status)
    ended = {"completed_at": now} if shown.is_terminal() else {}
    return _event(status, seq, response={"created_at": now, **fields, **ended, "status": shown})


def _of_part(name: str, seq: int, item_id: str, output_index: int, content_index: int, **fields: Any) -> str:
    place = {"item_id": item_id, "output_index": output_index, "content_index": content_index}
    return _event(name, seq, **place, **fields)


def _event(name: str, seq: int, **fields: Any) -> str:
    return format_open_responses_event(f"response.{name}", {"sequence_number": seq, **fields})
