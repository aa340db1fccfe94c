"""Keeps a response true to whoever is asked for it."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from antiphon.config import Target
from antiphon.engine.reasoning import Proofs
from antiphon.engine.routing.routes import RouteInUse
from antiphon.providers.base import SUPPRESSED, Provider, Turn
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.wires.sealing import Seal


class Asked(Struct, eq=False):
    """What a request asked for, where that led, and what was made of it."""

    model: str = ""
    target: Target | None = None
    turn: Turn | None = None
    route: RouteInUse | None = None
    targets: tuple[Target, ...] = ()
    """Those of the route that the caller can use."""


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
