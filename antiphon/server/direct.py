"""An exchange on a connection of our own: the body as the parser hands it over, the answer as bytes."""

import asyncio
import http
from typing import TYPE_CHECKING
from urllib.parse import unquote

import httptools

from antiphon.server.exchange import ClientGone, Exchange, Headers, declared_length, too_large

if TYPE_CHECKING:
    from antiphon.server.protocol import Connection

BODY_HIGH_WATER = 64 * 1024
"""With more of a body in hand than this, nothing is read until somebody takes it."""
SKIPPED = 256 * 1024 * 1024
"""As much as a client may send of a request that has its answer."""

_STATUS = {status.value: b"%d %b" % (status.value, status.phrase.encode()) for status in http.HTTPStatus}


class DirectExchange(Exchange):
    """An exchange on a connection."""

    is_complete = False
    """Has all of the request come?"""
    is_answered = False
    _size = 0
    _body: bytes | bytearray = b""
    _was_told_to_go_on = False
    _news: asyncio.Future[None] | None = None
    _is_chunked = False
    _goes_on = False
    """The head is out, and chunks follow."""
    _head = b""
    """Written, and not sent yet: it leaves with what follows."""

    def __init__(
        self,
        connection: "Connection",
        method: str,
        url: bytes,
        headers: dict[bytes, bytes],
        *,
        is_old: bool,
        keeps: bool,
    ) -> None:
        if not url.startswith(b"/"):
            url = _origin_form(url)
        path, _, query = url.partition(b"?")
        text = path.decode("latin-1")
        super().__init__(method, unquote(text) if "%" in text else text, query, headers)
        self.keeps = keeps
        """May the connection carry another request after this one?"""
        self._connection = connection
        self.is_old = is_old
        """Does it know no chunks?"""

    # --- from the connection ------------------------------------------------------------------------------

    def feed(self, body: bytes) -> None:
        if self.is_answered:
            self._skip(body)
            return
        if not self._size:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body
        self._size += len(body)
        if self._news is not None:
            self._tell()
        elif self._size > BODY_HIGH_WATER:
            self._connection.pause_reading()

    def _skip(self, body: bytes) -> None:
        """Most clients read an answer only when they have sent all, so that the rest is taken for a while."""
        self._size += len(body)
        if self._size > SKIPPED:
            self._connection.close()

    def complete(self) -> None:
        self.is_complete = True
        if self._news is not None:
            self._tell()

    def left(self) -> None:
        super().left()
        self._tell()

    # --- for the routes -----------------------------------------------------------------------------------

    async def read(self, limit: int) -> bytes:
        if not self.is_complete:
            await self._rest(limit)
        body, self._body = bytes(self._body), b""
        return body

    async def _rest(self, limit: int) -> None:
        """Wait for all of a body that did not come with its head."""
        declared = declared_length(self.headers)
        while not self.is_complete:
            if self.is_gone:
                raise ClientGone
            if max(self._size, declared) > limit:
                raise too_large(limit)
            if self._waits_for_go_ahead():
                self._was_told_to_go_on = True
                self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._news = asyncio.get_running_loop().create_future()
            self._connection.resume_reading()
            await self._news

    def _waits_for_go_ahead(self) -> bool:
        expected = self.headers.get(b"expect", b"").lower() == b"100-continue"
        return expected and not (self._was_told_to_go_on or self.is_old)

    async def send(self, status: int, headers: Headers, content_type: bytes | None, body: bytes) -> None:
        connection = self._connection
        if connection.clogged is not None:
            await connection.drained()
        about = b""
        if content_type is not None:
            about = b"content-type: %b\r\ncontent-length: %d\r\n" % (content_type, len(body))
        begun = self._begun(status, about, headers)
        self.is_answered = True
        connection.write(begun if self.method == "HEAD" else begun + body)

    async def open(self, status: int, headers: Headers) -> None:
        self._is_chunked = not self.is_old
        about = b"transfer-encoding: chunked\r\n" if self._is_chunked else b""
        self._head = self._begun(status, about, headers)
        self._connection.settle()
        self._connection.soon(self)

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        connection = self._connection
        if connection.clogged is not None:
            await connection.drained()
        if chunk and self._goes_on and not last:
            connection.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        elif not self.is_answered:
            self.is_answered = last
            connection.write(self._framed(chunk, last))

    def takes_more(self) -> bool:
        return self._goes_on and self._connection.clogged is None

    def put(self, chunk: bytes) -> None:
        self._connection.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def _framed(self, chunk: bytes, last: bool) -> bytes:
        """The first and the last of a stream, and whatever else is not simply one more chunk."""
        head, self._head = self._head, b""
        if self.method == "HEAD":
            return head
        if not self._is_chunked:
            return head + chunk
        self._goes_on = not last
        framed = b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunk else b""
        return b"%b%b%b" % (head, framed, b"0\r\n\r\n" if last else b"")

    def flush(self) -> None:
        """Send the head, if it has waited for a body long enough."""
        if self._head:
            self._connection.write(self._head)
            self._head = b""

    def _begun(self, status: int, about: bytes, headers: Headers) -> bytes:
        connection = self._connection
        named = b"%bx-request-id: %b\r\n" % (about, self.request_id.encode("latin-1"))
        if headers:
            named += lines(headers)
        if connection.is_leaving or (not self.is_complete and self._waits_for_go_ahead()):
            self.keeps = False  # one that was not told to go on may never send its body
        return head(status, _usual(connection.state.default_headers) + named, keeps=self.keeps)

    def _tell(self) -> None:
        if (news := self._news) is not None:
            self._news = None
            if not news.done():
                news.set_result(None)


def head(status: int, fields: bytes, *, keeps: bool) -> bytes:
    end = b"\r\n" if keeps else b"connection: close\r\n\r\n"
    return b"HTTP/1.1 %b\r\n%b%b" % (_STATUS.get(status) or b"%d " % status, fields, end)


class _Usual:
    """The lines that every answer has. The server makes new headers once a second, for the date in them."""

    headers: Headers = ()
    lines = b""


def _usual(headers: Headers) -> bytes:
    if headers is not _Usual.headers:
        _Usual.headers, _Usual.lines = headers, lines(headers)
    return _Usual.lines


def lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def _origin_form(url: bytes) -> bytes:
    """The path and the query of a target that names its host too, as proxies send it."""
    try:
        parts = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return b"/" + url
    return b"%b?%b" % (parts.path or b"/", parts.query or b"")
