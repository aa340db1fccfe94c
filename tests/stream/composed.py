"""Short ways to compose deltas, for the tests of the Composer."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from antiphon.spec import events as ev
from antiphon.spec.items import (
    Item,
)
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnyDelta,
)


def composer(first_id: int = 1, **options: Any) -> Composer:
    numbers = count(first_id)
    response = Response.new("resp_1", "m", now=1)
    return Composer(response, clock=lambda: 2.0, new_id=lambda p: f"{p}{next(numbers)}", **options)


def compose(*deltas: AnyDelta, **options: Any) -> tuple[list[ev.AnyEvent], Response]:
    machine = composer(**options)
    events = machine.feed(deltas)
    assert machine.finished
    return events, machine.response


def types(events: Iterable[ev.AnyEvent]) -> list[str]:
    return [event.type.removeprefix("response.") for event in events]


def output(*deltas: AnyDelta) -> list[Item]:
    return compose(*deltas)[1].output
