"""A run told by an encoder: one write a batch, and signs of life while nothing is said."""

import asyncio
import logging
from contextlib import aclosing

from antiphon.bridges.encoder import Encoder, ServerSentEvents
from antiphon.engine.engine import Caller
from antiphon.engine.run import Run
from antiphon.server.exchange import Exchange
from antiphon.spec.events import AnyEvent
from antiphon.stream.auditor import Violation, audit, audit_sse
from antiphon.stream.dialects import OPEN_RESPONSES, solicited

log = logging.getLogger("antiphon.audit")


class Heartbeat:
    """Says something empty when nothing else was said for a while, so that proxies keep the stream open."""

    def __init__(self, exchange: Exchange, interval: float, sign: bytes) -> None:
        self._exchange = exchange
        self._interval = interval
        self._sign = sign
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(interval, self._tick) if interval and sign else None
        self._writing: asyncio.Task[None] | None = None

    def beat(self) -> None:
        self._last = self._loop.time()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._writing:
            self._writing.cancel()

    def _tick(self) -> None:
        quiet = self._loop.time() - self._last
        if quiet >= self._interval * 0.99:
            # While a slow client has not taken the last sign, it needs no other.
            if self._writing is None or self._writing.done():
                self._writing = self._loop.create_task(self._exchange.write(self._sign))
            self._last += quiet
            quiet = 0.0
        self._timer = self._loop.call_later(self._interval - quiet, self._tick)


async def stream_run(
    exchange: Exchange, run: Run, encoder: Encoder, *, keepalive: float, audits: bool
) -> None:
    await exchange.open_stream(encoder.content_type, encoder.headers)
    heartbeat = Heartbeat(exchange, keepalive, encoder.keepalive())
    seen: list[bytes] = []
    told: list[AnyEvent] = []
    try:
        async with aclosing(run.events()) as batches:
            async for events in batches:
                chunk = encoder.encode(events)
                if run.composer.finished and events and events[-1].is_terminal:
                    chunk += encoder.end()
                if audits:
                    seen.append(chunk)
                    told += events
                if chunk:
                    heartbeat.beat()
                    await exchange.write(chunk)
        await exchange.write(b"", last=True)
    finally:
        heartbeat.stop()
    if not audits:
        return
    asked = solicited(run.turn.request.tools)
    if not isinstance(encoder, ServerSentEvents):
        report(audit(told, extensions=True, solicited=asked), exchange.request_id)
    elif exchange.caller.dialect is OPEN_RESPONSES:
        report(audit_sse(b"".join(seen), solicited=asked), exchange.request_id)


def audit_events(events: list[AnyEvent], run: Run, caller: Caller) -> None:
    """The debug switch for a WebSocket turn."""
    if caller.dialect is OPEN_RESPONSES:
        found = audit(events, transport="websocket", solicited=solicited(run.turn.request.tools))
        report(found, caller.request_id)


def report(violations: list[Violation], request_id: str) -> None:
    for violation in violations:
        log.error("request %s: %s", request_id, violation)
