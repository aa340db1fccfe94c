"""The events of a response over HTTP; in the background, a stream that drops is resumed."""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import replace

from msgspec import Struct, json

from antiphon.client import errors
from antiphon.client.transport.body_formats import EventPayload, Payloads
from antiphon.client.transport.http import Body, Clock, Http, HttpCall, path_to
from antiphon.client.transport.retry import pause_before_next
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response
from antiphon.stream.reader import Reader
from antiphon.stream.sse import EventTooLarge

_DRAIN = 0.2
"""Seconds that a finished stream may take to end, so that its connection can be used again."""


class _Numbered(Struct):
    sequence_number: int | None = None


class HttpSource:
    """One streamed response of `/responses`, from its beginning or resumed in its middle."""

    def __init__(self, http: Http, call: HttpCall, *, resumes: str = "", after: int = -1) -> None:
        self.reader = Reader()
        self._http = http
        self._call = call
        self._resumes = resumes
        self._last = after
        self._from = after
        self._attempts = 0
        self._clock: Clock | None = None
        self._body: Body | None = None
        self._payloads = Payloads()
        self._pending: deque[EventPayload] = deque()
        self._ended: list[AnyEvent] = []
        self._over = False
        self._heard = False
        self._closed = False
        self._received = 0  # by bodies before this one
        self.request_id = ""

    @property
    def response(self) -> Response:
        return self.reader.response

    async def open(self) -> None:
        self._clock = Clock(self._call.timeouts.total)
        await self._connect(self._call)

    def take(self) -> list[AnyEvent] | None:
        if self._ended:
            events, self._ended = self._ended, []
            return events
        while self._pending and not self.reader.finished:
            if events := self._read(self._pending.popleft()):
                return events
        return None if self.reader.finished else []

    async def wait(self) -> None:
        if self._over:
            await self._end()
            return
        assert self._body is not None
        try:
            piece = await self._body.next()
            self._over = piece is None
            self._pending += self._payloads.close() if piece is None else self._payloads.feed(piece)
        except (EventTooLarge, errors.UnexpectedAnswer) as error:
            raise self._broken_stream(str(error)) from None
        except (errors.ConnectionFailed, errors.TimedOut) as error:
            if isinstance(error, errors.TimedOut) and (error.limit == "total" or not self._resumable()):
                self.reader.close()
                raise
            await self._take_up(error)

    async def close(self) -> None:
        self._closed = True
        body, self._body = self._body, None
        if body is None:
            return
        try:
            if self.reader.finished:
                with suppress(errors.AntiphonError, TimeoutError):
                    async with asyncio.timeout(_DRAIN):
                        await body.read(65536)
        finally:
            await body.close()

    async def _connect(self, call: HttpCall) -> None:
        assert self._clock is not None
        self._body = await self._http.open(call, self._clock)
        self._body.received = self._received
        self.request_id = self._body.request_id or self.request_id
        self._payloads = Payloads()
        self._over = False

    def _read(self, payload: EventPayload) -> list[AnyEvent]:
        if payload.is_done:
            self.reader.feed_done()
            self._pending.clear()
            self._over = True
            return []
        if self._from >= 0 and (number := _number_of(payload.data)) is not None and number <= self._from:
            return []  # reported already, before the stream dropped
        event = self.reader.feed(payload.data, payload.event)
        if event is not None:
            self._heard = True
            self._last = max(self._last, event.sequence_number)
            self._attempts = 0
        return list(self.reader.events)

    async def _end(self) -> None:
        """The stream is over and the response is not."""
        if self.reader.error is not None:
            self.reader.close()
            self._ended = list(self.reader.events)
            return
        if not self._heard and self._body is not None and self._body.content_type != "text/event-stream":
            self.reader.close()
            kind = self._body.content_type or "no content type"
            raise errors.UnexpectedAnswer(
                f"the server sent {kind} where a stream of events was due; check the address"
            )
        await self._take_up(None)

    def _resumable(self) -> str:
        """The id under which the stream can be resumed; not once it was closed."""
        if self._closed:
            return ""
        if self._resumes:
            return self._resumes
        response = self.reader.response
        return response.id if self._heard and response.background and self._last >= 0 else ""

    async def _take_up(self, lost: errors.ConnectionFailed | errors.TimedOut | None) -> None:
        id = self._resumable()
        why = str(lost) if lost else "the stream ended before the response did"
        if not id:
            raise self._broken_stream(f"{why}; ask again, or use `background=True` to have streams resumed")
        assert self._clock is not None
        error = lost or errors.ConnectionFailed(why, sent=True)
        pause = pause_before_next(
            error, self._attempts, self._http.retries, repeatable=True, remaining=self._clock.remaining()
        )
        if pause is None:
            raise self._broken_stream(f"{why}; it could not be resumed after {self._attempts} attempts")
        self._attempts += 1
        await self._drop()
        await asyncio.sleep(pause)
        self._from = self._last
        query = {"stream": "true"} | ({"starting_after": str(self._last)} if self._last >= 0 else {})
        path = path_to("/responses", id)
        call = replace(self._call, method="GET", path=path, body=None, query=query, repeatable=True)
        try:
            await self._connect(call)
        except (errors.StatusError, errors.ConnectionFailed) as failed:
            raise self._broken_stream(f"{why}, and it could not be resumed: {failed}") from failed

    async def _drop(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            self._received = body.received
            await body.close()

    def _broken_stream(self, message: str) -> errors.StreamBroken:
        return errors.StreamBroken(message, self.reader.close())


def _number_of(data: str) -> int | None:
    try:
        return json.decode(data, type=_Numbered).sequence_number
    except UNREADABLE:
        return None
