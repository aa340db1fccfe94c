"""Judges what a run of the chaos program has left behind. It finds every broken promise, and says where."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.stream.auditor import audit
from tests.chaos.evidence import Event, Evidence, Followed, StoredLog

TERMINAL = {
    "response.completed": "completed",
    "response.failed": "failed",
    "response.incomplete": "incomplete",
}
_CALL = "antiphon:function_call"


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that was not kept."""

    kind: str
    where: str
    """The response, or the key of the call."""
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.message}"


def check(evidence: Evidence, once: frozenset[str]) -> list[Breach]:
    """All breaches. `once` names the tools that must not run twice for one call."""
    return [
        *_lost(evidence),
        *_made_twice(evidence),
        *(breach for id, log in evidence.logs.items() for breach in _log(id, log)),
        *(breach for seen in evidence.followed for breach in _seen(seen, evidence.logs.get(seen.response))),
        *_ran(evidence, once),
    ]


def _lost(evidence: Evidence) -> Iterator[Breach]:
    for id in {seen.response for seen in evidence.followed} - set(evidence.logs):
        yield Breach("lost", id, "a client was told of it, and it is not stored")


def _made_twice(evidence: Evidence) -> Iterator[Breach]:
    for request, count in Counter(evidence.request_of.values()).items():
        if count > 1:
            yield Breach("made twice", request, f"{count} responses were made for one Idempotency-Key")


def _log(id: str, log: StoredLog) -> Iterator[Breach]:
    if log.status in ("queued", "in_progress"):
        yield Breach("hanging", id, f"it is still {log.status}, after {log.attempts} attempts")
    yield from _gapless(id, log.events, "its log")
    ends = [event["type"] for event in log.events if event["type"] in TERMINAL]
    if len(ends) != 1 and log.status not in ("queued", "in_progress"):
        yield Breach("terminal events", id, f"expected one, got {ends}")
    elif ends and log.events[-1]["type"] != ends[0]:
        yield Breach("terminal events", id, f"{log.events[-1]['type']} follows {ends[0]}")
    elif ends and log.status not in (TERMINAL[ends[0]], "cancelled"):
        yield Breach("terminal events", id, f"it is stored as {log.status}, and its log ends as {ends[0]}")
    for violation in audit(log.events, extensions=True):
        yield Breach("audit", id, str(violation))


def _gapless(where: str, events: list[Event], what: str) -> Iterator[Breach]:
    numbers = [event["sequence_number"] for event in events]
    for expected, number in enumerate(numbers):
        if number != expected:
            kind = "duplicate" if number < expected else "gap"
            yield Breach(kind, where, f"{what} has the event {number} where {expected} is expected")
            return


def _seen(seen: Followed, log: StoredLog | None) -> Iterator[Breach]:
    yield from _gapless(seen.response, seen.events, f"a client over {seen.connections} connections")
    if log is None:
        return
    if len(seen.events) < len(log.events):
        message = f"a client saw {len(seen.events)} of its {len(log.events)} events"
        yield Breach("unseen", seen.response, message)
    for ours, theirs in zip(log.events, seen.events, strict=False):
        if ours != theirs:
            message = f"a client saw another event {theirs['sequence_number']} than the log has"
            yield Breach("changed", seen.response, message)
            return


def _ran(evidence: Evidence, once: frozenset[str]) -> Iterator[Breach]:
    ran = Counter((run.tool, run.key) for run in evidence.runs)
    for (tool, key), count in ran.items():
        if count > 1 and tool in once:
            yield Breach("ran twice", key, f"{tool} ran {count} times for one call")
    for id, log in evidence.logs.items():
        for item in _calls(log):
            key = json.loads(item["arguments"])["key"]
            if not ran[item["name"], key]:
                yield Breach("never ran", key, f"{id} has a result of {item['name']}, which did not run")


def _calls(log: StoredLog) -> list[Event]:
    """The calls of hosted functions with a result. One that failed may have no whole arguments."""
    if not log.events or log.events[-1]["type"] not in TERMINAL:
        return []
    output = log.events[-1]["response"]["output"]
    return [item for item in output if item["type"] == _CALL and item["status"] == "completed"]
