"""Audits a share of the answers against the rules of the protocol while they are sent.

Nothing of what was asked or answered is repeated in its log or in its counts.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from sys import maxsize
from traceback import extract_tb

import msgspec

from antiphon.bridges.encoder import Encoder, ServerSentEvents
from antiphon.engine.request_context import RequestContext
from antiphon.server.api.objects import AuditReport, LastViolation
from antiphon.spec.events import AnyEvent
from antiphon.spec.random_numbers import random_numbers
from antiphon.spec.tools import Tool
from antiphon.stream.auditor import Auditor, Violation
from antiphon.stream.dialects import OPEN_RESPONSES, solicited
from antiphon.stream.sse import Decoder

log = logging.getLogger("antiphon.audit")


class Audits:
    """Chooses what is audited, by chance, and counts what was found. Every worker has its own."""

    def __init__(self, share: float, clock: Callable[[], float]) -> None:
        self._share = share
        self._clock = clock
        self._since = int(clock())
        self._streams = 0
        self._answers = 0
        self._violations: Counter[str] = Counter()
        self._last: LastViolation | None = None
        self._last_tenant = ""

    def of_stream(self, encoder: Encoder, tools: Iterable[Tool], caller: RequestContext) -> "Audit | None":
        """The audit of a stream over HTTP, if it is chosen; its bytes, or, of a bridge, its events."""
        if not self._chooses():
            return None
        asked = solicited(tools)
        if not isinstance(encoder, ServerSentEvents):
            return self._begin_audit(caller, Auditor(extensions=True, solicited=asked, quotes=False))
        if caller.dialect is not OPEN_RESPONSES:
            return None
        decoder = Decoder(max_event_bytes=maxsize)
        return self._begin_audit(caller, Auditor(transport="sse", solicited=asked, quotes=False), decoder)

    def of_turn(self, tools: Iterable[Tool], caller: RequestContext) -> "Audit | None":
        """The audit of a turn on a WebSocket, if it is chosen."""
        if not self._chooses() or caller.dialect is not OPEN_RESPONSES:
            return None
        return self._begin_audit(
            caller, Auditor(transport="websocket", solicited=solicited(tools), quotes=False)
        )

    def answer(self, body: bytes, tools: Iterable[Tool], caller: RequestContext) -> None:
        """Judge an answer that is not a stream, if it is chosen."""
        if not self._chooses() or caller.dialect is not OPEN_RESPONSES:
            return
        self._answers += 1
        Audit(self, caller, Auditor(solicited=solicited(tools), quotes=False)).record_answer(body)

    def report(self, caller: RequestContext) -> AuditReport:
        """The counts; whose request it was that broke a rule last, only its own tenant sees."""
        last = self._last
        if last is not None and self._last_tenant != caller.tenant:
            last = msgspec.structs.replace(last, request_id=None)
        return AuditReport(
            pid=os.getpid(),
            since=self._since,
            share=self._share,
            streams=self._streams,
            answers=self._answers,
            violations=dict(sorted(self._violations.items())),
            last=last,
        )

    def count(self, violation: Violation, caller: RequestContext) -> None:
        log.error("request %s: %s", caller.request_id, violation)
        self._violations[violation.rule] += 1
        self._last = LastViolation(rule=violation.rule, request_id=caller.request_id, at=int(self._clock()))
        self._last_tenant = caller.tenant

    def _chooses(self) -> bool:
        return bool(self._share) and random_numbers.random() < self._share

    def _begin_audit(
        self, caller: RequestContext, auditor: Auditor, decoder: Decoder | None = None
    ) -> "Audit":
        self._streams += 1
        return Audit(self, caller, auditor, decoder)


class Audit:
    """One stream, judged while it is sent; it holds the texts of the answer, and no event.

    A stream that its client leaves is not finished, and judged as far as it went.
    """

    def __init__(
        self, audits: Audits, caller: RequestContext, auditor: Auditor, decoder: Decoder | None = None
    ) -> None:
        self._audits = audits
        self._caller = caller
        self._auditor = auditor
        self._decoder = decoder
        self._is_over = False

    def record_chunk(self, chunk: bytes, events: Iterable[AnyEvent] = ()) -> None:
        """Judge what the client was sent: the bytes, or the events that a bridge made them from."""
        if self._is_over:
            return
        with self._judging():
            if self._decoder is None:
                for event in events:
                    self._auditor.feed(event)
            else:
                for told in self._decoder.feed(chunk):
                    self._auditor.feed_sse(told)

    def record_message(self, text: str) -> None:
        """Judge a message that was sent on a WebSocket."""
        if self._is_over:
            return
        with self._judging():
            self._auditor.feed(msgspec.json.decode(text))

    def record_answer(self, body: bytes) -> None:
        """Judge an answer that was sent whole."""
        with self._judging():
            self._auditor.feed_resource(msgspec.json.decode(body))

    def finish(self) -> None:
        """Judge the end of the stream, which should be whole."""
        if self._is_over:
            return
        with self._judging():
            if self._decoder is not None:
                for told in self._decoder.close():
                    self._auditor.feed_sse(told)
            self._auditor.finish()

    def drop(self) -> None:
        """Leave the rest of the stream unjudged."""
        self._is_over = True

    @contextmanager
    def _judging(self) -> Iterator[None]:
        """Let no mistake of the auditor end the stream."""
        try:
            yield
        except Exception as error:
            self._is_over = True
            place = extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} in {place.name}, line {place.lineno}"
            log.error("request %s: the auditor itself failed: %s", self._caller.request_id, what)
        for violation in self._auditor.take_violations():
            self._audits.count(violation, self._caller)
