"""Short ways to compose deltas, for the tests of the Composer."""

from collections.abc import Iterable
from itertools import count

from antiphon.spec import events as ev
from antiphon.spec.items import (
    Item,
)
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnyDelta,
)


def composer(**options: object) -> Composer:
    numbers = count(1)
    response = Response.new("resp_1", "m", now=1)
    return Composer(response, clock=lambda: 2.0, new_id=lambda p: f"{p}{next(numbers)}", **options)  # type: ignore[arg-type]


def compose(*deltas: AnyDelta, **options: object) -> tuple[list[ev.AnyEvent], Response]:
    machine = composer(**options)
    events = machine.feed(deltas)
    assert machine.finished
    return events, machine.response


def types(events: Iterable[ev.AnyEvent]) -> list[str]:
    return [event.type.removeprefix("response.") for event in events]


def output(*deltas: AnyDelta) -> list[Item]:
    return compose(*deltas)[1].output
