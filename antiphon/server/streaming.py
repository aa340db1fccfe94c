"""Answers over HTTP: the events of a run as a stream in any encoding, or the whole response."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from msgspec import UnsetType

from antiphon.bridges.encoder import Encoder, Headers, ServerSentEvents
from antiphon.engine.run import End, Run
from antiphon.server.auditing import Audit
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.spec.errors import SpecError
from antiphon.spec.events import AnyEvent
from antiphon.spec.long_json import encode_pieces
from antiphon.spec.response import Receipt, Response
from antiphon.spec.tools import Tool


def answer_headers(receipts: Sequence[Receipt] | UnsetType) -> Headers:
    """What every door says in its head: how many receipts there are by now, if there are any."""
    return ((b"x-antiphon-receipts", b"%d" % len(receipts)),) if receipts else ()


class Stream:
    """A streamed answer: one write for each batch of events, and keep-alives in between.

    Proxies close a stream in which nothing moves. Its maker has to `stop` it.
    """

    __slots__ = (
        "_audits",
        "_encoder",
        "_exchange",
        "_interval",
        "_last",
        "_pulse",
        "_receipts",
        "_sign",
        "_time",
        "_tools",
        "audit",
    )

    def __init__(
        self,
        gateway: Gateway,
        exchange: Exchange,
        encoder: Encoder,
        tools: Sequence[Tool] | None,
        receipts: Sequence[Receipt] = (),
    ) -> None:
        self._exchange = exchange
        self._encoder = encoder
        self._audits = gateway.audits
        self._tools = tools
        """Those of the request; None if the stream is not to be audited."""
        self._receipts = receipts
        """Those of the turn: the head says how many there are by then."""
        self.audit: Audit | None = None
        self._interval = gateway.config.server.keepalive
        self._sign = encoder.keepalive()
        self._pulse = gateway.pulse
        self._time = asyncio.get_running_loop().time
        self._last = 0.0

    def open(self) -> None:
        encoder, exchange = self._encoder, self._exchange
        headers = (*encoder.headers, *answer_headers(self._receipts))
        exchange.open_stream(encoder.content_type, headers)
        exchange.sign = self._sign
        if self._tools is not None:
            self.audit = self._audits.of_stream(encoder, self._tools, exchange.context)
        self._last = self._time()
        if self._interval and self._sign:
            self._pulse.add(self, self._last + self._interval)

    def put(self, events: list[AnyEvent]) -> bool:
        chunk = self._encoder.encode(events)
        if not chunk or self.audit is not None:
            return self.write(chunk, events)
        self._last = self._time()
        return self._exchange.put(chunk)

    def write(self, chunk: bytes, events: Iterable[AnyEvent] = ()) -> bool:
        """Take what is encoded already."""
        has_room = True
        if chunk:
            self._last = self._time()
            has_room = self._exchange.put(chunk)
        if self.audit is not None:
            self.audit.record_chunk(chunk, events)
        return has_room

    async def ready(self) -> None:
        await self._exchange.ready()

    async def put_long(self, event: AnyEvent) -> None:
        """Take one of the last events, which may repeat a long text: each slice is made once there is room.

        From here on nothing may come in between.
        """
        encoder, exchange = self._encoder, self._exchange
        if not isinstance(encoder, ServerSentEvents):  # a bridge may write a text in another way
            if not self.put([event]):
                await exchange.ready()
            return
        self.stop()
        exchange.sign = b""
        for piece in encode_pieces(event, lambda short: encoder.encode([short])):
            if not self.write(piece):
                await exchange.ready()
            await asyncio.sleep(0)
        if self.audit is not None:
            self.audit.record_chunk(b"", (event,))

    async def close(self, events: list[AnyEvent]) -> None:
        await self.finish(self._encoder.encode(events) + self._encoder.end(), events)

    async def finish(self, chunk: bytes, events: Iterable[AnyEvent] = ()) -> None:
        """Take the last, which is encoded already."""
        await self._exchange.ready()
        self.stop()
        await self._exchange.finish(chunk)
        if self.audit is not None:
            self.audit.record_chunk(chunk, events)
            self.audit.finish()

    def stop(self) -> None:
        self._pulse.remove(self)

    def check(self, now: float) -> float:
        if now - self._last >= self._interval * 0.99:
            if self._exchange.has_room:  # one who has not taken what came before needs no sign
                self._exchange.put(self._sign)
            self._last = now
        return self._last + self._interval


async def deliver(gateway: Gateway, run: Run, end: End) -> None:
    """Create a response and put its events into this end; the gateway waits for it before it closes."""
    gateway.begin(run)
    try:
        await run.deliver(end, gateway.config.server.created_after)
    finally:
        gateway.end(run)


async def stream_run(gateway: Gateway, exchange: Exchange, run: Run, encoder: Encoder) -> None:
    # The rules object to empty deltas, so a stream that was asked for them is not held to the rules.
    tools = None if run.composer.keeps_chunks else run.turn.tools
    stream = Stream(gateway, exchange, encoder, tools, run.turn.receipts)
    try:
        await deliver(gateway, run, stream)
        exchange.problem = run.problem
    finally:
        stream.stop()


async def answer_whole(
    gateway: Gateway,
    exchange: Exchange,
    run: Run,
    headers: Headers = (),
    write: Callable[[Response], bytes] | None = None,
    list_unrepresented: Callable[[Response], list[Receipt]] | None = None,
) -> None:
    """Create a response and answer with it, or with what `write` makes of it; one that fails is an error.

    `list_unrepresented` gives receipts for what `write` has no place for.
    """
    gateway.begin(run)
    try:
        response = await run.result(exchange.task)
        if (problem := run.problem) is not None:
            raise SpecError(problem.payload, problem.status)
        caller = exchange.context
        body = caller.dialect.encode_response(response, run.encoded) if write is None else write(response)
        receipts = run.turn.receipts
        if list_unrepresented is not None:
            receipts = [*receipts, *list_unrepresented(response)]
        if receipts:
            headers = (*headers, *answer_headers(receipts))
        await exchange.answer(body, headers=headers)
        if write is None:
            gateway.audits.answer(body, run.turn.tools, caller)
    finally:
        gateway.end(run)
