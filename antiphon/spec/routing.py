"""The hint by which a client describes its task to a route, and the decision of the route."""

from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from antiphon.spec.codec import extras
from antiphon.spec.errors import SpecError, invalid_param

PARAMETER: Final = "antiphon:route"
HEADER: Final = "X-Antiphon-Route"


class TaskComplexity(StrEnum):
    """How hard a task is. Each member is a string, and the string does as well."""

    SIMPLE = "simple"
    MODERATE = "moderate"
    COMPLEX = "complex"
    CRITICAL = "critical"


class SpeedRequirement(StrEnum):
    """How soon an answer is needed. Each member is a string, and the string does as well."""

    INSTANT = "instant"
    FAST = "fast"
    NORMAL = "normal"
    RELAXED = "relaxed"


class RouteHint(Struct, frozen=True, forbid_unknown_fields=True):
    """What the task needs: the field `antiphon:route` of a request."""

    complexity: TaskComplexity = TaskComplexity.MODERATE
    speed: SpeedRequirement = SpeedRequirement.NORMAL
    without: tuple[str, ...] = ()
    """Providers that are not to be asked for it."""


class RoutingDecision(Struct, frozen=True, kw_only=True):
    """Who would be asked, and why. Nothing is known of a cost or a speed that is None."""

    provider_name: str
    model_name: str
    reasoning: str
    fallback_providers: list[str]
    """Who would be asked after that, as `PROVIDER/model`."""
    estimated_cost: float | None = None
    """USD for the prompt and an answer of usual length."""
    estimated_speed: float | None = None
    """Seconds for an answer of usual length."""


def hint_of(request: Struct) -> RouteHint | None:
    """What the request says about its task; `SpecError` when that cannot be read."""
    given = extras(request).get(PARAMETER)
    return None if given is None else _read(given, PARAMETER)


def hint_in(header: str) -> RouteHint:
    """The same from the header: `complexity=simple, speed=fast, without=groq ollama`.

    >>> hint_in("complexity=simple").complexity
    <TaskComplexity.SIMPLE: 'simple'>
    >>> hint_in("without=groq ollama").without
    ('groq', 'ollama')
    """
    given: dict[str, str | list[str]] = {}
    for part in header.split(","):
        if not part.strip():
            continue
        name, sign, value = part.partition("=")
        if not sign:
            expected = "expected something like `complexity=simple, speed=fast, without=groq ollama`"
            raise SpecError(invalid_param(HEADER, expected))
        name = name.strip().lower()
        given[name] = value.split() if name == "without" else value.strip().lower()
    return _read(given, HEADER)


def _read(given: Any, where: str) -> RouteHint:
    if not isinstance(given, dict):
        raise SpecError(invalid_param(where, 'expected an object such as {"complexity": "simple"}'))
    kinds = {"complexity": TaskComplexity, "speed": SpeedRequirement}
    for name, value in given.items():
        if name == "without" and _are_names(value):
            continue
        if name not in kinds:
            expected = "expected `complexity`, `speed`, or `without` with a list of names"
            raise SpecError(invalid_param(f"{where}.{name}"[:200], expected))
        if value not in list(kinds[name]):
            expected = ", ".join(f"`{one}`" for one in kinds[name])
            raise SpecError(invalid_param(f"{where}.{name}", f"expected one of {expected}"))
    return msgspec.convert(given, RouteHint)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
