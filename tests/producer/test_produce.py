"""Answers as responses: finished ones, and streams of words or deltas however they end."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.producer import is_estimated, response_of, stream_open_responses
from antiphon.producer.produce import Said
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.items import FunctionCall, type_of
from antiphon.spec.request import Request
from antiphon.spec.response import Usage
from antiphon.stream.auditor import audit_sse
from antiphon.stream.deltas import Finish, ReasoningDelta, TextDelta, UsageDelta
from antiphon.stream.reader import Reader
from antiphon.stream.sse import Decoder
from tests.producer.judging import assert_valid


def test_a_finished_answer_is_a_completed_response() -> None:
    call = FunctionCall(call_id="c1", name="look", arguments='{"a":1}')
    response = response_of("m", "Hi", reasoning="hm", calls=[call], usage=Usage.of(1, 2))
    assert_valid(response)
    assert [type_of(item) for item in response.output] == ["reasoning", "message", "function_call"]
    assert (response.status, response.usage, is_estimated(response)) == ("completed", Usage.of(1, 2), False)


def test_an_answer_that_nobody_counted_is_estimated() -> None:
    response = response_of("m", "12345678", request=Request(input="1234"))
    assert (response.usage, is_estimated(response)) == (Usage.of(1, 2), True)


async def body_of(answer: AsyncIterator[Said]) -> bytes:
    chunks = [
        chunk async for chunk in stream_open_responses(answer, model="m", request=Request(input="1234"))
    ]
    return "".join(chunks).encode()


def read(body: bytes) -> Any:
    assert audit_sse(body) == []
    assert body.endswith(b"data: [DONE]\n\n")
    reader = Reader()
    for event in Decoder().feed(body):
        if not event.is_done:
            reader.feed(event.data)
    return reader.response


async def test_words_and_deltas_are_streamed_to_the_end() -> None:
    async def answer() -> AsyncIterator[Said]:
        yield ReasoningDelta("hm")
        yield "Hello, "
        yield [TextDelta("wor"), TextDelta("ld.")]

    body = await body_of(answer())
    assert body.startswith(b"event: response.created\n")
    response = read(body)
    assert [type_of(item) for item in response.output] == ["reasoning", "message"]
    assert response.output[1].get_text() == "Hello, world."
    assert response.usage == Usage.of(1, 4, reasoning=1)
    assert is_estimated(response)


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "estimated"])
async def test_an_answer_may_say_how_it_ends(counts: bool) -> None:
    async def answer() -> AsyncIterator[Said]:
        yield [TextDelta("cut"), *([UsageDelta(Usage.of(5, 5))] if counts else []), Finish("length")]
        yield "never"

    response = read(await body_of(answer()))
    assert response.status == "incomplete"
    assert response.usage == (Usage.of(5, 5) if counts else Usage.of(1, 1))
    assert is_estimated(response) is not counts


async def test_an_answer_that_breaks_is_a_failed_response_and_says_nothing_private() -> None:
    async def answer() -> AsyncIterator[Said]:
        yield "so far"
        raise RuntimeError("password 123")

    body = await body_of(answer())
    response = read(body)
    assert (response.status, response.error.code) == ("failed", "generation_failed")
    assert response.output[0].get_text() == "so far"
    assert b"password" not in body


async def test_an_answer_may_fail_in_its_own_words() -> None:
    async def answer() -> AsyncIterator[Said]:
        for reason in ("ask something else",):
            raise SpecError(invalid_param("input", reason).with_code("off_topic"))
        yield "never"

    response = read(await body_of(answer()))
    assert (response.error.code, response.error.message) == ("off_topic", "ask something else")


async def test_an_answer_that_is_over_early_is_closed() -> None:
    closed: list[bool] = []

    async def answer() -> AsyncIterator[Said]:
        try:
            yield Finish()
            yield "more"
        finally:
            closed.append(True)

    assert read(await body_of(answer())).output == []
    assert closed == [True]


@given(st.lists(st.text(max_size=4) | st.builds(TextDelta, st.text(max_size=4)) | st.none(), max_size=8))
async def test_any_answer_gives_a_sound_stream(said: list[Any]) -> None:
    async def answer() -> AsyncIterator[Said]:
        for one in said:
            if one is None:
                raise ValueError
            yield one

    read(await body_of(answer()))
