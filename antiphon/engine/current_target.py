"""Keeps a response true to whoever is asked for it."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from antiphon.config import Target
from antiphon.engine.reasoning import Proofs
from antiphon.engine.routing.routes import UsableRoute
from antiphon.providers.base import SUPPRESSED, Provider, Turn
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.wires.sealing import Seal


class Asked(Struct, eq=False):
    """What a request leads to: its name for a model, the route behind that, and who is asked for it now.

    `Engine.target` fills it in, and it changes with each target that is asked. The engine takes from it whom
    it may ask; the head of the answer and the log tell of it.
    """

    model: str = ""
    target: Target | None = None
    """Who is asked now, or is to be asked first."""
    turn: Turn | None = None
    """What that target is asked."""
    usable: UsableRoute | None = None
    """None where the name stands for one target and has no settings of its own."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """Whom the caller may use behind that name."""
        if self.usable is not None:
            return self.usable.targets
        return () if self.target is None else (self.target,)


class Composing(Struct, eq=False):
    """Keeps a response true to the target that is asked for it now."""

    seal: Seal
    composer: Composer
    asked: Asked
    said: Callable[[], Response] | None = None
    """What has been said in this model turn, where a response has several."""

    __repr__ = object.__repr__  # which shows no prompt

    @property
    def response(self) -> Response:
        return self.composer.response

    def begins(self, target: Target, provider: Provider, turn: Turn) -> None:
        composer = self.composer
        composer.response.model = turn.target
        composer.seal = Proofs(self.seal, provider, turn).sealed
        composer.hidden = partial(hidden, turn, provider.name)
        self.asked.target, self.asked.turn = target, turn

    def snapshot(self) -> Response:
        return self.composer.snapshot() if self.said is None else self.said()

    def shows(self, item_type: str) -> str | None:
        return self.composer.shows(item_type)


def hidden(turn: Turn, provider: str, type: str) -> None:
    """The client learns at least that there was something which it did not ask for."""
    reason = f"{type!r} is outside the specification and no tool of the request asks for it: not shown"
    turn.receipt(provider, "output", reason, SUPPRESSED)
