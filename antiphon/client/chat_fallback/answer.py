"""The answer of `/chat/completions`, whole or streamed, as the events and the response it would have been."""

import time
from collections import deque
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.client.errors import (
    AntiphonError,
    ConnectionFailed,
    StreamBroken,
    TimedOut,
    UnexpectedAnswer,
)
from antiphon.client.transport.body_formats import Payload, Payloads
from antiphon.client.transport.http import Body, Clock, Http, HttpCall
from antiphon.client.transport.response_decoding import CHAT, VIA, refusal_in
from antiphon.spec.codec import UNREADABLE, encode, to_builtins
from antiphon.spec.decode import decode_response
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import AnyEvent
from antiphon.spec.initial_response import new_response
from antiphon.spec.request import Request
from antiphon.spec.response import Response, Usage
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageDelta,
)
from antiphon.stream.sse import EventTooLarge

_REASONS: dict[str, FinishReason] = {
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Said(Struct):
    content: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    index: int | None = 0
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None


class _Counts(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chunk(Struct):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Counts | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatAnswer:
    """Chunks in, events out; a whole answer is one big chunk."""

    def __init__(self, request: Request) -> None:
        started = new_response(request, model=request.model or "", now=time.time())
        started.store = False
        marked = to_builtins(started) | {VIA: CHAT}
        self.composer = Composer(decode_response(encode(marked)), clock=time.time)
        self._reason: FinishReason | None = None

    def feed(self, data: bytes | str) -> list[AnyEvent]:
        """The events of one chunk; raises `UnexpectedAnswer` for what is none."""
        try:
            chunk = _decode(data)
        except UNREADABLE as error:
            raise UnexpectedAnswer(f"the server's answer is not a chat completion: {error}") from None
        if chunk.model and not self.composer.response.model:
            self.composer.response.model = chunk.model
        deltas = [delta for choice in chunk.choices or () if not choice.index for delta in self._said(choice)]
        if chunk.usage is not None:
            counts = chunk.usage
            deltas.append(UsageDelta(Usage.of(counts.prompt_tokens or 0, counts.completion_tokens or 0)))
        if chunk.error is not None:
            told = refusal_in(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
            deltas.append(Failure(ErrorPayload(told.type or "server_error", told.message, told.code or None)))
        return self.composer.feed(deltas)

    @property
    def has_reason(self) -> bool:
        """Has the server said why it stops? An answer that ends without a reason was cut."""
        return self._reason is not None

    def finish(self) -> list[AnyEvent]:
        """The server says that this was all."""
        return self.composer.feed((Finish(self._reason or "stop"),))

    def _said(self, choice: _Choice) -> list[AnyDelta]:
        said = choice.delta or choice.message or _Said()
        deltas: list[AnyDelta] = []
        if said.reasoning_content:
            deltas.append(ReasoningDelta(said.reasoning_content))
        if said.content:
            deltas.append(TextDelta(said.content))
        if said.refusal:
            deltas.append(RefusalDelta(said.refusal))
        for n, call in enumerate(said.tool_calls or ()):
            function = call.function or _Function()
            key = n if call.index is None else call.index
            deltas.append(CallDelta(key, function.arguments or "", function.name or "", call.id or ""))
        if choice.finish_reason:
            self._reason = _REASONS.get(choice.finish_reason, "stop")
        return deltas


def whole_answer(request: Request, body: bytes) -> Response:
    answer = ChatAnswer(request)
    answer.feed(body)
    if not answer.composer.finished:
        answer.finish()
    return answer.composer.snapshot()


class ChatSource:
    """The events of a streamed chat completion."""

    def __init__(self, http: Http, call: HttpCall, request: Request) -> None:
        self._http = http
        self._call = call
        self._answer = ChatAnswer(request)
        self._payloads = Payloads()
        self._pending: deque[Payload] = deque()
        self._over = False
        self._body: Body | None = None
        self.request_id = ""

    @property
    def response(self) -> Response:
        return self._answer.composer.snapshot()

    async def open(self) -> None:
        self._body = await self._http.open(self._call, Clock(self._call.timeouts.total))
        self.request_id = self._body.request_id

    def take(self) -> list[AnyEvent] | None:
        while self._pending and not self._answer.composer.finished:
            payload = self._pending.popleft()
            try:
                events = self._answer.finish() if payload.is_done else self._answer.feed(payload.data)
            except UnexpectedAnswer:
                self._fail()
                raise
            if events:
                return events
        return None if self._answer.composer.finished else []

    async def wait(self) -> None:
        assert self._body is not None
        if self._over:
            raise self._broken("the stream ended before the answer did")
        try:
            piece = await self._body.next()
            self._pending += self._payloads.close() if piece is None else self._payloads.feed(piece)
        except (ConnectionFailed, EventTooLarge) as error:
            raise self._broken(str(error)) from None
        except TimedOut:
            self._fail()
            raise
        if piece is None:
            self._over = True
            if self._answer.has_reason:
                self._pending.append(Payload("[DONE]", None))

    async def close(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.close()

    def _broken(self, message: str) -> AntiphonError:
        self._fail()
        return StreamBroken(f"{message}; ask again", self.response)

    def _fail(self) -> None:
        closed = "the stream ended before the response did"
        self._answer.composer.fail(ErrorPayload("server_error", closed, code="upstream_closed"))
