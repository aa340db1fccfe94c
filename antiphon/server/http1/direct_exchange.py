"""An exchange on a connection of our own: the body as the parser hands it over, the answer as bytes."""

import asyncio
import http
from functools import lru_cache
from typing import TYPE_CHECKING

from antiphon.bridges.encoder import Headers
from antiphon.server.exchange import SKIPPED, Exchange, as_length
from antiphon.server.http1.parsed_head import ParsedHead
from antiphon.spec.limits import LARGE
from antiphon.wires.asgi import ClientGone
from antiphon.wires.pieces import Pieces, too_large

if TYPE_CHECKING:
    from antiphon.server.http1.connection import ClientConnection

BODY_HIGH_WATER = 64 * 1024
"""With more of a body in hand than this, nothing is read until somebody takes it."""

CLOSE = b"connection: close\r\n\r\n"
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in http.HTTPStatus
}


class DirectExchange(Exchange):
    """An exchange on a connection."""

    head: ParsedHead

    __slots__ = (
        "_begun",
        "_connection",
        "_has_sent_continue",
        "_more_follows",
        "_skipped",
        "is_answered",
        "keeps",
        "news",
    )

    def __init__(self, connection: "ClientConnection", head: ParsedHead) -> None:
        Exchange.__init__(self, head)
        self._connection = connection
        self.keeps = head.keeps
        """May the connection carry another request after this one?"""
        self.is_answered = False
        self.news: asyncio.Future[None] | None = None
        """Somebody waits for more of the request, or for its end."""
        self._has_sent_continue = False
        self._skipped = 0
        self._begun = b""
        """The head of the answer, written and not sent yet: it leaves with what follows."""
        self._more_follows = False
        """The head is out, and chunks follow."""

    # --- from the connection ------------------------------------------------------------------------------

    def feed(self, body: bytes) -> None:
        if self.is_answered:
            self._skip(body)
            return
        if not self.received:
            self.received = body
        else:
            if isinstance(self.received, bytes):
                self.received = Pieces(self.received)
            self.received.add(body)
        if self.news is not None:
            self.wake()
        elif len(self.received) > BODY_HIGH_WATER:
            self._connection.pause_reading()

    def _skip(self, body: bytes) -> None:
        """Most clients read an answer only when they have sent all, so that the rest is taken for a while."""
        self._skipped += len(body)
        if self._skipped > SKIPPED:
            self._connection.close()

    def wake(self) -> None:
        if (news := self.news) is not None:
            self.news = None
            if not news.done():
                news.set_result(None)

    def client_gone(self) -> None:
        super().client_gone()
        self.wake()

    def probe(self) -> bool:
        """Send what a client may skip, to find out whether it is there; False if there is no way to."""
        if not self.has_begun:
            if self.head.is_old:
                return False
            self._connection.write(_GO_ON)
        elif self.sign and not self.is_answered and self.has_room:
            self.put(self.sign)
        return True

    # --- for the routes -----------------------------------------------------------------------------------

    def over(self) -> None:
        self.received = b""  # a client may go on to send what was refused, and this waits for its end
        self._connection.exchange_ended(self)

    async def read(self, limit: int) -> None:
        declared = as_length(self.head.headers.get(b"content-length", b""))
        while not self.is_complete:
            if self.is_gone:
                raise ClientGone
            if max(len(self.received), declared) > limit:
                raise too_large(limit)
            self.hold(len(self.received), declared)
            await self._wait()
        self.hold(len(self.received))

    async def read_more(self) -> bytes:
        while not self.received and not self.is_complete:
            if self.is_gone:
                raise ClientGone
            await self._wait()
        came, self.received = self.received, b""
        return came if isinstance(came, bytes) else came.join()

    async def _wait(self) -> None:
        """Until more has come, or the end."""
        if self._waits_for_go_ahead():
            self._has_sent_continue = True
            self._connection.write(_GO_ON)
        self.news = asyncio.get_running_loop().create_future()
        self._connection.resume_reading()
        await self.news

    def _waits_for_go_ahead(self) -> bool:
        expected = self.head.headers.get(b"expect", b"").lower() == b"100-continue"
        return expected and not (self._has_sent_continue or self.head.is_old)

    async def send(self, status: int, headers: Headers, content_type: bytes | None, body: bytes) -> None:
        connection = self._connection
        if connection.write_blocked is not None:
            await connection.wait_until_drained()
        about = b""
        if content_type is not None:
            about = b"content-type: %b\r\ncontent-length: %d\r\n" % (content_type, len(body))
        begun = self._beginning(status, about, headers)
        self.is_answered = True
        if self.head.method == "HEAD":
            body = b""
        if len(body) > LARGE:  # to join a large one takes longer than a second write
            connection.write(begun)
            connection.write(body)
        else:
            connection.write(begun + body)

    def open(self, status: int, headers: Headers) -> None:
        about = b"" if self.head.is_old else b"transfer-encoding: chunked\r\n"
        self._begun = self._beginning(status, about, headers)
        self._connection.drop_parser()
        self._connection.flush_later(self)

    def put(self, chunk: bytes) -> bool:
        connection = self._connection
        if self._more_follows and len(chunk) <= LARGE:
            connection.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        else:
            self._write_chunk(chunk, last=False)
        return connection.write_blocked is None

    @property
    def has_room(self) -> bool:
        return self._connection.write_blocked is None

    async def ready(self) -> None:
        if self._connection.write_blocked is not None:
            await self._connection.wait_until_drained()

    async def finish(self, chunk: bytes = b"") -> None:
        if not self.is_answered:
            self.is_answered = True
            self._write_chunk(chunk, last=True)

    def _write_chunk(self, chunk: bytes, last: bool) -> None:
        """Write the first or the last of a stream, or whatever else is not simply one more chunk.

        A large chunk is written as it is, between what frames it: to join them would take its memory again.
        """
        before, after, self._begun = self._begun, b"", b""
        if self.head.method == "HEAD":
            chunk = b""
        elif not self.head.is_old:
            self._more_follows = not last
            if chunk:
                before, after = b"%b%x\r\n" % (before, len(chunk)), b"\r\n"
            if last:
                after += b"0\r\n\r\n"
        if len(chunk) <= LARGE:
            self._connection.write(b"%b%b%b" % (before, chunk, after))
            return
        for piece in (before, chunk, after):
            if piece:
                self._connection.write(piece)

    def flush(self) -> None:
        """Send the head, if it has waited for a body long enough."""
        if self._begun:
            self._connection.write(self._begun)
            self._begun = b""

    def _beginning(self, status: int, about: bytes, headers: Headers) -> bytes:
        connection = self._connection
        if connection.is_leaving or (not self.is_complete and self._waits_for_go_ahead()):
            self.keeps = False  # one that was not told to go on may never send its body
        usual = connection.state.default_headers
        if usual is not _usual.headers:
            _usual.headers, _usual.lines = usual, lines(usual)
        return b"".join(
            (
                STATUS.get(status) or b"HTTP/1.1 %d \r\n" % status,
                _usual.lines,
                about,
                b"x-request-id: ",
                self.request_id.encode(),
                b"\r\nx-antiphon-dialect: ",
                self.context.dialect.name.encode(),
                _target_line(target) if (target := self.target) else b"\r\n",
                lines(headers) if headers else b"",
                b"\r\n" if self.keeps else CLOSE,
            )
        )


@lru_cache(1000)
def _target_line(target: str) -> bytes:
    """The line of a target, after the one before it."""
    return b"\r\nx-antiphon-target: %b\r\n" % target.encode("latin-1", "replace")


class _Usual:
    """The lines that every answer has. The server makes new headers once a second, for the date in them."""

    __slots__ = ("headers", "lines")

    def __init__(self) -> None:
        self.headers: Headers = ()
        self.lines = b""


_usual = _Usual()


def lines(headers: Headers) -> bytes:
    parts: list[bytes] = []
    for name, value in headers:
        parts += name, b": ", value, b"\r\n"
    return b"".join(parts)
