"""The tool can fail: every rule has a server that breaks it, and what else that server breaks is known."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from antiphon.compliance.catalog import OBSERVED, RuleTransport, ServerRule, catalog, select
from antiphon.compliance.runner import CouldNotRun
from antiphon.stream.rules import RULES
from tests.compliance.broken import Answer, Asked, Broken, Fault
from tests.compliance.fault_coverage import Talk, talks_of
from tests.compliance.faults import FAULTS
from tests.compliance.faults.ways import crash
from tests.compliance.other_servers import Replaying, Serves
from tests.compliance.run_tool import judge, judge_rules, told
from tests.compliance.two_tenants import KEYS, toml
from tests.providers.fake_server import refusing_address
from tests.server.servers import Serving, configure
from tests.stream.mutations import MUTATIONS, Mutation, Tape, play

TENANTS: dict[str, Any] = {"api_key": KEYS["alice"], "second_key": KEYS["bob"]}
# Proved below, each in its own way: a socket that never ends, and a rule of the older version.
APART = {"websocket.limit", "logprobs.present"}


@pytest.fixture(scope="module")
def broken(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serves[Broken]]:
    config = configure(tmp_path_factory.mktemp("broken"), toml(model_url), SERVER__AUDIT="false")
    with Serves(config, Broken) as server:
        yield server


@pytest.fixture(scope="module")
def replaying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serves[Replaying]]:
    with Serves(configure(tmp_path_factory.mktemp("replaying")), Replaying) as server:
        yield server


def test_every_rule_of_a_check_has_a_server_that_breaks_it() -> None:
    assert set(catalog()) - set(RULES) - APART == set(FAULTS)


@pytest.fixture(scope="module")
def talks(broken: Serves[Broken]) -> list[Talk]:
    return talks_of(broken, _without_the_long(select()), **TENANTS)


def _without_the_long(rules: dict[str, ServerRule]) -> dict[str, ServerRule]:
    """Ten megabytes each time are too many; that rule is judged where it is broken."""
    return {name: rule for name, rule in rules.items() if name != "limit.text"}


@pytest.mark.parametrize("rule", FAULTS)
def test_a_broken_server_fails_this_rule_and_those_declared(
    broken: Serves[Broken], talks: list[Talk], rule: str
) -> None:
    """Of all rules: those that are observed, and those whose checks can notice the fault."""
    fault = FAULTS[rule]
    noticing = {rule, *(talk.check for talk in talks if talk.is_touched_by(fault))}
    rules = {name: each for name, each in select().items() if name in noticing or name in OBSERVED}
    broken.odd.fault = fault
    failed = told(judge_rules(broken.url, rules, **TENANTS), "fail")
    assert failed.keys() == {rule} | fault.also, failed


def _tape(mutation: Mutation) -> Tape:
    tape = Tape(mutation.of(), mutation.transport)
    mutation.change(tape)
    if mutation.renumber:
        tape.renumber()
    return tape


def _broken_rules(mutation: Mutation) -> set[str]:
    """Extensions are welcome in a run, so a mutation that is only about them breaks nothing."""
    violations = play(_tape(mutation), transport=mutation.transport, extensions=True)
    return {violation.rule for violation in violations}


# What a request must have asked for; the requests of a run that such a stream is told to have not.
UNASKED = {"union.item", "union.event"}


def _declared(mutation: Mutation) -> set[str]:
    asked = UNASKED if mutation.rule.startswith("hosted.") else set()
    return {mutation.rule} | mutation.also | asked


STREAMS = [m for m in MUTATIONS if m.transport != "none" and _broken_rules(m) == _declared(m)]


def test_every_rule_of_the_auditor_has_a_stream_that_breaks_it() -> None:
    assert {mutation.rule for mutation in STREAMS} == set(RULES)


@pytest.mark.parametrize("mutation", STREAMS, ids=lambda mutation: mutation.name)
def test_a_broken_stream_fails_its_rule(replaying: Serves[Replaying], mutation: Mutation) -> None:
    replaying.odd.tape = _tape(mutation)
    transport: RuleTransport = next(name for name in get_args(RuleTransport) if name == mutation.transport)
    rules = select(only=["streams"], transports=[transport])
    failed = told(judge_rules(replaying.url, rules, transports=(transport,)), "fail")
    assert failed.keys() == _declared(mutation)


def test_a_server_that_breaks_down_has_not_shown_how_it_holds_a_model(broken: Serves[Broken]) -> None:
    """Neither does it keep these rules nor break them."""
    broken.odd.fault = crash(lambda body: True)
    held = ["tools.allowed", "tools.allowed_streamed", "format.strict", "format.streamed"]
    skipped = told(judge(broken.url, only=held, **TENANTS), "skip")
    assert skipped.keys() == set(held)
    assert all("there was no answer to judge" in reason for reason in skipped.values())


def test_a_socket_that_is_never_closed_fails_its_rule(gateway: Serving) -> None:
    options: dict[str, Any] = {"api_key": KEYS["alice"], "websocket_limit": 0.01, "timeout": 0.2}
    report = judge(gateway.url, only=["websocket.limit"], **options)
    assert told(report, "fail").keys() == {"websocket.limit"}


def _with_logprobs(asked: Asked, answer: Answer) -> None:
    """As servers of the older version wrote texts."""
    answer.raw = answer.raw.replace(b'"annotations":[]', b'"annotations":[],"logprobs":[]')
    answer.raw = answer.raw.replace(b'"delta":"', b'"logprobs":[],"delta":"')


@pytest.mark.parametrize(("fault", "outcome"), [(Fault(), "fail"), (Fault(after=_with_logprobs), "pass")])
def test_the_older_version_wants_logprobs(broken: Serves[Broken], fault: Fault, outcome: str) -> None:
    broken.odd.fault = fault
    rules = select(only=["logprobs.present"], spec="2026-01-15")
    report = judge_rules(broken.url, rules, spec="2026-01-15", **TENANTS)
    assert told(report, outcome).keys() == {"logprobs.present"}


def test_a_server_that_nobody_runs_cannot_be_judged() -> None:
    with refusing_address() as url, pytest.raises(CouldNotRun, match="does not answer"):
        judge(url.removesuffix("/v1"))
