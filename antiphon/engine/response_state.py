"""The response that a run makes, kept true to the target that is asked for it now."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from antiphon.config import Target
from antiphon.engine.reasoning import Proofs
from antiphon.engine.routing.continuation import find_open_text
from antiphon.engine.run_state import RunState
from antiphon.providers.base import SUPPRESSED, Provider, Turn
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer


class ResponseState(Struct, eq=False):
    """The response in the making, as a router knows it."""

    run: RunState
    composer: Composer
    snapshot_of_turn: Callable[[], Response] | None = None
    """What the model has said in this model turn, where a response has several."""

    __repr__ = object.__repr__  # which shows no prompt

    @property
    def response(self) -> Response:
        return self.composer.response

    def retarget(self, target: Target, provider: Provider, turn: Turn) -> None:
        """From here on this target is asked, with this turn."""
        composer, run = self.composer, self.run
        composer.response.model = turn.target
        composer.seal = Proofs(run.services.seal, provider, turn).seal_blob
        composer.hidden = partial(report_hidden, turn, provider.name)
        run.target, run.turn = target, turn

    def snapshot(self) -> Response:
        return self.composer.snapshot() if self.snapshot_of_turn is None else self.snapshot_of_turn()

    def find_open_text(self) -> tuple[str, int]:
        return find_open_text(self.composer.snapshot())

    def shows(self, item_type: str) -> str | None:
        return self.composer.shows(item_type)


def report_hidden(turn: Turn, provider: str, type: str) -> None:
    """Leave a receipt, so that the client learns at least that there was something it did not ask for."""
    reason = f"{type!r} is outside the specification and no tool of the request asks for it: not shown"
    turn.receipt(provider, "output", reason, SUPPRESSED)
