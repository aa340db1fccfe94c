"""The catalogue: every rule that a server is held to, and the check that proves each.

A rule is either proved by a check of its own, or observed in every exchange that any check makes: all rules
of the Auditor are, and those on framing and errors.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from antiphon.stream import rules as stream_rules

if TYPE_CHECKING:
    from antiphon.compliance.probe import Probe

Level = Literal["MUST", "SHOULD", "MAY"]
RuleTransport = Literal["json", "sse", "websocket"]
Spec = Literal["2026-01-15", "2026-04-24"]

LEVELS: Final[tuple[Level, ...]] = ("MUST", "SHOULD", "MAY")
TRANSPORTS: Final[tuple[RuleTransport, ...]] = ("json", "sse", "websocket")
SPECS: Final[tuple[Spec, ...]] = ("2026-01-15", "2026-04-24")
LATEST: Final[Spec] = "2026-04-24"

CheckRun = Callable[["Probe"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ServerRule:
    """One rule. `source` is where the specification asks for it: the title of a section, or a schema of its
    OpenAPI document. What only we ask for says so."""

    id: str
    level: Level
    says: str
    source: str
    transports: tuple[RuleTransport, ...]
    group: str
    specs: tuple[Spec, ...] = SPECS
    proof: str = "every exchange of the run"
    needs: tuple[str, ...] = ()
    """For an observed rule: it was exercised only if one of these was seen; nothing means any stream."""


@dataclass(frozen=True, slots=True)
class Check:
    """A conversation with the server that proves one rule.

    `tries` is more than one where the outcome depends on the model: the first that decides is enough. A check
    that `tempts` the model holds only after all of them, each another temptation. One that is `alone` runs
    after all others, because some servers are busy with it for long.
    """

    rule: ServerRule
    run: CheckRun
    tries: int = 1
    tempts: bool = False
    alone: bool = False
    drives: bool = False
    """Its exchanges are what observed rules are judged on when only those are asked for."""


CHECKS: dict[str, Check] = {}
OBSERVED: dict[str, ServerRule] = {}

MODEL_TRIES: Final = 3


def check(
    rule_id: str,
    level: Level,
    source: str,
    *transports: RuleTransport,
    model: bool = False,
    tempts: bool = False,
    drives: bool = False,
    specs: tuple[Spec, ...] = SPECS,
) -> Callable[[CheckRun], CheckRun]:
    """Registers the function below as the proof of a rule; the rule is the first paragraph of its
    docstring.
    """

    def register(run: CheckRun) -> CheckRun:
        group, says = run.__module__.rpartition(".")[2], (run.__doc__ or "").partition("\n\n")[0]
        add_check(
            ServerRule(
                rule_id,
                level,
                " ".join(says.split()),
                source,
                transports or ("json",),
                group.replace("_", " "),
                specs,
                f"`{group}.{getattr(run, '__name__', rule_id)}`",
            ),
            run,
            model=model,
            tempts=tempts,
            drives=drives,
        )
        return run

    return register


def add_check(
    rule: ServerRule,
    run: CheckRun,
    *,
    model: bool = False,
    tempts: bool = False,
    alone: bool = False,
    drives: bool = False,
) -> None:
    if rule.id in CHECKS or rule.id in OBSERVED:
        raise ValueError(f"two rules have the id {rule.id!r}")
    CHECKS[rule.id] = Check(rule, run, MODEL_TRIES if model or tempts else 1, tempts, alone, drives)


def observe(rule: ServerRule) -> None:
    if rule.id in CHECKS or rule.id in OBSERVED:
        raise ValueError(f"two rules have the id {rule.id!r}")
    OBSERVED[rule.id] = rule


def catalog() -> Mapping[str, ServerRule]:
    """Every rule by its id, in the order of the documentation."""
    import_module("antiphon.compliance.checks")  # registers them
    return {**{name: each.rule for name, each in CHECKS.items()}, **OBSERVED}


class UnknownRule(ValueError):
    """`--only` names something that is no rule."""


def select(
    *,
    level: Level = "MAY",
    spec: Spec = LATEST,
    transports: Iterable[RuleTransport] = TRANSPORTS,
    only: Iterable[str] = (),
) -> dict[str, ServerRule]:
    """The rules that a run is about. `only` takes ids, groups, and beginnings of ids such as `tools.`."""
    wanted, spoken = tuple(only), frozenset(transports)
    everything = catalog()
    for name in wanted:
        if not any(_matches(name, rule) for rule in everything.values()):
            raise UnknownRule(f"no rule, group or beginning of a rule is called {name!r}")
    levels = LEVELS[: LEVELS.index(level) + 1]
    return {
        rule.id: rule
        for rule in everything.values()
        if rule.level in levels
        and spec in rule.specs
        and spoken.intersection(rule.transports)
        and (not wanted or any(_matches(name, rule) for name in wanted))
    }


def _matches(name: str, rule: ServerRule) -> bool:
    return name in (rule.id, rule.group) or (name.endswith((".", "-")) and rule.id.startswith(name))


# What must have been seen before an Auditor's rule can be said to hold.
_CALL = ("response.function_call_arguments.delta", "response.function_call_arguments.done")
_PARTS = ("response.content_part.added", "response.reasoning_summary_part.added")
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "annotation.kept": ("response.output_text.annotation.added",),
    "annotation.announced": ("response.output_text.annotation.added", "annotations"),
    "index.annotation": ("response.output_text.annotation.added",),
    "order.queued_silent": ("response.queued",),
    "terminal.error": ("response.failed", "response.completed"),
    "terminal.ended_at": ("response.failed", "response.incomplete"),
    "terminal.incomplete_details": ("response.incomplete", "response.completed"),
    "error.then_failed": ("error",),
    "id.call_unique": _CALL,
    "index.part": _PARTS,
    "part.added_first": _PARTS,
    "part.starts_empty": _PARTS,
    "part.text_done_first": _PARTS,
    "part.stable": _PARTS,
    "kind.part": _PARTS,
    "status.incomplete_last": ("response.incomplete", "response.failed"),
    "status.completed_items": ("response.completed",),
}
_ON_JSON_TOO: Final = ("union.item", "union.part", "keys.required", "keys.type", "keys.value")
_ONE_TRANSPORT: Final[Mapping[str, tuple[RuleTransport, ...]]] = {
    "sse.event_named": ("sse",),
    "sse.event_matches_type": ("sse",),
    "done.required": ("sse",),
    "done.last": ("sse",),
    "error.then_failed": ("sse",),
    "done.not_on_websocket": ("websocket",),
    "websocket.one_ending": ("websocket",),
}

for _rule in stream_rules.RULES.values():
    observe(
        ServerRule(
            _rule.id,
            _rule.level,
            _rule.summary,
            _rule.area,
            TRANSPORTS if _rule.id in _ON_JSON_TOO else _ONE_TRANSPORT.get(_rule.id, ("sse", "websocket")),
            "streams",
            proof="the Auditor, on every stream of the run",
            needs=_NEEDS.get(_rule.id, ()),
        )
    )
