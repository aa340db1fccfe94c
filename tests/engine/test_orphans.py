"""Wherever the log of a background response breaks off, it can be brought to a valid end."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.engine.orphans import last_words
from antiphon.spec import ids
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_response
from antiphon.spec.response import Response
from antiphon.store import NewResponse, SqliteStore
from antiphon.stream.auditor import audit
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, ReasoningDelta
from antiphon.stream.dialects import DIALECTS, OPEN_RESPONSES, Dialect
from antiphon.stream.framing import single_line
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
    assert await store.update(await last_words(store, orphan, "me", 100))
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
