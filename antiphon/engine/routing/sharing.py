"""The state of targets over several machines: each tells the others what it knows, a few times a second.

The workers of one machine have their state in common (`states`). Over machines it goes through the store: a
*tick* publishes the numbers of this machine and reads those of the others, so that no request waits for it. A
breaker that opens or closes on one machine does so on all within two ticks; the newest change wins.

A target that may be back is probed by one machine at a time. Machines take turns, in slots that are long
enough for a probe to be heard of before the next turn, if every tick is on time; one that is late can add a
probe of its own. Of the retries that are allowed whatever clients sent, each machine has an equal share.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

from antiphon.engine.routing.breaker import ELSEWHERE
from antiphon.engine.routing.states import States, TargetState
from antiphon.store.base import StoreError
from antiphon.store.store import Records

log = logging.getLogger(__name__)

INTERVAL = 0.25
"""Seconds from one tick to the next."""
STALE = 3.0
"""A machine that has not been heard of for so many seconds does not count."""
_SLOT = 4
"""Ticks in a turn: a probe begins within the first two, is published by the third, and read by the fourth."""
_PREFIX = "breaker:"


class _Seen:
    """What this machine has published, or taken over, of one breaker."""

    __slots__ = ("changed_at", "not_before", "reopens_at", "written")

    def __init__(self) -> None:
        self.changed_at = self.reopens_at = self.not_before = 0.0
        self.written = (0.0, 0.0)
        """What then stood in the breaker; anything else there is news."""


class StateSharing:
    """One machine's part in it. Call `tick` often, or `start` it; `close` it at the end."""

    def __init__(
        self,
        states: States,
        store: Records,
        writer: str,
        clock: Callable[[], float],
        interval: float = INTERVAL,
    ) -> None:
        """`writer` names this machine among the others."""
        self._states = states
        self._store = store
        self._writer = writer
        self._clock = clock
        self._interval = interval
        self._seen: dict[str, _Seen] = defaultdict(_Seen)
        self._running: asyncio.Task[None] | None = None
        self._is_failing = False

    def start(self) -> None:
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def tick(self) -> None:
        """Publish what is new here, and take over what is newer elsewhere."""
        if not any(True for _ in self._states) or not self._states.leads():
            return
        now = self._clock()
        with self._states.changing():
            rows = {f"{_PREFIX}{state.name}": self._publish_state(state, now) for state in self._states}
        others = await self._store.share(self._writer, rows, now, now - STALE)
        machines = sorted({self._writer, *(row.writer for row in others)})
        now, turn = self._clock(), machines.index(self._writer)
        with self._states.changing():
            for state in self._states:
                name = f"{_PREFIX}{state.name}"
                theirs = [row.numbers for row in others if row.name == name]
                self._take_over(state, theirs, now)
                self._give_turn(state, turn, len(machines), now)
                state.budget.machines = float(len(machines))

    async def _run(self) -> None:
        while True:
            try:
                await self.tick()
                self._is_failing = False
            except StoreError as error:
                if not self._is_failing:
                    log.warning("the state of routes is not shared with other machines: %s", error)
                self._is_failing = True
            except Exception:
                # A machine of another version may have published something else.
                if not self._is_failing:
                    log.exception("the state of routes is not shared with other machines")
                self._is_failing = True
            await asyncio.sleep(self._interval)

    def _publish_state(self, state: TargetState, now: float) -> tuple[float, ...]:
        """When the breaker last opened or closed, until when it is open, and is it probed from here?"""
        seen, breaker = self._seen[state.name], state.breaker
        if (breaker.reopens_at, breaker.not_before) != seen.written:
            seen.changed_at = now
            seen.reopens_at, seen.not_before = breaker.reopens_at, breaker.not_before
            seen.written = breaker.reopens_at, breaker.not_before
        is_probed = breaker.probe_owner != ELSEWHERE and breaker.is_probed(now)
        return seen.changed_at, seen.reopens_at, seen.not_before, float(is_probed)

    def _take_over(self, state: TargetState, theirs: Sequence[tuple[float, ...]], now: float) -> None:
        seen, breaker = self._seen[state.name], state.breaker
        if (breaker.reopens_at, breaker.not_before) == seen.written:  # else it has changed since it was told
            changed_at, reopens_at, not_before, _ = max(theirs, default=(0.0,) * 4)
            if changed_at > seen.changed_at:
                seen.changed_at, seen.reopens_at, seen.not_before = changed_at, reopens_at, not_before
                seen.written = reopens_at, not_before
                breaker.follow(reopens_at, not_before)
        breaker.probed_elsewhere(now, any(probed for *_, probed in theirs))

    def _give_turn(self, state: TargetState, turn: int, machines: int, now: float) -> None:
        """Where several machines wait for the same target, each is let through in its slot alone."""
        seen, breaker = self._seen[state.name], state.breaker
        if not seen.reopens_at or (breaker.reopens_at, breaker.not_before) != seen.written:
            return
        reopens_at = next_turn(seen.reopens_at, turn, machines, now, self._interval)
        breaker.reopens_at = reopens_at
        seen.written = reopens_at, breaker.not_before


def next_turn(reopens_at: float, turn: int, machines: int, now: float, interval: float) -> float:
    """From when on this machine may probe a target that opens at this time: in its slot, or the next one."""
    slot = _SLOT * interval
    round_ = slot * machines
    first = reopens_at + slot * turn
    if machines == 1 or now < first + interval:
        return first
    rounds = int((now - interval - first) // round_) + 1
    return first + rounds * round_
