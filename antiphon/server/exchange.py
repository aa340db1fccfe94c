"""One HTTP request and its answer, whatever carries them: what the routes work with."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from antiphon.engine.engine import Caller
from antiphon.spec import ids
from antiphon.spec.errors import ErrorBody, ErrorPayload, SpecError, invalid_request

Header = tuple[bytes, bytes]
Headers = Sequence[Header]

JSON = b"application/json"
_NOBODY = Caller()
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


def request_id(headers: dict[bytes, bytes]) -> str:
    """The caller's own id, or a new one."""
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return ids.new_id("req_")


class Exchange(ABC):
    """`caller` is set once the gate has let the request in; names of headers are in lower case."""

    caller = _NOBODY
    params: Mapping[str, str] = {}
    """What the route found in the path."""
    extra_headers: Headers = ()
    task: asyncio.Task[None] | None = None
    """What handles it."""
    started = False
    """Has the head of the answer been sent?"""
    is_gone = False
    """Has the client left?"""
    _is_watched = False

    def __init__(self, method: str, path: str, query_string: bytes, headers: dict[bytes, bytes]) -> None:
        self.method = method
        self.path = path
        self.query_string = query_string
        self.headers = headers
        self.request_id = request_id(headers)

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else str(value, "latin-1")

    def query(self, name: str) -> str | None:
        values = parse_qs(str(self.query_string, "latin-1")).get(name)
        return values[-1] if values else None

    async def body(self, limit: int) -> bytes:
        """The JSON body; refused by its content type, or for its length."""
        given = self.headers.get(b"content-type", JSON)
        if given != JSON:
            kind = str(given, "latin-1").partition(";")[0].strip().lower()
            if kind != "application/json" and not kind.endswith("+json"):
                error = invalid_request(f"this endpoint takes application/json, not {kind[:100]}")
                raise SpecError(error.with_code("unsupported_media_type"), 415)
        body = await self.read(limit)
        if len(body) > limit:
            raise too_large(limit)
        if not body:
            raise SpecError(
                invalid_request("the request has no body; send a JSON object").with_code("no_body")
            )
        return body

    async def answer(
        self, body: bytes, status: int = 200, content_type: bytes = JSON, headers: Headers = ()
    ) -> None:
        self.started = True
        await self.send(status, (*headers, *self.extra_headers), content_type, body)

    async def empty(self, status: int = 204, headers: Headers = ()) -> None:
        self.started = True
        await self.send(status, (*headers, *self.extra_headers), None, b"")

    async def fail(self, error: ErrorPayload, status: int, headers: Headers = ()) -> None:
        await self.answer(ErrorBody.encode(self.caller.dialect.error(error)), status, headers=headers)

    async def open_stream(self, content_type: bytes, headers: Headers = ()) -> None:
        """The head of an answer that comes bit by bit; `headers` may say otherwise than these."""
        usual = {b"content-type": content_type, b"cache-control": b"no-cache", b"x-accel-buffering": b"no"}
        self.started = True
        await self.open(200, (*(usual | dict(headers)).items(), *self.extra_headers))

    async def watched(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work, and cancel it as soon as the client is gone."""
        task = self.task
        assert task is not None
        self._is_watched = True
        if self.is_gone:
            task.cancel()
        try:
            await work
        except asyncio.CancelledError:
            if not self.is_gone:
                raise
            task.uncancel()
            raise ClientGone from None
        finally:
            self._is_watched = False

    def left(self) -> None:
        """The client has gone."""
        self.is_gone = True
        if self._is_watched and self.task is not None:
            self.task.cancel()

    # --- what carries it ----------------------------------------------------------------------------------

    @abstractmethod
    async def read(self, limit: int) -> bytes:
        """The whole body; one that passes the limit is refused as soon as that can be seen."""

    @abstractmethod
    async def send(self, status: int, headers: Headers, content_type: bytes | None, body: bytes) -> None:
        """A whole answer, with its request id, and its length if it has a type."""

    @abstractmethod
    async def open(self, status: int, headers: Headers) -> None:
        """The head of an answer whose length nobody knows yet."""

    @abstractmethod
    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        """More of an answer, once the client has taken enough of what was written before."""

    def takes_more(self) -> bool:
        """May `put` be used now? The answer has begun, and the client has taken enough of it."""
        return False

    def put(self, chunk: bytes) -> None:
        """More of an answer, at once."""
        raise RuntimeError("ask `takes_more` first")


def declared_length(headers: dict[bytes, bytes]) -> int:
    given = headers.get(b"content-length", b"")
    return int(given) if given.isdigit() else 0


def too_large(limit: int) -> SpecError:
    return SpecError(
        invalid_request(f"the body is larger than {limit:,} bytes").with_code("body_too_large"), 413
    )
