"""HTTP/1.1 of our own: httptools parses, and an exchange is handed to the application without ASGI between.

A small whole answer leaves in one write, and a departed client is noticed without a task that looks out for
it. No timer in the usual case: one sweep (`GatewayServer._sweep`) checks all connections. uvicorn accepts
connections and drives the server loop; `process.py` has socket and signals, `websockets.py` extends its
WebSockets.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.server import ServerState

from antiphon.server.app import App
from antiphon.server.exchange import IDEMPOTENCY_KEY, LINGER_TIMEOUT, two_hosts_error, two_keys_error
from antiphon.server.http1.direct_exchange import CLOSE, STATUS, DirectExchange, lines
from antiphon.server.http1.parsed_head import LOWERED, ParsedHead, parsed_head
from antiphon.spec.errors import ErrorBody, ErrorPayload, SpecError

HEAD_LIMIT = 64 * 1024
IDLE = 75.0
"""Seconds that a connection may wait for its next request."""
READ_TIMEOUT = 60.0
"""Seconds that a client may be silent in the middle of a request."""
STUCK = 300.0
"""Seconds that a client may take nothing of what is written for it."""

_lowered = LOWERED.get  # `[]` of a class that is derived from dict takes much longer
_PIPELINE = 8
"""With more requests than this in hand, nothing is read until some are answered."""
_MOST = 1000
"""As many requests as may come in one piece."""
_PROBES = 3
"""How often a client that has closed its sending side is asked again whether it is still there."""
_BETWEEN_PROBES = 0.1
"""Seconds before the first time; then twice as many each time."""
_LONGEST_READ = 256 * 1024
"""asyncio and uvloop pass no more at once."""
_BAD = ErrorPayload("invalid_request", "this is not a request of HTTP/1.1", code="invalid_http")
_LONG = ErrorPayload(
    "invalid_request",
    f"the request has more than {HEAD_LIMIT // 1024} kB of headers",
    code="headers_too_large",
)
_MANY = ErrorPayload(
    "too_many_requests", f"more than {_MOST:,} requests at once; wait for answers", code="pipeline_too_long"
)
_HANDSHAKE = ErrorPayload(
    "invalid_request",
    "a WebSocket begins with a GET that has no body, and no long or very many headers",
    code="invalid_handshake",
)


class ClientConnection(asyncio.Protocol):
    """One client. Requests that come before the last one was answered wait for their turn."""

    __slots__ = (
        "_app",
        "_bytes_since_body",
        "_current",
        "_ended",
        "_handshake",
        "_has_eof",
        "_heard",
        "_ignores_input",
        "_is_in_the_middle",
        "_is_paused",
        "_loop",
        "_parser",
        "_piece",
        "_receiving",
        "_refusal_bytes",
        "_repeated",
        "_taken",
        "_unsent",
        "_url",
        "_uvicorn",
        "_waiting",
        "fields",
        "is_leaving",
        "on_url",
        "state",
        "transport",
        "write",
        "write_blocked",
    )

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.state = server_state
        self.transport: asyncio.Transport | None = None
        self._uvicorn = (config, server_state, app_state)
        self._app = cast(App, config.app)
        self._loop = _loop or asyncio.get_running_loop()
        self._parser: httptools.HttpRequestParser | None = None
        self._ignores_input = False
        """Nothing that comes now can be understood, or is for us."""
        self._url: list[bytes] = []
        """What has come of it, in a head that comes in pieces."""
        self.fields: dict[bytes, bytes] = {}
        """The headers of what comes; then its trailers, which nobody reads."""
        self._repeated: list[tuple[bytes, bytes]] = []
        """What the last of several headers of one name has replaced."""
        self.on_url = self._url.append  # called by the parser, without a frame of ours
        self._is_in_the_middle = False
        """A request has begun to come, and not ended."""
        self._bytes_since_body = 0
        """How much came since the last bit of a body: of a head, or around what is in chunks."""
        self._piece = 0
        """How much the parser was given at once, the last time."""
        self._heard = self._taken = self._loop.time()
        self._unsent = 0
        """How much the client had not taken at the last look."""
        self._ended = 0.0
        """Since when the client may only read."""
        self._receiving: DirectExchange | None = None
        self._current: DirectExchange | None = None
        self._waiting: list[DirectExchange] = []
        self._refusal_bytes = b""
        """What follows the answers to all that waits."""
        self._handshake: tuple[bytes, bytes] | None = None
        """The last that waits wants to be a WebSocket: what it said, and whatever came behind that."""
        self._has_eof = False
        """The client has closed its side."""
        self.write_blocked: asyncio.Event | None = None
        """There while the client does not take what is written; set when it does again, or is gone."""
        self.write: Callable[[bytes], object] = _nowhere
        """The transport's own, while there is one."""
        self._is_paused = False
        self.is_leaving = False

    # --- for the server -----------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Close as soon as there is nothing more to answer."""
        self.is_leaving = True
        if self._current is None and not self._waiting:
            self.close()

    def close_if_silent(self, now: float) -> None:
        """Close it if the client has kept us waiting for too long."""
        transport, current = self.transport, self._current
        if transport is None:
            return
        if self._is_stuck(transport.get_write_buffer_size(), now):
            transport.abort()
            return
        if self._ended:
            limit = LINGER_TIMEOUT
        elif current is not None and current.is_complete:
            return
        elif current is not None or self._is_in_the_middle:
            limit = READ_TIMEOUT
        else:
            limit = IDLE
            self.fields.clear()
        if now - (self._ended or self._heard) > limit and not self._is_paused:
            self.close()

    def _is_stuck(self, unsent: int, now: float) -> bool:
        if not unsent or unsent < self._unsent:
            self._taken = now
        self._unsent = unsent
        return now - self._taken > STUCK

    # --- for the exchange ---------------------------------------------------------------------------------

    async def wait_until_drained(self) -> None:
        """Wait until the client has taken enough."""
        while self.write_blocked is not None:
            await self.write_blocked.wait()

    def resume_reading(self) -> None:
        if self._is_paused and self.transport is not None and not self.transport.is_closing():
            self._is_paused = False
            self._heard = self._loop.time()
            self.transport.resume_reading()

    def pause_reading(self) -> None:
        if not self._is_paused and self.transport is not None and not self.transport.is_closing():
            self._is_paused = True
            self.transport.pause_reading()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def drop_parser(self) -> None:
        """A long answer begins: a parser between two requests would wait for nothing all the while."""
        if not self._is_in_the_middle:
            self._parser = None
            self.fields.clear()

    def flush_later(self, request: DirectExchange) -> None:
        self._loop.call_soon(request.flush)

    def exchange_ended(self, request: DirectExchange) -> None:
        """It has its answer, or gets none; on to the next."""
        self._current = None
        if not request.is_answered:
            self.close()
        elif not request.keeps or self.is_leaving:
            self._close_gently()
        elif self._waiting:
            self._begin()
        elif self._ignores_input:
            self._close_gently(self._refusal_bytes)
        elif request.is_complete:
            self._receiving = None
        if self._is_paused and len(self._waiting) <= _PIPELINE and self._handshake is None:
            self.resume_reading()

    # --- for the event loop -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.write = self.transport.write
        self.state.connections.add(cast(Any, self))

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        self._heard = self._loop.time()
        self._piece = len(data)
        parser = self._parser
        if parser is None:
            parser = self._parser = httptools.HttpRequestParser(self)
        try:
            try:
                parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._upgrade(memoryview(data)[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            known = error.__context__ if isinstance(error.__context__, SpecError) else None
            self._refuse(*((_BAD, 400) if known is None else (known.payload, known.status)))
            return
        if self._is_in_the_middle:
            self._bytes_since_body += self._piece
            if self._bytes_since_body > HEAD_LIMIT:
                self._refuse(_LONG, 431)
                return
        if self._waiting:
            if self._current is None:
                self._begin()
            if len(self._waiting) > _PIPELINE:
                self.pause_reading()
                if len(self._waiting) > _MOST:
                    del self._waiting[_MOST:]
                    self._refuse(_MANY, 429)

    def eof_received(self) -> bool:
        """The client has closed its sending side: it may still read its answer, or be gone altogether."""
        self._ignores_input = self._has_eof = True
        current = self._current
        if current is None or not current.is_complete or self._ended:
            return False
        self._probe(_PROBES)
        return True

    def _probe(self, more: int) -> None:
        """Write what a client skips: one that is gone answers with a reset, which the next write notices."""
        current = self._current
        if current is None or self.transport is None or self.transport.is_closing():
            return
        if not current.probe():
            current.client_gone()
        elif more:
            self._loop.call_later(_BETWEEN_PROBES * 2 ** (_PROBES - more), self._probe, more - 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self.state.connections.discard(cast(Any, self))
        self._parser = self._receiving = self.transport = None
        self._ignores_input = True
        self.write = _nowhere
        current = self._current
        if current is not None and current.task is not None:
            # What still ends must not be thrown away, and the server waits for it.
            self.state.tasks.add(current.task)
            current.task.add_done_callback(self.state.tasks.discard)
            current.client_gone()
        self._waiting.clear()
        self.resume_writing()

    def pause_writing(self) -> None:
        self.write_blocked = asyncio.Event()

    def resume_writing(self) -> None:
        if self.write_blocked is not None:
            self._taken = self._loop.time()
            self.write_blocked.set()
            self.write_blocked = None

    # --- for the parser -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.fields:
            self.fields = {}
        if self._repeated:
            self._repeated.clear()
        self._is_in_the_middle = True
        # The piece that it begins in may have the end of a long body too.
        self._bytes_since_body = 0 if self._receiving is None else -_LONGEST_READ

    def on_header(self, name: bytes, value: bytes) -> None:
        name, fields = _lowered(name) or LOWERED[name], self.fields
        if name in fields:
            self._repeated.append((name, fields[name]))
        fields[name] = value.rstrip()

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        head = parsed_head(self._parser, b"".join(self._url), self.fields)
        self._url.clear()
        # A head is not longer than the pieces that it came in.
        if self._repeated or not 0 <= self._bytes_since_body <= HEAD_LIMIT - self._piece:
            self._check(head)
        self.fields = {}  # for its trailers, which are not of the head
        self._receiving = request = DirectExchange(self, head)
        self._waiting.append(request)

    def on_body(self, body: bytes) -> None:
        assert self._receiving is not None
        self._bytes_since_body = -_LONGEST_READ
        self._receiving.feed(body)

    def on_message_complete(self) -> None:
        request = self._receiving
        assert request is not None
        self._is_in_the_middle = False
        request.is_complete = True
        if request.news is not None:
            request.wake()

    # --- within -------------------------------------------------------------------------------------------

    def _check(self, head: ParsedHead) -> None:
        """Refuse one that is too long, though it came in one piece, or that has two hosts or two keys."""
        fields, repeated = self.fields, self._repeated
        size = len(head.url) + len(b": ".join((*fields, *fields.values())))
        if repeated:
            size += sum(len(name) + len(value) + 4 for name, value in repeated)
            if any(name == b"host" for name, _ in repeated):
                raise two_hosts_error()
            if any(name == IDEMPOTENCY_KEY for name, _ in repeated):
                head.refusal = two_keys_error()
        if size > HEAD_LIMIT:
            raise SpecError(_LONG, 431)

    def _begin(self) -> None:
        current = self._waiting.pop(0)
        if self._handshake is not None and not self._waiting:
            self._hand_over(*self._handshake)
            return
        self._current = current
        # Not by `create_task`: that spells a name for each, and a factory may run it before it is known here.
        current.task = asyncio.Task(self._app.answer(current), loop=self._loop, name="request")

    def _refuse(self, error: ErrorPayload, status: int) -> None:
        """Nothing that follows can be understood; what was asked before is still answered."""
        self._ignores_input = True
        self._log(error, status)
        self._refusal_bytes, self._handshake = _encode_refusal(error, status), None
        broken = self._receiving
        if broken is not None and not broken.is_complete:
            if self._waiting:
                self._waiting.pop()
            elif broken is self._current and not broken.has_begun:
                broken.is_answered = True
                broken.client_gone()
                self._close_gently(self._refusal_bytes)
            else:
                self._close_gently()  # it has its answer
        if self._current is None and self._waiting:
            self._begin()
        elif self._current is None:
            self._close_gently(self._refusal_bytes)

    def _log(self, error: ErrorPayload, status: int) -> None:
        if self._app.gateway is not None:
            self._app.gateway.requests.log_refusal(error, status)

    def _close_gently(self, words: bytes = b"") -> None:
        """The last answer is written; a client that still sends would lose it if we closed now."""
        transport = self.transport
        if transport is None or transport.is_closing() or self._ended:
            return
        if words:
            self.write(words)
        has_more = self._ignores_input or self._is_paused or self._waiting or self._is_in_the_middle
        if self._has_eof or not has_more:
            transport.close()
            return
        self._ignores_input = True
        self._ended = self._loop.time()
        self.resume_reading()
        transport.write_eof()
        self.write = _nowhere

    def _upgrade(self, rest: memoryview) -> None:
        """A WebSocket waits for its turn; a wish to speak anything else is ignored, as a server may."""
        while True:
            request = self._waiting[-1]
            fields = request.head.headers
            if request.head.method == "CONNECT":
                self._ignores_input = True
                request.keeps = False
                return
            if fields[b"upgrade"].lower() == b"websocket" and not request.head.is_old:
                self._ignores_input = True
                self._handshake = _encode_head(request.head, fields), bytes(rest)
                self.pause_reading()
                return
            # The parser took what follows for the other protocol, so another has to begin again.
            self._waiting.pop()
            kept = {name: fields[name] for name in fields if name not in (b"upgrade", b"connection")}
            if not request.keeps:
                kept[b"connection"] = b"close"
            self._parser = parser = httptools.HttpRequestParser(self)
            parser.feed_data(_encode_head(request.head, kept))
            try:
                parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]

    def _hand_over(self, handshake: bytes, rest: bytes) -> None:
        """From here on the client is uvicorn's."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        config, state, app_state = self._uvicorn
        self.transport, self.write = None, _nowhere
        self._parser = self._receiving = None
        state.connections.discard(cast(Any, self))
        protocol = cast(Any, config.ws_protocol_class)(config=config, server_state=state, app_state=app_state)
        protocol.connection_made(transport)
        transport.set_protocol(protocol)
        protocol.data_received(handshake)
        if not protocol.handshake_initiated:  # not even a refusal would come
            self._log(_HANDSHAKE, 400)
            transport.write(_encode_refusal(_HANDSHAKE, 400))
            transport.close()
        else:
            # The application accepts in its first step, and what is heard before that breaks the socket.
            self._loop.call_soon(_pass_first_bytes, transport, protocol, rest)


def _nowhere(data: bytes) -> None:
    """The client is gone."""


def _pass_first_bytes(transport: asyncio.Transport, protocol: asyncio.Protocol, rest: bytes) -> None:
    if not transport.is_closing():
        transport.resume_reading()
        if rest:
            protocol.data_received(rest)


def _encode_refusal(error: ErrorPayload, status: int) -> bytes:
    body = ErrorBody.encode(error)
    about = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    return STATUS[status] + about + CLOSE + body


def _encode_head(head: ParsedHead, fields: Mapping[bytes, bytes]) -> bytes:
    version = b"1.0" if head.is_old else b"1.1"
    verb = head.method.encode()
    return b"%b %b HTTP/%b\r\n%b\r\n" % (verb, head.url, version, lines([*fields.items()]))
