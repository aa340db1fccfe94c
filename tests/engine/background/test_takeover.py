"""Wherever the log of a background response breaks off, another process goes on with it, or ends it."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, UnsetType

from antiphon.config import Config, ProviderSettings
from antiphon.engine.background.background import Background
from antiphon.engine.background.takeover import final_change
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing.seam import last_words
from antiphon.providers.base import AnsweringProvider, Capabilities, Sink, Turn
from antiphon.spec import ids
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_response
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import FunctionCall, Message, Reasoning
from antiphon.spec.request import Request, TextParam
from antiphon.spec.response import Response, Usage
from antiphon.spec.tools import FunctionTool, JsonObjectFormat
from antiphon.store import NewResponse, SqliteStore, StoredConversation, StoredResponse
from antiphon.stream.auditor import audit
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    ItemEnd,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageDelta,
)
from antiphon.stream.dialects import DIALECTS, OPEN_RESPONSES, Dialect
from antiphon.stream.framing import single_line
from antiphon.stream.lifecycle import TERMINAL
from antiphon.stream.reader import Reader
from antiphon.wires.sealing import Seal
from tests.stream.strategies import extended

CUSTOM = ("custom_tool_call", "custom_tool_call_output")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "data")
    yield opened
    await opened.close()


async def ended(
    store: SqliteStore, deltas: list[AnyDelta], cut: int, dialect: Dialect = OPEN_RESPONSES
) -> tuple[list[object], Response]:
    """The log of a response whose owner died after `cut` events, once another has ended it."""
    response = Response.new(ids.new_id(ids.RESPONSE), "m", now=1)
    composer = Composer(response, clock=lambda: 2.0, first_sequence_number=dialect.first_sequence_number)
    events = [*composer.start(queued=True)]
    body = encode(composer.snapshot())
    for delta in deltas:
        events += composer.feed([delta])
    lines = [single_line(dialect.encode(event)) for event in events[:cut]]
    await store.heartbeat("dead", 0.0)
    row = NewResponse(
        id=response.id,
        tenant="",
        status="queued",
        model="m",
        created_at=1,
        body=body,
        background=True,
        owner="dead",
        dialect=dialect.name,
    )
    await store.save(row)
    if lines:
        assert await store.append_events(response.id, "dead", dialect.first_sequence_number, lines)
    (orphan,) = await store.claim_orphans("me", 100.0, 50.0)
    assert await store.update(await final_change(store, orphan, "me", 100))
    logged = await store.events_after("", response.id, -1, 10_000)
    found = await store.get("", response.id)
    assert logged is not None
    assert found is not None
    assert found.owner is None
    return [json.loads(event.data) for event in logged], decode_response(found.body)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(extended, max_size=24), st.integers(0, 60))
async def test_any_log_can_be_ended(store: SqliteStore, deltas: list[AnyDelta], cut: int) -> None:
    events, response = await ended(store, deltas, cut)
    assert audit(events, extensions=True, solicited=CUSTOM) == []
    assert (response.status, response.completed_at) == ("failed", 100)
    assert response.error is not None
    assert response.error.code == "server_restarted"
    last = events[-1]
    assert isinstance(last, dict)
    assert last["response"]["output"] == json.loads(encode(response.output))


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(deltas=st.lists(extended, max_size=24))
async def test_in_any_dialect_the_words_so_far_are_kept(
    store: SqliteStore, dialect: Dialect, deltas: list[AnyDelta]
) -> None:
    events, response = await ended(store, deltas, 10_000, dialect)
    _, spoken = await ended(store, deltas, 10_000)
    assert [_bare(item) for item in response.output] == [_bare(item) for item in spoken.output]
    numbers = [event["sequence_number"] for event in events if isinstance(event, dict)]
    assert numbers == list(range(dialect.first_sequence_number, dialect.first_sequence_number + len(numbers)))


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("cut", [0, 4, 5])
async def test_a_log_is_ended_in_the_dialect_that_it_was_begun_in(
    store: SqliteStore, dialect: Dialect, cut: int
) -> None:
    """The log is empty, or breaks off before the first thought, or after it."""
    events, _ = await ended(store, [ReasoningDelta("hm")], cut, dialect)
    payloads = [event for event in events if isinstance(event, dict)]
    numbers = [payload["sequence_number"] for payload in payloads]
    assert numbers == list(range(dialect.first_sequence_number, dialect.first_sequence_number + len(numbers)))
    if dialect.names_response:
        assert all("response_id" in payload for payload in payloads[cut:])
    told = [payload["type"] for payload in payloads[cut:]]
    if cut == 5:
        assert dialect.event_types.get("response.reasoning.done", "response.reasoning.done") in told
    assert told[-1] == "response.failed"
    assert ("error" in payloads[-1]) is dialect.error_beside_failed


def _bare(item: object) -> object:
    """The item without its random names."""
    plain = json.loads(encode(item))
    return {key: value for key, value in plain.items() if key not in ("id", "call_id")}


# --- going on -----------------------------------------------------------------------------------------------


GOES_ON: list[AnyDelta] = [
    TextDelta("Goes "),
    TextDelta("on."),
    UsageDelta(Usage.of(7, 2)),
    Finish(),
]


class Successor(AnsweringProvider):
    """A provider that is asked by the process which takes over, and keeps what it was given."""

    name = "successor"
    capabilities = Capabilities(frozenset({"max_output_tokens"}))

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.says = GOES_ON

    async def answer(self, turn: Turn, sink: Sink) -> None:
        self.turns.append(turn)
        sink.accepted()
        sink.put(self.says)


class Workshop(Struct):
    """One process that works on what the tests leave in the store."""

    store: SqliteStore
    provider: Successor
    background: Background

    async def left(
        self, deltas: list[AnyDelta], cut: int = 10_000, dialect: Dialect = OPEN_RESPONSES, **fields: Any
    ) -> StoredResponse:
        """A response whose log breaks off after `cut` events."""
        request = Request(model="p/m", background=True, **{"input": "hi", **fields})
        run = self.background._engine.new_run(RequestContext(dialect=dialect, receipts=True))
        job = await self.background.admit_job(request, run)
        await job.save()
        composer = Composer(
            decode_response(encode(job.created)),
            clock=time.time,
            first_sequence_number=dialect.first_sequence_number,
        )
        events = composer.start(queued=True)
        for delta in deltas:
            events += composer.feed([delta])
        spelled = dialect.for_response(job.created)
        lines = [single_line(spelled.encode(event)) for event in events[:cut]]
        first = dialect.first_sequence_number
        assert await self.store.append_events(job.id, self.background._source.owner, first, lines)
        found = await self.store.get("", job.id)
        assert found is not None
        return found

    async def ended(self, response: StoredResponse) -> tuple[list[dict[str, Any]], Response]:
        """Its whole log and the response, once it has been gone on with."""
        if (job := await self.background.resume(response)) is not None:
            async with asyncio.timeout(10):
                await job.ended.wait()
        logged = await self.store.events_after("", response.id, -1, 10_000)
        found = await self.store.get("", response.id)
        assert logged is not None
        assert found is not None
        assert found.owner is None
        return [json.loads(event.data) for event in logged], decode_response(found.body)


@pytest.fixture
async def workshop(store: SqliteStore) -> AsyncIterator[Workshop]:
    provider = Successor()
    config = Config(providers={"p": ProviderSettings(type="successor")})
    engine = Engine(config, {"p": provider}, store, Seal([bytes(32)]), time.time)
    background = Background(engine)
    await background.open()
    yield Workshop(store, provider, background)
    await background.close()


def texts(response: Response) -> list[str]:
    return [item.get_text() for item in response.output if isinstance(item, Message)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(extended, max_size=24), st.integers(0, 60))
async def test_any_log_is_gone_on_with_or_ended(workshop: Workshop, deltas: list[AnyDelta], cut: int) -> None:
    left = await workshop.left(deltas, cut)
    before = await workshop.store.events_after("", left.id, -1, 10_000)
    assert before is not None
    events, response = await workshop.ended(left)
    assert audit(events, extensions=True, solicited=CUSTOM) == []
    assert [json.loads(event.data) for event in before] == events[: len(before)]
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert [event["type"] for event in events].count("response.created") == 1
    assert events[-1]["response"]["output"] == json.loads(encode(response.output))
    if response.status == "failed":
        assert response.error is not None
        assert response.error.code == "cannot_continue"
    else:
        assert response.status == "completed"
        assert texts(response)[-1].endswith("Goes on.")


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(deltas=st.lists(extended, max_size=24), cut=st.integers(0, 60))
async def test_in_any_dialect_the_log_goes_on(
    workshop: Workshop, dialect: Dialect, deltas: list[AnyDelta], cut: int
) -> None:
    events, response = await workshop.ended(await workshop.left(deltas, cut, dialect))
    numbers = [event["sequence_number"] for event in events]
    assert numbers == [*range(dialect.first_sequence_number, dialect.first_sequence_number + len(numbers))]
    reader = Reader()
    for event in events:
        reader.feed(json.dumps(event).encode())
    assert reader.response is not None
    assert reader.response.status == response.status
    ends = [event for event in events if event["type"] in TERMINAL]
    assert len(ends) == 1


@given(
    said=st.text(alphabet="abc dé☃", min_size=1, max_size=40).filter(str.strip),
    pieces=st.integers(1, 5),
    repeated=st.integers(0, 40),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_text_goes_on_without_a_gap_or_a_repetition(
    workshop: Workshop, said: str, pieces: int, repeated: int
) -> None:
    """The model says the whole of what it was asked to begin with, and then goes on."""
    step = -(-len(said) // pieces)
    left = await workshop.left([TextDelta(said[n : n + step]) for n in range(0, len(said), step)])
    workshop.provider.says = [TextDelta(said), TextDelta("| and the rest"), Finish()]
    events, response = await workshop.ended(left)
    assert audit(events) == []
    assert texts(response) == [said + "| and the rest"]
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == said + "| and the rest"


async def test_a_repetition_that_breaks_off_is_no_text(workshop: Workshop) -> None:
    left = await workshop.left([TextDelta("The quick brown fox")])
    broken = Failure(ErrorPayload("server_error", "cut", "upstream_closed"))
    workshop.provider.says = [TextDelta("quick"), broken]
    events, response = await workshop.ended(left)
    assert audit(events) == []
    assert (response.status, texts(response)) == ("failed", ["The quick brown fox"])


async def test_what_was_not_begun_begins(workshop: Workshop) -> None:
    for cut in (0, 1, 2):
        events, response = await workshop.ended(await workshop.left([TextDelta("never")], cut))
        kinds = [event["type"] for event in events]
        queued = [] if cut == 1 else ["response.queued"]
        expected = ["response.created", *queued, "response.in_progress", "response.output_item.added"]
        assert kinds[: len(expected)] == expected
        assert texts(response) == ["Goes on."]
        assert audit(events) == []


async def test_finished_items_stay_and_open_reasoning_is_completed(workshop: Workshop) -> None:
    said: list[AnyDelta] = [ReasoningDelta("Hm. "), ReasoningDelta("Let me")]
    events, response = await workshop.ended(await workshop.left(said))
    assert audit(events) == []
    thought, message = response.output
    assert isinstance(thought, Reasoning)
    assert (thought.get_reasoning_text(), thought.status) == ("Hm. Let me", "completed")
    assert isinstance(message, Message)
    call = CallDelta(0, '{"city": "Rome"}', "weather", "c1")
    tools = [FunctionTool("weather", None, {"type": "object"}, None)]
    left = await workshop.left([call, ItemEnd(0, "completed"), TextDelta("It is ")], tools=tools)
    events, response = await workshop.ended(left)
    assert audit(events) == []
    assert [type(item).__name__ for item in response.output] == ["FunctionCall", "Message"]
    assert texts(response) == ["It is Goes on."]
    given = workshop.provider.turns[-1].items
    assert any(isinstance(item, FunctionCall) for item in given)


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ([CallDelta(0, '{"city": "Ro', "weather", "c1")], {}),
        ([TextDelta("Well. "), RefusalDelta("I will")], {}),
        ([TextDelta('{"a": ')], {"text": TextParam(JsonObjectFormat())}),
    ],
    ids=["call", "refusal", "format"],
)
async def test_what_nothing_can_be_added_to_is_the_end(
    workshop: Workshop, said: list[AnyDelta], fields: dict[str, Any]
) -> None:
    events, response = await workshop.ended(await workshop.left(said, **fields))
    assert audit(events) == []
    assert response.status == "failed"
    assert response.error is not None
    assert response.error.code == "cannot_continue"
    assert getattr(response.output[-1], "status", None) == "incomplete"
    assert workshop.provider.turns == []


async def test_the_budget_and_the_usage_are_those_of_both(workshop: Workshop) -> None:
    said = "word " * 40
    left = await workshop.left([TextDelta(said)], max_output_tokens=80)
    _, response = await workshop.ended(left)
    repeated = len(last_words(said.rstrip())) // 4  # for which there is room beside the budget
    assert workshop.provider.turns[-1].request.max_output_tokens == 80 - len(said) // 4 + repeated
    assert response.usage is not None
    assert response.usage.output_tokens == len(said) // 4 + 2
    left = await workshop.left([TextDelta(said)], max_output_tokens=50)
    events, response = await workshop.ended(left)
    assert response.status == "incomplete"
    assert audit(events) == []
    assert len(workshop.provider.turns) == 1


async def test_a_receipt_tells_what_was_taken_over(workshop: Workshop) -> None:
    left = replace(await workshop.left([TextDelta("Twelve chars")]), attempt=0)
    await workshop.store.release(workshop.background._source.owner)
    (claimed,) = await workshop.store.claim_orphans("elsewhere", time.time(), 0.0)
    assert (claimed.id, claimed.attempt) == (left.id, 1)
    workshop.background._source.owner = "elsewhere"
    _, response = await workshop.ended(claimed)
    assert not isinstance(response.receipts, UnsetType)
    told = [receipt for receipt in response.receipts if receipt.action == "continued"]
    assert [receipt.param for receipt in told] == ["output[0].content[0]"]
    assert "attempt 2 continues this text at character 12" in told[0].reason


async def test_one_that_is_taken_over_again_and_again_fails(workshop: Workshop) -> None:
    left = await workshop.left([TextDelta("So ")])
    owners = itertools.cycle(["a", "b"])
    for _ in range(5):
        await workshop.store.release(workshop.background._source.owner)
        workshop.background._source.owner = next(owners)
        (left,) = await workshop.store.claim_orphans(workshop.background._source.owner, time.time(), 0.0)
    events, response = await workshop.ended(left)
    assert response.error is not None
    assert response.error.code == "too_many_attempts"
    assert audit(events) == []
    assert workshop.provider.turns == []


async def test_a_conversation_gets_it_once(workshop: Workshop) -> None:
    await workshop.store.create_conversation(StoredConversation("conv_1", "", b"{}", 1))
    await workshop.ended(await workshop.left([TextDelta("Hello, ")], conversation="conv_1"))
    page = await workshop.store.conversation_page("", "conv_1", newest_first=False)
    assert page is not None
    assert [json.loads(item.data)["role"] for item in page.items] == ["user", "assistant"]
    assert b"Hello, Goes on." in page.items[1].data


async def test_it_goes_on_although_what_it_continues_is_gone(workshop: Workshop) -> None:
    _, first = await workshop.ended(await workshop.left([], input="the first question"))
    left = await workshop.left([TextDelta("So, ")], previous_response_id=first.id, input="and then?")
    assert await workshop.store.delete("", first.id)
    _, response = await workshop.ended(left)
    assert texts(response) == ["So, Goes on."]
    given = [item.get_text() for item in workshop.provider.turns[-1].items if isinstance(item, Message)]
    assert given[:3] == ["the first question", "Goes on.", "and then?"]


async def test_with_other_sealing_keys_it_fails(workshop: Workshop) -> None:
    left = await workshop.left([TextDelta("So ")])
    workshop.background._engine.seal = Seal([bytes(range(32))])
    events, response = await workshop.ended(left)
    assert response.error is not None
    assert response.error.code == "unreadable_job"
    assert "sealing keys" in response.error.message
    assert audit(events) == []


async def test_a_cancelled_one_is_not_gone_on_with(workshop: Workshop) -> None:
    left = await workshop.left([TextDelta("So ")])
    asked = await workshop.store.request_cancel("", left.id)
    assert asked is not None
    events, response = await workshop.ended(asked)
    assert audit(events) == []
    assert response.status == "incomplete"
    assert workshop.provider.turns == []


async def test_calls_count_on(workshop: Workshop) -> None:
    """What the request allows is allowed once, not once for each process."""
    call = CallDelta(0, '{"n": 1}', "add", "c1")
    tools = [FunctionTool("add", None, {"type": "object"}, None)]
    workshop.provider.says = [CallDelta(0, '{"n": 2}', "add", "c2"), Finish("tool_calls")]
    left = await workshop.left([call], tools=tools, parallel_tool_calls=False, tool_choice="required")
    events, response = await workshop.ended(left)
    assert audit(events) == []
    assert response.status == "completed"
    assert [item.arguments for item in response.output if isinstance(item, FunctionCall)] == ['{"n": 1}']
