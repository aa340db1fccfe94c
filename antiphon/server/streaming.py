"""A run as server-sent events: one write a batch, comments while nothing is said."""

import asyncio
import logging
from contextlib import aclosing

from antiphon.engine.engine import Caller
from antiphon.engine.run import Run
from antiphon.server.exchange import Exchange
from antiphon.spec.events import AnyEvent
from antiphon.stream.auditor import Violation, audit, audit_sse
from antiphon.stream.dialects import OPEN_RESPONSES, solicited
from antiphon.stream.framing import frames
from antiphon.stream.sse import DONE, KEEPALIVE

log = logging.getLogger("antiphon.audit")


class Heartbeat:
    """Writes a comment when nothing else was written for a while, so that proxies keep the stream open."""

    def __init__(self, exchange: Exchange, interval: float) -> None:
        self._exchange = exchange
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(interval, self._tick) if interval else None
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
            # While a slow client has not taken the last comment, it needs no other.
            if self._writing is None or self._writing.done():
                self._writing = self._loop.create_task(self._exchange.write(KEEPALIVE))
            self._last += quiet
            quiet = 0.0
        self._timer = self._loop.call_later(self._interval - quiet, self._tick)


async def stream_run(exchange: Exchange, run: Run, *, keepalive: float, audits: bool) -> None:
    dialect = exchange.caller.dialect.for_response(run.response)
    await exchange.open_stream()
    heartbeat = Heartbeat(exchange, keepalive)
    seen: list[bytes] = []
    try:
        async with aclosing(run.events()) as batches:
            async for events in batches:
                chunk = frames(events, dialect)
                if run.composer.finished and events and events[-1].is_terminal:
                    chunk += DONE
                heartbeat.beat()
                await exchange.write(chunk)
                if audits:
                    seen.append(chunk)
        await exchange.write(b"", last=True)
    finally:
        heartbeat.stop()
    if audits and exchange.caller.dialect is OPEN_RESPONSES:
        report(audit_sse(b"".join(seen), solicited=solicited(run.turn.request.tools)), exchange.request_id)


def audit_events(events: list[AnyEvent], run: Run, caller: Caller) -> None:
    """The debug switch for a WebSocket turn."""
    if caller.dialect is OPEN_RESPONSES:
        found = audit(events, transport="websocket", solicited=solicited(run.turn.request.tools))
        report(found, caller.request_id)


def report(violations: list[Violation], request_id: str) -> None:
    for violation in violations:
        log.error("request %s: %s", request_id, violation)
