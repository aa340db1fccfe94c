"""The answer of `/chat/completions`, whole or streamed, as the events and the response it would have been."""

import time
from collections import deque

from antiphon.client.errors import AntiphonError, ConnectionFailed, StreamBroken, TimedOut, UnexpectedAnswer
from antiphon.client.transport.http import MAX_BODY, Body, Clock, Http, HttpCall
from antiphon.client.transport.response_decoding import CHAT, VIA, refusal_in
from antiphon.spec.codec import encode, to_builtins
from antiphon.spec.decode import decode_response
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import AnyEvent
from antiphon.spec.initial_response import new_response
from antiphon.spec.request import Request
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Failure
from antiphon.wires.chat.chunks import model_of
from antiphon.wires.chat.reader import ChatFault, ChatReader


class _Reader(ChatReader, eq=False):
    """Keeps the fault of an answer that cannot be read to its end."""

    fault: ChatFault | None = None
    model: str = ""

    def describe(self, fault: ChatFault) -> ErrorPayload:
        said = fault.said
        if fault.kind != "reported":
            self.fault = fault
            return ErrorPayload("server_error", str(said))
        told = refusal_in(encode(said if isinstance(said, dict) else {"error": said}))
        return ErrorPayload(told.type or "server_error", told.message, told.code or None)

    def _data(self, data: bytes, line: bytes, is_last: bool) -> None:
        self.model = self.model or model_of(data)
        super()._data(data, line, is_last)


class ChatAnswer:
    """Bytes in, events out; what makes the answer unreadable is raised after the events before it."""

    def __init__(self, request: Request) -> None:
        started = new_response(request, model=request.model or "", now=time.time())
        started.store = False
        marked = to_builtins(started) | {VIA: CHAT}
        self._composer = Composer(decode_response(encode(marked)), clock=time.time)
        self._reader = _Reader()
        self._pending: deque[AnyDelta] = deque()

    @property
    def response(self) -> Response:
        return self._composer.snapshot()

    def feed(self, piece: bytes) -> None:
        self._put(self._reader.feed(piece))

    def end(self) -> None:
        """Nothing more will come."""
        self._put(self._reader.end())

    def whole(self, body: bytes) -> None:
        """An answer that came in one piece; a server that streams without being asked is understood too."""
        if body.lstrip()[:1] != b"{":
            self.feed(body)
            self.end()
            return
        self._reader.model = model_of(body)
        try:
            self._put(self._reader.whole(body))
        except ChatFault as fault:
            self._put([Failure(self._reader.describe(fault))])

    def take(self) -> list[AnyEvent] | None:
        """The events of the next thing that has come, if something has; None after the end."""
        while self._pending:
            if events := self._composer.feed((self._pending.popleft(),)):
                return events
        if self._composer.finished:
            return None
        if (fault := self._reader.fault) is None:
            return []
        if fault.kind == "closed":
            raise self.broken("the stream ended before the answer did")
        self.fail()
        raise UnexpectedAnswer(f"the server's answer is not a chat completion: {fault.said}")

    def fail(self) -> None:
        closed = "the stream ended before the response did"
        self._composer.fail(ErrorPayload("server_error", closed, code="upstream_closed"))

    def broken(self, message: str) -> AntiphonError:
        self.fail()
        return StreamBroken(f"{message}; ask again", self.response)

    def _put(self, deltas: list[AnyDelta]) -> None:
        if self._reader.model and not self._composer.response.model:
            self._composer.response.model = self._reader.model
        # The failure of an answer that cannot be read is an error of the client's, not one of the server's.
        self._pending += deltas[:-1] if self._reader.fault else deltas


def whole_answer(request: Request, body: bytes) -> Response:
    answer = ChatAnswer(request)
    answer.whole(body)
    while answer.take() is not None:
        pass
    return answer.response


class ChatSource:
    """The events of a streamed chat completion."""

    def __init__(self, http: Http, call: HttpCall, request: Request) -> None:
        self._http = http
        self._call = call
        self._answer = ChatAnswer(request)
        self._body: Body | None = None
        self.request_id = ""

    @property
    def response(self) -> Response:
        return self._answer.response

    async def open(self) -> None:
        self._body = await self._http.open(self._call, Clock(self._call.timeouts.total))
        self.request_id = self._body.request_id

    def take(self) -> list[AnyEvent] | None:
        return self._answer.take()

    async def wait(self) -> None:
        assert self._body is not None
        try:
            if self._body.content_type == "application/json":
                self._answer.whole(await self._body.read(MAX_BODY))
            elif (piece := await self._body.next()) is not None:
                self._answer.feed(piece)
            else:
                self._answer.end()
        except ConnectionFailed as error:
            raise self._answer.broken(str(error)) from None
        except (TimedOut, UnexpectedAnswer):
            self._answer.fail()
            raise

    async def close(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.close()
