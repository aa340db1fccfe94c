"""A plain answer composed at once is the response that the Composer makes of the same deltas, one by one."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec.codec import encode
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.stream import lifecycle, plain_answer
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Finish, TextDelta, UsageDelta
from tests.stream.composed import composer
from tests.stream.strategies import counts, endings, extended, logprobs, texts

_usages = st.builds(
    lambda given, said, total, cached, thought: Usage(
        input_tokens=given,
        output_tokens=said,
        total_tokens=total,
        input_tokens_details=InputTokensDetails(cached),
        output_tokens_details=OutputTokensDetails(thought),
    ),
    *[counts] * 5,
)
_said = st.builds(TextDelta, texts, st.none() | st.lists(logprobs, max_size=1))
_plain = st.tuples(_said, st.builds(UsageDelta, _usages), endings)
_batches = (
    _plain | st.lists(extended | endings, min_size=3, max_size=3).map(tuple) | st.tuples(_said, endings)
)


def _muted() -> Composer:
    machine = composer()
    machine.muted = True
    return machine


def _state(machine: Composer) -> tuple[object, ...]:
    return machine.state, machine.finished, machine.error, encode(machine.response)


@given(_batches, st.booleans())
def test_an_answer_composed_at_once_is_the_one_composed_step_by_step(
    deltas: tuple[AnyDelta, ...], is_overruled: bool
) -> None:
    at_once, in_steps = _muted(), _muted()
    if plain_answer.compose(at_once, deltas):
        for delta in deltas:
            in_steps.feed([delta])
        assert at_once.finished
    if is_overruled and at_once.finished:
        for machine in (at_once, in_steps):
            machine.overrule(ErrorPayload("server_error", "it could not be stored"))
    assert _state(at_once) == _state(in_steps)


@given(texts.filter(bool), _usages, st.sampled_from(["stop", "tool_calls"]))
def test_one_text_with_its_usage_is_composed_at_once(text: str, usage: Usage, reason: str) -> None:
    machine = _muted()
    deltas: list[AnyDelta] = [TextDelta(text), UsageDelta(usage), Finish(reason)]  # type: ignore[arg-type]
    assert plain_answer.compose(machine, deltas)
    assert machine.feed(deltas) == []
    assert machine.response.output_text == text


def test_a_response_that_has_begun_is_composed_step_by_step() -> None:
    machine = _muted()
    machine.start()
    assert not plain_answer.compose(machine, [TextDelta("a"), UsageDelta(Usage()), Finish()])
    assert machine.state == lifecycle.IN_PROGRESS


def test_a_text_with_its_usage_is_composed_at_once() -> None:
    machine = _muted()
    usage = UsageDelta(Usage(input_tokens=1, output_tokens=2, total_tokens=3))
    answer: list[AnyDelta] = [TextDelta("Hello."), usage, Finish()]
    assert plain_answer.compose(machine, answer)
    assert machine.finished
    assert (machine.response.status, machine.response.output_text) == ("completed", "Hello.")
    assert not plain_answer.compose(_muted(), [TextDelta(""), *answer[1:]])
    assert not plain_answer.compose(_muted(), [*answer[:2], Finish("length")])
