"""From bytes to typed data: the public functions.

What a client sends is read strictly, and the first mistake is a `SpecError` that says where and what. What
a server sends is read tolerantly: a field that cannot be read is left out and named in `problems`.
"""

import codecs
import sys
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from antiphon.spec import limits
from antiphon.spec.aliases import Fields, string
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.error_paths import decode_error, describe, describe_raw, join, too_deep, walk, wrong
from antiphon.spec.errors import SpecError, invalid_request
from antiphon.spec.events import EVENTS, AnyEvent, ErrorEvent, Event, LifecycleEvent
from antiphon.spec.items import Item, Message
from antiphon.spec.long_json import is_deep, is_name, outline
from antiphon.spec.request import CompactRequest, Request, WebSocketCreate
from antiphon.spec.response import CompactResource, Response
from antiphon.spec.strict_decoder import StrictDecoder, is_settled
from antiphon.spec.tolerant_decoder import LenientDecoder, TolerantDecoder

S = TypeVar("S", bound=Struct)


class _OfMessages(Request):
    """A request that brings messages alone: then msgspec knows them without their `type`."""

    input: list[Message]  # type: ignore[assignment]


# The short cut: requests and events that hold no object with an alias which msgspec alone would not notice.
_PLAIN = [cls for cls in EVENTS.values() if not issubclass(cls, LifecycleEvent | ErrorEvent)]
_plain_request = msgspec.json.Decoder(Request).decode
_of_messages = msgspec.json.Decoder(_OfMessages).decode
_plain_event = msgspec.json.Decoder(reduce(or_, _PLAIN)).decode


def decode_request(
    body: bytes, *, max_bytes: int = limits.MAX_BODY, skipped: list[str] | None = None
) -> Request:
    """The body of `POST /v1/responses`.

    With `skipped`, texts among the items of the input are passed over, and listed there by their places.
    """
    if len(body) > limits.LARGE or len(body) > max_bytes:
        return _decoder(skipped).struct(Request, _check_body(body, max_bytes), "")
    # Of a body that cannot be too large, msgspec alone finds whatever would be refused.
    try:
        try:
            request = _plain_request(body)
        except UNREADABLE:
            request = msgspec.convert(_of_messages(body), Request, from_attributes=True)
        # Where nothing can be nested, nothing has to be looked for.
        is_flat = type(request.input) is str and not (request.tools or request.tool_choice or request.text)
        if is_flat or (is_settled(request) and not is_deep(body, limits.MAX_DEPTH)):
            return request
    except UNREADABLE:
        pass  # it says something in other words, or something wrong
    return _decoder(skipped).struct(Request, _check_body(body, max_bytes), "")


def decode_websocket_create(
    body: bytes, *, max_bytes: int = limits.MAX_BODY, skipped: list[str] | None = None
) -> WebSocketCreate:
    """A WebSocket message; what only makes sense over HTTP is ignored, because clients do send it."""
    decoder = _decoder(skipped)
    fields = decoder.split(_check_body(body, max_bytes), "")
    if string(fields, "type") != "response.create":
        what = describe_raw(fields["type"]) if "type" in fields else "nothing"
        raise wrong("type", f"expected 'response.create', got {what}")
    for name in ("stream", "stream_options", "background"):
        fields.pop(name, None)
    return decoder.fields(WebSocketCreate, fields, "")


def decode_compact_request(body: bytes, *, max_bytes: int = limits.MAX_BODY) -> CompactRequest:
    """The body of `POST /v1/responses/compact`."""
    return decode_body(CompactRequest, body, max_bytes=max_bytes)


def decode_body(shape: type[S], body: bytes, *, max_bytes: int = limits.MAX_BODY) -> S:
    """Any other body, read with the same care."""
    return StrictDecoder().struct(shape, _check_body(body, max_bytes), "")


def split_body(body: bytes, *, max_bytes: int = limits.MAX_BODY) -> Fields:
    """The fields of a body in other words than the specification's, as they came."""
    return StrictDecoder().split(_check_body(body, max_bytes), "")


def decode_item(raw: bytes, *, path: str = "", strict: bool = False) -> Item:
    """One item. With `strict`, a duplicate key is an error; otherwise the last one counts."""
    _check_body(raw, limits.MAX_BODY)
    if strict:
        _refuse_duplicates(raw, path)
    return StrictDecoder().item(Raw(raw), path)


def decode_items(raw: bytes, *, path: str = "input") -> list[Item]:
    return StrictDecoder().items(Raw(_check_body(raw, limits.MAX_BODY)), path)


def decode_stored_items(raw: bytes) -> list[Item]:
    """Items that this package wrote itself: no second look at what was checked when it came in."""
    return TolerantDecoder(max_shapes=sys.maxsize).items(Raw(raw), "input")


def decode_response(raw: bytes | Raw, problems: list[str] | None = None) -> Response:
    """A response of any server; missing keys take their defaults, and only a non-object is an error."""
    return TolerantDecoder(problems).struct(Response, _utf8(raw), "")


def decode_compact_resource(raw: bytes | Raw, problems: list[str] | None = None) -> CompactResource:
    return TolerantDecoder(problems).struct(CompactResource, _utf8(raw), "")


def decode_output_item(raw: bytes | Raw, problems: list[str] | None = None) -> Item:
    """An item of any server's output; only a non-object is an error."""
    return TolerantDecoder(problems).item(Raw(_utf8(raw)), "")


def decode_event(raw: bytes, problems: list[str] | None = None, *, event_type: str = "") -> AnyEvent:
    """An event of any server; `event_type`, from the SSE event line, counts when the payload has no type."""
    with suppress(*UNREADABLE):
        event: Event = _plain_event(raw)
        return event
    decoder = TolerantDecoder(problems)
    fields = decoder.split(_utf8(raw), "")
    kind = string(fields, "type") or event_type
    if kind in EVENTS:
        return decoder.fields(EVENTS[kind], fields, "")
    return decoder.other_event(kind, fields)


def _decoder(skipped: list[str] | None) -> StrictDecoder:
    return StrictDecoder() if skipped is None else LenientDecoder(skipped)


def _check_body(body: bytes, max_bytes: int) -> bytes:
    if len(body) > max_bytes:
        message = f"the body has {len(body):,} bytes; the limit is {max_bytes:,}"
        raise SpecError(invalid_request(message).with_code("body_too_large"), 413)
    if not body or (len(body) <= limits.LARGE and body.isspace()):
        empty = invalid_request("the body is empty; expected a JSON object")
        raise SpecError(empty.with_code("invalid_json"))
    body = _utf8(body)
    if len(body) > limits.MAX_FIELD_NAME:
        _check_outline(body)
    return body


def _check_outline(body: bytes) -> None:
    """Refuse what takes the decoder too long."""
    found = outline(body, limits.MAX_VALUES)
    message = ""
    if found.values > limits.MAX_VALUES:
        code, message = "too_many_values", f"more than {limits.MAX_VALUES:,} JSON values and field names"
    elif found.escapes > limits.MAX_ESCAPES:
        advice = "send text as UTF-8 and not as \\u escapes"
        code, message = "too_many_escapes", f"more than {limits.MAX_ESCAPES:,} escapes; {advice}"
    elif found.outside > limits.MAX_OUTSIDE:
        advice = "send it without indentation"
        code = "too_much_space"
        message = f"more than {limits.MAX_OUTSIDE:,} bytes of spaces and numbers; {advice}"
    elif any(one.end - one.start > limits.MAX_FIELD_NAME and is_name(body, one) for one in found.long):
        code, message = "name_too_long", f"a field name of more than {limits.MAX_FIELD_NAME:,} bytes"
    if message:
        raise SpecError(invalid_request(f"the body has {message}").with_code(code))


def _utf8(raw: bytes | Raw) -> bytes:
    """The same bytes, if they are UTF-8; checked in pieces, because only the verdict is wanted."""
    body = bytes(raw)
    if not body.isascii():
        decoder = codecs.getincrementaldecoder("utf-8")()
        view = memoryview(body)
        try:
            for start in range(0, len(body), 65536):
                decoder.decode(view[start : start + 65536])
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise decode_error(error, None, body, "") from None
    return body


def _refuse_duplicates(raw: bytes, path: str) -> None:
    try:
        for where, value in walk(raw, path):
            seen: set[str] = set()
            for name, _ in value if isinstance(value, tuple) else ():
                if name in seen:
                    twice = f"duplicate Open Responses field {describe(name)}"
                    raise wrong(join(where, name), twice, "duplicate_field")
                seen.add(name)
    except RecursionError:
        raise too_deep(path) from None
    except ValueError:
        return  # not JSON: the item's own reading says so better
