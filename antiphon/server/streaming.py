"""A run told by an encoder: one write a batch, and signs of life while nothing is said."""

import asyncio
from contextlib import aclosing

from antiphon.bridges.encoder import Encoder
from antiphon.engine.run import Run
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.spec.events import AnyEvent


class Heartbeat:
    """Says something empty when nothing else was said for a while, so that proxies keep the stream open."""

    __slots__ = ("_exchange", "_interval", "_last", "_loop", "_pulse", "_sign", "_writing")

    def __init__(self, gateway: Gateway, exchange: Exchange, sign: bytes) -> None:
        self._exchange = exchange
        self._interval = gateway.config.server.keepalive
        self._sign = sign
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._pulse = gateway.pulse
        self._writing: asyncio.Task[None] | None = None
        if self._interval and sign:
            self._pulse.add(self, self._last + self._interval)

    def beat(self) -> None:
        self._last = self._loop.time()

    def stop(self) -> None:
        self._pulse.remove(self)
        if self._writing:
            self._writing.cancel()

    def check(self, now: float) -> float:
        if now - self._last >= self._interval * 0.99:
            # While a slow client has not taken the last sign, it needs no other.
            if self._writing is None or self._writing.done():
                self._writing = self._loop.create_task(self._exchange.write(self._sign))
            self._last = now
        return self._last + self._interval


async def stream_run(gateway: Gateway, exchange: Exchange, run: Run, encoder: Encoder) -> None:
    """Begin the run, and tell it to its end."""
    gateway.begin(run)
    try:
        await run.begin(gateway.config.server.created_after or None)
        await _tell(gateway, exchange, run, encoder)
    finally:
        gateway.end(run)


async def _tell(gateway: Gateway, exchange: Exchange, run: Run, encoder: Encoder) -> None:
    await exchange.open_stream(encoder.content_type, encoder.headers)
    heartbeat = Heartbeat(gateway, exchange, encoder.keepalive())
    audit = gateway.audits.of_stream(encoder, run.turn.request.tools, exchange.caller)

    def tell(events: list[AnyEvent]) -> bool:
        if not exchange.takes_more():
            return False
        if chunk := encoder.encode(events):
            heartbeat.beat()
            exchange.put(chunk)
        if audit is not None:
            audit.sent(chunk, events)
        return True

    try:
        async with aclosing(run.events(tell)) as batches:
            async for events in batches:
                chunk = encoder.encode(events)
                if run.composer.finished and events and events[-1].is_terminal:
                    chunk += encoder.end()
                if chunk:
                    heartbeat.beat()
                    await exchange.write(chunk)
                if audit is not None:
                    audit.sent(chunk, events)
                # Most of what follows goes to `tell`, and the first batch is large.
                del events, chunk
        await exchange.write(b"", last=True)
    finally:
        heartbeat.stop()
    if audit is not None:
        audit.finish()
