"""One run from its admission to its end: who asks, which target is asked now, and what has been spent."""

import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Literal, TypeVarTuple

from msgspec import Struct, field

from antiphon.config import Target
from antiphon.engine.answer_sinks import MakeSink
from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing.routes import UsableRoute
from antiphon.engine.settings_in_force import SettingsInForce
from antiphon.providers.base import Turn
from antiphon.spec import ids
from antiphon.store.base import Settlement, StoreError
from antiphon.store.store import Store
from antiphon.wires.run_gate import Admission, Gate
from antiphon.wires.run_listener import AttemptInfo, Listener, RunInfo, SilentListener, Spent, ToolInfo
from antiphon.wires.schema.pool import SchemaPool
from antiphon.wires.sealing import Seal

log = logging.getLogger(__name__)

Ts = TypeVarTuple("Ts")


class Heard(Struct, eq=False):
    """Collects the methods of all listeners, without empty ones: each would be a call for every run."""

    run_began: list[Callable[[RunInfo], None]] = []
    attempt_began: list[Callable[[RunInfo, AttemptInfo], None]] = []
    attempt_ended: list[Callable[[RunInfo, AttemptInfo, Spent], None]] = []
    tool_ended: list[Callable[[RunInfo, ToolInfo], None]] = []
    run_ended: list[Callable[[RunInfo, Spent], None]] = []

    def add(self, listener: Listener) -> None:
        for name in self.__struct_fields__:
            if getattr(type(listener), name, None) is not getattr(SilentListener, name):
                getattr(self, name).append(getattr(listener, name))


class Services(Struct, eq=False):
    """What every run of an engine shares."""

    seal: Seal
    schemas: SchemaPool
    clock: Callable[[], float]
    store: Store
    heard: Heard = field(default_factory=Heard)
    gate: Gate | None = None
    sinks: tuple[MakeSink, ...] = ()
    """What looks at every answer."""

    __repr__ = object.__repr__  # which shows no key


class RunState(RunInfo, eq=False, kw_only=True):
    """What a run knows of itself. Its attempts are made in `attempt.py`, and each adds to `spent`."""

    context: RequestContext
    settings: SettingsInForce
    """Those that were in force when it began."""
    services: Services
    usable: UsableRoute | None = None
    """The targets of the route that the client named; None where the name stands for one target."""
    route_name: str = ""
    """Of that route; empty where there is none."""
    target: Target | None = None
    """The target that is asked now, or is to be asked first."""
    turn: Turn | None = None
    """What that target is asked."""
    spent: Spent = field(default_factory=Spent)
    attempts_begun: int = 0
    began: float = 0.0
    phase: Literal["new", "open", "over"] = "new"
    """`over`: it has ended, or another process goes on with it."""
    admission: Admission | None = None
    """What the gate gave; None where there is no gate."""
    settlements: Sequence[Settlement] | None = None
    """What the gate wants to be stored of it; None before it was asked."""
    is_settled: bool = False
    """Are they stored?"""

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets behind the name that the client may use."""
        if self.usable is not None:
            return self.usable.targets
        return () if self.target is None else (self.target,)

    async def begin(self) -> None:
        """Pass the gate. From here on attempts may follow, and `end` has to be called."""
        await self.admit()
        self.open()

    async def admit(self) -> None:
        """Pass the gate, if there is one."""
        if (gate := self.services.gate) is not None:
            self.admission = await gate.admit(self)

    def open(self) -> None:
        """Tell the listeners that the run begins."""
        self.phase, self.began = "open", perf_counter()
        for hear in self.services.heard.run_began:
            call_listener(hear, self)

    async def rejoin(self, spent: Spent | None) -> None:
        """Go on with a run that another process has begun, and for which that has spent so much."""
        if (gate := self.services.gate) is not None:
            self.admission = await gate.rejoin(self)
        self.reopen(spent)

    def reopen(self, spent: Spent | None) -> None:
        """Count on from what another process has spent; the listeners have heard of the run already."""
        self.phase, self.began = "open", perf_counter()
        if spent is not None:
            spent.outcome, spent.error, spent.http_status = "answered", None, 0
            self.spent = spent

    def settle(self) -> Sequence[Settlement]:
        """What the gate wants to be stored of this run, now that its attempts have ended.

        For the write that stores the response; `is_settled` has to be set after it.
        """
        if self.admission is None:
            return ()
        if self.settlements is None:
            run, now = self.id or ids.new_id("run_"), self.services.clock()
            try:
                rows = self.admission.settle(self.spent)
            except Exception:
                log.exception("the gate could not settle request %s", self.request_id)
                rows = ()
            self.settlements = [Settlement(run, row.kind, self.tenant, now, row.data) for row in rows]
        return self.settlements

    async def settle_alone(self) -> None:
        """Store what the gate wants to be stored, unless that was written with the response."""
        if self.is_settled:
            return
        try:
            if settlements := self.settle():
                await self.services.store.settle(settlements)
            self.is_settled = True
        except StoreError as error:
            log.error("request %s could not be settled: %s", self.request_id, error)

    def leave(self) -> None:
        """Leave the run to another process: its end is not told here."""
        if self.phase == "open":
            self.phase = "over"
            self.spent.seconds += perf_counter() - self.began

    def end(self) -> None:
        """Tell the listeners what all attempts took together; a second call does nothing."""
        if self.phase != "open":
            return
        self.leave()
        for hear in self.services.heard.run_ended:
            call_listener(hear, self, self.spent)


def call_listener(method: Callable[[*Ts], None], *args: *Ts) -> None:
    """Call a listener; an exception that it raises is logged, and the answer goes on."""
    try:
        method(*args)
    except Exception:
        log.exception("a listener failed")
