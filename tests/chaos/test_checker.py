"""The checker of the chaos program: it is silent on what is right, and finds each way to break it."""

import copy
from collections.abc import Callable

import msgspec
import pytest

from antiphon.spec.codec import Opaque
from antiphon.spec.response import Response
from antiphon.stream import deltas as d
from antiphon.stream.composer import Composer
from tests.chaos.checker import check
from tests.chaos.evidence import Event, Evidence, Followed, StoredLog, ToolRun

ONCE = frozenset({"count"})
KEY = "r1-1"


def events() -> list[Event]:
    """A response with a hosted call, as the Composer tells it."""

    def call(status: str, output: str | None) -> d.ItemDelta:
        fields = {"name": "count", "arguments": f'{{"key":"{KEY}"}}', "output": output, "error": None}
        return d.ItemDelta(Opaque.make(type="antiphon:function_call", id="it_1", status=status, **fields), 1)

    response = Response(
        id="resp_1",
        created_at=1,
        status="in_progress",
        model="m",
        background=True,
        metadata={"request": "r1"},
    )
    composer = Composer(response, clock=lambda: 2)
    told = composer.start(queued=True)
    told += composer.feed([d.TextDelta("Let "), d.TextDelta("me see."), call("in_progress", None)])
    told += composer.feed([call("completed", "counted"), d.TextDelta("Done."), d.Finish("stop")])
    return [msgspec.json.decode(event.to_json()) for event in told]


@pytest.fixture
def evidence() -> Evidence:
    told = events()
    return Evidence(
        logs={"resp_1": StoredLog("completed", told)},
        followed=[Followed("resp_1", copy.deepcopy(told), connections=3)],
        runs=[ToolRun("count", KEY), ToolRun("look_up", "r1-2"), ToolRun("look_up", "r1-2")],
        request_of={"resp_1": "r1"},
    )


def test_what_is_right_is_no_breach(evidence: Evidence) -> None:
    assert check(evidence, ONCE) == []


def log_of(evidence: Evidence) -> StoredLog:
    return evidence.logs["resp_1"]


def lose(evidence: Evidence) -> None:
    evidence.logs.clear()


def hang(evidence: Evidence) -> None:
    log_of(evidence).status = "in_progress"
    del log_of(evidence).events[-1], evidence.followed[0].events[-1]


def leave_out(evidence: Evidence) -> None:
    del log_of(evidence).events[4]


def repeat(evidence: Evidence) -> None:
    log_of(evidence).events.insert(5, log_of(evidence).events[4])


def end_twice(evidence: Evidence) -> None:
    last = log_of(evidence).events[-1]
    log_of(evidence).events.append(last | {"sequence_number": last["sequence_number"] + 1})


def end_never(evidence: Evidence) -> None:
    del log_of(evidence).events[-1], evidence.followed[0].events[-1]


def end_otherwise(evidence: Evidence) -> None:
    log_of(evidence).status = "failed"


def forget_an_item(evidence: Evidence) -> None:
    for told in (log_of(evidence).events, evidence.followed[0].events):
        told[-1]["response"]["output"].pop(0)


def run_twice(evidence: Evidence) -> None:
    evidence.runs.append(ToolRun("count", KEY))


def run_never(evidence: Evidence) -> None:
    evidence.runs = [run for run in evidence.runs if run.key != KEY]


def make_twice(evidence: Evidence) -> None:
    evidence.request_of["resp_2"] = "r1"


def show_twice(evidence: Evidence) -> None:
    seen = evidence.followed[0].events
    seen.insert(3, seen[2])


def skip(evidence: Evidence) -> None:
    del evidence.followed[0].events[3]


def stop_early(evidence: Evidence) -> None:
    del evidence.followed[0].events[-2:]


def show_another(evidence: Evidence) -> None:
    evidence.followed[0].events[5]["delta"] = "another"


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lose, "lost"),
        (hang, "hanging"),
        (leave_out, "gap"),
        (repeat, "duplicate"),
        (end_twice, "terminal events"),
        (end_never, "terminal events"),
        (end_otherwise, "terminal events"),
        (forget_an_item, "audit"),
        (run_twice, "ran twice"),
        (run_never, "never ran"),
        (make_twice, "made twice"),
        (show_twice, "duplicate"),
        (skip, "gap"),
        (stop_early, "unseen"),
        (show_another, "changed"),
    ],
)
def test_each_breach_is_found(evidence: Evidence, spoil: Callable[[Evidence], None], kind: str) -> None:
    spoil(evidence)
    assert kind in {breach.kind for breach in check(evidence, ONCE)}


def test_a_call_that_broke_off_before_its_arguments_were_whole_need_not_have_run(evidence: Evidence) -> None:
    run_never(evidence)
    for item in log_of(evidence).events[-1]["response"]["output"]:
        if item["type"] == "antiphon:function_call":
            item |= {"status": "failed", "arguments": ""}
    assert "never ran" not in {breach.kind for breach in check(evidence, ONCE)}
