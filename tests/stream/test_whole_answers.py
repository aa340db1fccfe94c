"""Answers that are not streams: what fits together, and what does not."""

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.spec.codec import to_builtins
from antiphon.spec.response import Response
from antiphon.stream.auditor import Auditor
from antiphon.stream.rules import RESPONSE_RULES, RULES
from tests.stream import streams

Json = dict[str, Any]


def whole() -> Json:
    response: Json = streams.text()[-1]["response"]
    return response


def found(body: object, **options: Any) -> list[str]:
    auditor = Auditor(**options)
    auditor.feed_resource(body)
    return sorted({violation.rule for violation in auditor.take_violations()})


def test_a_response_at_any_point_of_its_life_is_sound() -> None:
    assert found(whole()) == []
    waiting = Response.new("resp_1", "m", now=1_700_000_000)
    waiting.status = "queued"
    assert found(to_builtins(waiting)) == []


CHANGES: dict[str, tuple[str, Callable[[Json], Any]]] = {
    "completed without a time": ("response.consistent", lambda r: r.update(completed_at=None)),
    "completed with an error": (
        "response.consistent",
        lambda r: r.update(error={"code": "c", "message": "m"}),
    ),
    "completed but cut": ("response.consistent", lambda r: r.update(incomplete_details={"reason": "x"})),
    "failed without an error": ("response.consistent", lambda r: r.update(status="failed")),
    "an item unfinished": ("response.consistent", lambda r: r["output"][0].update(status="in_progress")),
    "milliseconds": (
        "response.times",
        lambda r: r.update(created_at=1_700_000_000_000, completed_at=1_700_000_000_001),
    ),
    "ended before it began": (
        "response.times",
        lambda r: r.update(created_at=1_700_000_000, completed_at=1_699_999_999),
    ),
    "a key too few": ("keys.required", lambda r: r.pop("tools")),
    "a value of another type": ("keys.type", lambda r: r.update(model=7)),
    "an item of nobody": ("union.item", lambda r: r["output"][0].update(type="acme:note")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_is_told(change: str) -> None:
    rule, spoil = CHANGES[change]
    body = whole()
    body["created_at"], body["completed_at"] = 1_700_000_000, 1_700_000_001
    spoil(body)
    assert found(body) == [rule]


def test_an_extension_may_fail_in_a_response_that_is_completed() -> None:
    body = whole()
    body["output"].append({"type": "acme:search", "id": "s_1", "status": "failed"})
    assert found(body, extensions=True) == []


def test_tokens_that_do_not_add_up_are_told() -> None:
    details = {
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    body = whole() | {"usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 6, **details}}
    assert "usage.adds_up" in found(body)


@pytest.mark.parametrize("body", [None, [], "text", {}, {"object": "list"}], ids=repr)
def test_what_is_no_resource_is_told(body: object) -> None:
    assert found(body) == ["keys.value"]


def test_extensions_that_were_asked_for_are_welcome() -> None:
    body = whole()
    body["output"] = [{"type": "acme:note", "id": "note_1", "status": "completed"}]
    assert "union.item" not in found(body, solicited={"acme:"})


def test_every_violation_has_a_level() -> None:
    auditor = Auditor()
    auditor.feed_resource(whole() | {"completed_at": None})
    (violation,) = auditor.violations
    assert violation.level == RESPONSE_RULES[violation.rule].level == "MUST"
    assert not RULES.keys() & RESPONSE_RULES.keys()


@pytest.mark.parametrize(
    "change",
    [
        {"model": ["the secret"]},
        {"instructions": {"the": "secret"}},
        {"truncation": "the secret"},
        {"tools": "the secret"},
        {"reasoning": "the secret"},
        {"top_p": "the secret"},
        {"model": 4711},
    ],
    ids=str,
)
def test_without_quotes_nothing_of_the_answer_is_told(change: Json) -> None:
    auditor = Auditor(quotes=False)
    auditor.feed_resource(whole() | change)
    told = " ".join(map(str, auditor.violations))
    assert told
    assert "secret" not in told
    assert "4711" not in told
