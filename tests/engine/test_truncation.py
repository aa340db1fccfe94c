"""Fitting a context into a window, by exact counts."""

from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engine.context import input_items
from antiphon.engine.truncation import fit
from antiphon.providers.base import AnsweringProvider, Capabilities, Sink, Turn, answer_from
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item, Message, is_call
from antiphon.stream.deltas import AnyDelta, Finish


class Counting(AnsweringProvider):
    """A provider whose tokens are the bytes of its items."""

    name = "counting"

    def __init__(self, window: int, *, counts: bool = True) -> None:
        self.capabilities = Capabilities(frozenset(), counts_tokens=counts, context_window=window)
        self.asked = 0

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await answer_from(self._batches(turn), sink)

    async def _batches(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        yield [Finish()]

    async def count_tokens(self, turn: Turn) -> int | None:
        self.asked += 1
        return sum(len(encode(item)) for item in turn.items)


def turn(items: list[Any], **fields: Any) -> Turn:
    request = decode_request(encode({"model": "m", "input": items, **fields}))
    return Turn(model="m", request=request, items=input_items(request.input))


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def call(n: int) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c{n}", "output": "x" * 50},
    ]


async def fitted(given_turn: Turn, provider: Counting) -> list[Item]:
    return await fit(provider.capabilities, given_turn, given_turn.items, provider.count_tokens)


async def test_what_fits_is_sent_whole() -> None:
    asked = turn([user("a"), user("b")])
    assert await fitted(asked, Counting(10_000)) == asked.items
    assert asked.receipts == []


async def test_a_provider_that_cannot_count_answers_for_itself() -> None:
    asked = turn([user("a" * 1000)])
    assert await fitted(asked, Counting(10, counts=False)) == asked.items


async def test_disabled_refuses_with_both_counts() -> None:
    with pytest.raises(SpecError) as refused:
        await fitted(turn([user("a" * 500)]), Counting(100))
    assert refused.value.payload.code == "context_length_exceeded"
    assert refused.value.payload.param == "input"
    assert "84" in refused.value.payload.message


async def test_a_limit_of_the_answer_that_does_not_fit_beside_the_input_is_lowered() -> None:
    asked = turn([user("a" * 50)], max_output_tokens=8_192)
    provider = Counting(8_192)
    assert await fitted(asked, provider) == asked.items
    count = await provider.count_tokens(asked)
    assert count is not None
    assert asked.request.max_output_tokens == 8_192 - count
    (receipt,) = asked.receipts
    assert (receipt.param, receipt.action) == ("max_output_tokens", "rewritten")
    assert f"{8_192 - count:,}" in receipt.reason


async def test_strict_mode_refuses_such_a_limit_by_its_name() -> None:
    asked = turn([user("a" * 50)], max_output_tokens=8_192)
    asked.strict = True
    with pytest.raises(SpecError) as refused:
        await fitted(asked, Counting(8_192))
    assert refused.value.payload.param == "max_output_tokens"


async def test_auto_leaves_half_of_the_window_to_the_input_of_a_greedy_request() -> None:
    asked = turn([user("a" * 60) for _ in range(8)], max_output_tokens=8_192, truncation="auto")
    provider = Counting(600)
    asked.items = await fitted(asked, provider)
    count = await provider.count_tokens(asked)
    assert asked.items
    assert count is not None
    assert 150 < count <= 300
    assert asked.request.max_output_tokens == 600 - count
    assert [(one.param, one.action) for one in asked.receipts] == [
        ("input", "truncated"),
        ("max_output_tokens", "rewritten"),
    ]


async def test_auto_leaves_out_the_oldest_and_keeps_the_system_prompt() -> None:
    system = {"type": "message", "role": "system", "content": "be brief"}
    asked = turn([user("old" * 50), system, user("older" * 50), user("new")], truncation="auto")
    kept = await fitted(asked, Counting(300))
    assert [item.get_text() for item in kept if isinstance(item, Message)] == ["be brief", "new"]
    assert [(r.param, r.action) for r in asked.receipts] == [("input", "truncated")]


async def test_a_call_leaves_together_with_its_output() -> None:
    asked = turn([user("q" * 200), *call(1), *call(2), user("new")], truncation="auto")
    kept = await fitted(asked, Counting(420))
    calls = {item.call_id for item in kept if is_call(item)}  # type: ignore[union-attr]
    outputs = {getattr(item, "call_id", None) for item in kept} - {None}
    assert calls == outputs


async def test_a_last_message_that_is_too_long_is_refused() -> None:
    with pytest.raises(SpecError, match="last message alone"):
        await fitted(turn([user("a"), user("b" * 500)], truncation="auto"), Counting(100))


async def test_instructions_are_found_without_comparing_items() -> None:
    """Each with each: with thousands of them that took minutes, in which nobody else was served."""

    class Compared(Message, tag="message"):
        times: ClassVar[int] = 0

        def __eq__(self, other: object) -> bool:
            Compared.times += 1
            return self is other

    asked = turn([user("old" * 50), user("new")], truncation="auto")
    asked.items[:0] = [Compared(role="developer", content="Be brief.") for _ in range(100)]
    room = sum(len(encode(item)) for item in asked.items) - 50
    kept = await fitted(asked, Counting(room))
    assert (len(kept), Compared.times) == (101, 0)


async def test_few_counts_are_enough() -> None:
    provider = Counting(1_000)
    await fitted(turn([user("x" * 50) for _ in range(500)], truncation="auto"), provider)
    assert provider.asked < 15


@given(st.lists(st.integers(1, 300), min_size=2, max_size=30), st.integers(200, 2_000))
async def test_the_longest_tail_that_fits_is_kept(sizes: list[int], window: int) -> None:
    asked = turn([user("x" * size) for size in sizes], truncation="auto")
    costs = [len(encode(item)) for item in asked.items]
    room = window - 16
    if costs[-1] > room:
        with pytest.raises(SpecError):
            await fitted(asked, Counting(window))
        return
    kept = await fitted(asked, Counting(window))
    assert kept == asked.items[-len(kept) :]
    assert sum(costs[-len(kept) :]) <= room
    assert len(kept) == len(costs) or sum(costs[-len(kept) - 1 :]) > room
