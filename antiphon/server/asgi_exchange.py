"""An exchange over ASGI: for every server but our own, and for a gateway inside another program."""

import asyncio
import contextlib

from antiphon.bridges.encoder import Headers
from antiphon.server.exchange import (
    IDEMPOTENCY_KEY,
    LINGER_TIMEOUT,
    SKIPPED,
    Exchange,
    Head,
    as_length,
    given_id,
    two_hosts_error,
    two_keys_error,
)
from antiphon.wires.asgi import AsgiScope, ClientGone, Receive, Send, Sender
from antiphon.wires.pieces import Pieces, too_large

_SHORT = 0.1
"""Seconds after which the client is watched: a short answer is over before that needs a task of its own."""


class AsgiExchange(Exchange):
    __slots__ = ("_has_read", "_receive", "_sender", "_watch")

    def __init__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        head = Head(scope["method"], scope["path"], scope.get("query_string", b""), headers)
        head.request_id = given_id(headers)
        super().__init__(head)
        if names_two_hosts(scope):
            self.head.refusal = two_hosts_error()
        elif [name for name, _ in scope["headers"]].count(IDEMPOTENCY_KEY) > 1:
            self.head.refusal = two_keys_error()
        self.task = asyncio.current_task()
        self._receive = receive
        self._has_read = False
        self._sender = Sender(send)
        self._watch: _Watch | None = None

    async def read(self, limit: int) -> None:
        declared = as_length(self.head.headers.get(b"content-length", b""))
        came = Pieces()
        while not self.is_complete:
            if max(len(came), declared) > limit:
                raise too_large(limit)
            came.add(await self._next())
            self.hold(len(came), declared)
        self.received = came

    async def read_more(self) -> bytes:
        while not self.is_complete:
            if body := await self._next():
                return body
        return b""

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._has_read = True
        self.is_complete = not message.get("more_body", False)
        return bytes(message.get("body", b""))

    async def send(self, status: int, headers: Headers, content_type: bytes | None, body: bytes) -> None:
        if content_type is not None:
            length = b"%d" % len(body)
            headers = [(b"content-type", content_type), (b"content-length", length), *headers]
        self.open(status, headers)
        if self._is_still_sent():
            self.put(body)
            await self._sender.ready()
            await self._linger()
            body = b""
        await self.finish(body)

    def _is_still_sent(self) -> bool:
        """Does the client send a body of which not all has come?"""
        fields = self.head.headers
        has_body = b"transfer-encoding" in fields or as_length(fields.get(b"content-length", b"")) > 0
        waits_for_go_ahead = b"expect" in fields and not self._has_read
        return has_body and not self.is_complete and not waits_for_go_ahead

    async def _linger(self) -> None:
        """Take what the client still sends: a server that closes before it has all takes back the answer."""
        if self.held is not None:
            self.held.hold(0)
        skipped = 0
        with contextlib.suppress(ClientGone, TimeoutError):
            async with asyncio.timeout(LINGER_TIMEOUT):
                while skipped <= SKIPPED and (body := await self.read_more()):
                    skipped += len(body)

    def open(self, status: int, headers: Headers) -> None:
        named = [
            *headers,
            (b"x-request-id", self.request_id.encode("latin-1")),
            (b"x-antiphon-dialect", self.context.dialect.name.encode()),
        ]
        if target := self.target:
            named.append((b"x-antiphon-target", target.encode("latin-1", "replace")))
        self._sender.put({"type": "http.response.start", "status": status, "headers": named})

    def put(self, chunk: bytes) -> bool:
        return self._sender.put({"type": "http.response.body", "body": chunk, "more_body": True})

    @property
    def has_room(self) -> bool:
        return self._sender.has_room

    async def ready(self) -> None:
        await self._sender.ready()

    async def finish(self, chunk: bytes = b"") -> None:
        self._sender.put({"type": "http.response.body", "body": chunk, "more_body": False})
        await self._sender.ready()

    def watch(self) -> None:
        super().watch()
        self._watch = _Watch(self, self._receive)

    def over(self) -> None:
        self._sender.stop()
        if self._watch is not None:
            self._watch.stop()


def names_two_hosts(scope: AsgiScope) -> bool:
    return [name for name, _ in scope["headers"]].count(b"host") > 1


class _Watch:
    """Cancels what the exchange watches when its client is gone."""

    def __init__(self, exchange: Exchange, receive: Receive) -> None:
        self._exchange = exchange
        self._receive = receive
        self._looking: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_SHORT, self._begin)

    def stop(self) -> None:
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _begin(self) -> None:
        self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._exchange.client_gone()
