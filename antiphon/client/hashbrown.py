"""Answers Hashbrown's client in its frames from any Open Responses server, for a program that is its back
end.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import httpx
import msgspec

from antiphon.client.errors import AntiphonError, UsageError
from antiphon.client.settings import ServerAddress, Timeouts, resolve
from antiphon.client.tools import await_value
from antiphon.client.transport.answer_limits import UNPACKED, limit_answers
from antiphon.client.transport.body_formats import EventPayload, Payloads
from antiphon.client.transport.http import Body, Clock
from antiphon.spec.aliases import string
from antiphon.spec.codec import UNREADABLE, encode, to_builtins
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.events import EVENTS, AnyEvent
from antiphon.spec.request import encode_request
from antiphon.spec.response import Response
from antiphon.stream import aliases
from antiphon.stream.reader import Reader
from antiphon.stream.sse import EventTooLarge
from antiphon.wires import USER_AGENT
from antiphon.wires.hashbrown import frames
from antiphon.wires.hashbrown.messages import (
    AnyMessage,
    ErrorMessage,
    HashbrownBody,
    new_from,
    nothing_to_say,
    place_messages,
    read_body,
    read_thread,
    to_items,
    to_messages,
    to_request,
    unwrap_output,
)

_Json = dict[str, Any]
Transform = Callable[[_Json], _Json | Awaitable[_Json]]
LoadThread = Callable[[str], Sequence[Any] | Awaitable[Sequence[Any]]]
SaveThread = Callable[[list[_Json], str | None], str | Awaitable[str]]

ENDPOINT = "/v1/responses"
_SHOWN = 500
_LARGEST_REFUSAL = 64 * 1024
# The fields without which an event has no content. Missing ids and numbers can be made.
_MEANING = ("response", "item", "part", "annotation", "error", "delta", "text", "refusal", "arguments")
_ALSO = {"error": ("message", "code"), "delta": ("text",), "text": ("delta", "item"), "refusal": ("text",)}
_NEEDS: dict[str, tuple[str, ...]] = {
    kind: (name, *_ALSO.get(name, ()))
    for kind, cls in EVENTS.items()
    for name in _MEANING
    if name in cls.__struct_fields__
}


async def hashbrown_frames(
    request: Mapping[str, Any] | bytes,
    *,
    base_url: str,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    transform_request: Transform | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    timeouts: Timeouts | None = None,
    dialect: frames.FrameDialect = "generation",
    content_filter: frames.ContentFilter = "failed",
    preserve_chunk_boundaries: bool = False,
    threads: bool = True,
    load_thread: LoadThread | None = None,
    save_thread: SaveThread | None = None,
) -> AsyncGenerator[bytes, None]:
    """Answer one request of Hashbrown's client, in frames; send them as `application/octet-stream`.

    `request` is the body that the client sent. `transform_request` gets the request as it would go to the
    server, last of all, and gives the one that goes. Whatever goes wrong is a frame too. With `threads=False`
    there are no frames about threads, and a `threadId` means nothing.
    """
    writer = frames.frame_writer(
        dialect, content_filter=content_filter, preserve_chunk_boundaries=preserve_chunk_boundaries
    )
    try:
        body, messages = read_body(request if isinstance(request, bytes) else encode(request))
    except SpecError as error:
        yield writer.fail(error.payload)
        return
    thread: list[AnyMessage] = []
    if body.thread_id and (threads or body.loads_only):
        yield frames.THREAD_LOAD_START
        try:
            thread = await _load(load_thread if threads else None, body.thread_id)
        except Exception as error:  # whatever a function of the program's own raises
            yield frames.thread_not_loaded(_describe_error(error))
            return
        yield frames.thread_loaded(thread if body.loads_only else None)
        if body.loads_only:
            return
    reader, start = Reader(), new_from(thread, messages)
    try:
        address = _address(base_url, api_key)
        wire = await _wire(body, thread, messages, start, transform_request)
    except (SpecError, UsageError) as error:
        yield writer.fail(_payload(error))
        return
    source = _Source(address, headers or {}, transport, timeouts or Timeouts())
    async with aclosing(source.events(wire, reader)) as batches:
        async for batch in batches:
            if data := (writer.frames(batch) if isinstance(batch, list) else writer.fail(batch)):
                yield data
            if writer.ended:
                break
    if not (threads and save_thread and reader.finished and writer.succeeds(reader.response)):
        return
    yield frames.THREAD_SAVE_START
    kept = _thread_to_save([*thread, *messages[start:]], reader.response)
    yield await _save(save_thread, kept, body.thread_id or None)


async def _load(load_thread: LoadThread | None, id: str) -> list[AnyMessage]:
    if load_thread is None:
        raise LookupError(frames.NO_THREADS)
    return read_thread(await await_value(load_thread(id)))


def _payload(error: SpecError | UsageError) -> ErrorPayload:
    return error.payload if isinstance(error, SpecError) else ErrorPayload("invalid_request", str(error))


def _thread_to_save(before: list[AnyMessage], response: Response) -> list[_Json]:
    """Returns the messages of a thread to save: the earlier ones and the new ones, without errors."""
    messages = [*before, *to_messages(unwrap_output(response.output))]
    return [to_builtins(one) for one in messages if not isinstance(one, ErrorMessage)]


def endpoint(base_url: str) -> str:
    """Returns the URL to which requests go.

    >>> endpoint("http://127.0.0.1:8080/")
    'http://127.0.0.1:8080/v1/responses'
    """
    url, mark, query = base_url.partition("?")
    url = url.rstrip("/")
    if not url.endswith(ENDPOINT):
        url = url.removesuffix("/v1") + ENDPOINT
    return url + mark + query


def _address(base_url: str, api_key: str | None) -> ServerAddress:
    if not base_url:
        raise UsageError("`base_url` is missing: it says where the Open Responses server is")
    return resolve(endpoint(base_url), api_key or "")


async def _wire(
    body: HashbrownBody,
    thread: list[AnyMessage],
    messages: list[AnyMessage],
    start: int,
    transform: Transform | None,
) -> bytes:
    items = to_items([*place_messages(thread, name="thread"), *place_messages(messages, start)])
    if not messages or not items:
        raise nothing_to_say()
    wire: _Json = msgspec.json.decode(encode_request(to_request(body, items)))
    if transform is not None:
        wire = await await_value(transform(wire))
    return encode({**wire, "stream": True})


async def _save(save: SaveThread, messages: list[_Json], id: str | None) -> bytes:
    try:
        saved = await await_value(save(messages, id))
    except Exception as error:  # whatever a function of the program's own raises
        return frames.thread_not_saved(_describe_error(error))
    if id is not None and saved != id:
        return frames.thread_not_saved(frames.OTHER_THREAD)
    return frames.thread_saved(saved)


def _describe_error(error: Exception) -> str:
    where = f"{error.payload.param}: " if isinstance(error, SpecError) else ""
    return f"{where}{str(error) or type(error).__name__}"


class _Source:
    """One streamed request: yields batches of events, and the error that ended it, if there was one."""

    def __init__(
        self,
        address: ServerAddress,
        headers: Mapping[str, str],
        transport: httpx.AsyncBaseTransport | None,
        timeouts: Timeouts,
    ) -> None:
        self._address = address
        self._headers = {
            "User-Agent": USER_AGENT,
            "Accept": "text/event-stream",
            "Content-Type": "application/json",
            **address.headers(),
            **headers,
        }
        self._transport = transport
        self._timeouts = timeouts

    async def events(
        self, wire: bytes, reader: Reader
    ) -> AsyncGenerator[list[AnyEvent] | ErrorPayload, None]:
        limits, clock = self._timeouts, Clock(self._timeouts.total)
        waiting = httpx.Timeout(None, connect=limits.connect)
        try:
            async with httpx.AsyncClient(
                transport=self._transport,
                timeout=waiting,
                headers=UNPACKED,
                event_hooks={"response": [limit_answers()]},
            ) as http:
                url = httpx.URL(self._address.url, query=self._address.query.encode() or None)
                request = http.build_request("POST", url, content=wire, headers=self._headers)
                async with clock.within("read", limits.read):
                    answer = await http.send(request, stream=True)
                body = Body(answer, self._address, limits, clock)
                try:
                    if not answer.is_success:
                        yield await self._read_refusal(answer, body)
                        return
                    async with aclosing(_read(body, reader)) as batches:
                        async for batch in batches:
                            yield batch
                finally:
                    await body.close()
        except (AntiphonError, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            said = self._address.redact(str(error)) or type(error).__name__
            yield ErrorPayload("network_error", f"{self._address.url}: {said}")

    async def _read_refusal(self, answer: httpx.Response, body: Body) -> ErrorPayload:
        text = self._address.redact((await body.read(_LARGEST_REFUSAL)).decode("utf-8", "replace"))
        try:
            phrase = HTTPStatus(answer.status_code).phrase
        except ValueError:
            phrase = answer.reason_phrase or "HTTP error"
        message = f"{phrase} ({answer.status_code})"
        fallback = ErrorPayload("http_error", f"{message}: {text[:_SHOWN]}" if text else message)
        return _own_error(text) or fallback


def _own_error(text: str) -> ErrorPayload | None:
    """The error object of a server that gives its errors a type."""
    try:
        error: Any = msgspec.json.decode(text, type=dict[str, Any]).get("error")
    except UNREADABLE:
        return None
    match error:
        case {"type": str(kind), "message": str(message)}:
            code, param = error.get("code"), error.get("param")
            named = str(code) if isinstance(code, str | int) and code else None
            return ErrorPayload(kind, message[:_SHOWN], named, param if isinstance(param, str) else None)
    return None


async def _read(body: Body, reader: Reader) -> AsyncGenerator[list[AnyEvent] | ErrorPayload, None]:
    payloads, heard = Payloads(), False
    while True:
        piece = await body.next()
        events: list[AnyEvent] = []
        error: ErrorPayload | None = None
        try:
            found = payloads.close() if piece is None else payloads.feed(piece)
        except EventTooLarge as large:
            found, error = [], ErrorPayload("invalid_response", str(large))
        over = piece is None
        for payload in found:
            heard = True
            if payload.is_done:
                over = True
                break
            error = _objection(payload)
            if error is not None:
                break
            reader.feed(payload.data, payload.event)
            events += reader.events
            if reader.finished:
                break
        if error is None and over and not reader.finished:
            error = _explain_early_end(heard, body.content_type)
        if events:
            yield events
        if error is not None:
            yield error
        if error is not None or reader.finished:
            return


def _explain_early_end(heard: bool, content_type: str) -> ErrorPayload:
    if heard:
        return ErrorPayload("stream_error", "the stream ended before the response did")
    kind = content_type or "no content type"
    return ErrorPayload("invalid_response", f"the server sent no events, and no body that has any ({kind})")


def _objection(payload: EventPayload) -> ErrorPayload | None:
    """Returns the error of a payload that cannot be read; an event of an unknown type is no error."""
    try:
        fields = aliases.split(payload.data)
    except aliases.BROKEN:
        return ErrorPayload("invalid_json", "the server sent an event that is not a JSON object")
    name = string(fields, "type") or payload.event or aliases.implied_type(fields)
    if not name:
        return ErrorPayload("invalid_event", "the server sent an event without a type")
    kind = aliases.event_type(name)
    needs = _NEEDS.get(kind, ())
    if needs and not any(one in fields for one in needs):
        return ErrorPayload("invalid_event", f"the server sent {kind} without `{needs[0]}`")
    return None
