"""Where a chain goes on, what it costs to move it, and who is given its reasoning back."""

from typing import Any

import pytest

from antiphon.config import ModelFacts, Prices
from antiphon.engine.engine import Caller
from antiphon.providers.base import Capabilities, UpstreamError
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import Reasoning
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.store.base import StoredConversation
from antiphon.stream.deltas import Finish, ReasoningDelta, SignatureDelta, TextDelta, UsageDelta
from antiphon.wires.responses_socket import TurnMemory
from tests.engine.played import Step
from tests.engine.routed import Scenes, World, outcomes, route_of

FAILS: list[Step] = [UpstreamError(ErrorPayload("server_error", "no", "timeout"), 504)]
FINE: list[Step] = [[], [TextDelta("fine")], [UsageDelta(Usage.of(900, 100)), Finish()]]


async def moved_once(store: SqliteStore, **settings: Any) -> World:
    """A world whose first target failed once, so that the second answered."""
    return World(store, Scenes("a", FAILS, FINE), Scenes("b", FINE), **settings)


async def test_a_chain_stays_where_it_was_answered(store: SqliteStore) -> None:
    world = await moved_once(store)
    first, _ = await world.stream()
    then, _ = await world.stream(previous_response_id=first.response.id)
    assert outcomes(then) == [("b/m", "answered")]
    attempts = route_of(then).attempts
    assert isinstance(attempts, tuple)
    assert attempts[0].reason == "affinity"
    elsewhere, _ = await world.stream()
    assert elsewhere.response.model == "a/m"


@pytest.mark.parametrize("fields", [{"prompt_cache_key": "k"}, {"is_socket": True}])
async def test_a_cache_key_and_a_socket_stay_on_their_target(
    store: SqliteStore, fields: dict[str, Any]
) -> None:
    world = await moved_once(store)
    if fields.pop("is_socket", False):
        fields = {"memory": TurnMemory(), "caller": Caller(request_id="req_1", receipts=True)}
    await world.stream(**fields)
    then, _ = await world.stream(**fields)
    assert then.response.model == "b/m"
    other: dict[str, Any] = {"caller": Caller(tenant="other")}
    if "memory" not in fields:
        other["prompt_cache_key"] = "k"
    foreign, _ = await world.stream(**other)
    assert foreign.response.model == "a/m"


async def test_a_conversation_stays_on_its_target(store: SqliteStore) -> None:
    await store.create_conversation(StoredConversation("conv_1", "", b"{}", 1))
    world = await moved_once(store)
    await world.stream(conversation="conv_1")
    then, _ = await world.stream(conversation="conv_1")
    assert outcomes(then) == [("b/m", "answered")]


async def test_without_affinity_every_request_is_alone(store: SqliteStore) -> None:
    world = await moved_once(store, affinity="none")
    await world.stream(prompt_cache_key="k")
    then, _ = await world.stream(prompt_cache_key="k")
    assert then.response.model == "a/m"


async def test_the_receipt_says_what_a_move_costs(store: SqliteStore) -> None:
    prices = Prices(input=2.0, cached_input=0.5, output=8.0)
    known = {"a/m": ModelFacts(prices=prices), "b/m": ModelFacts(prices=prices)}
    a, b = Scenes("a", FINE, FAILS), Scenes("b", FINE)
    world = World(store, a, b, catalogue=known)
    await world.stream(prompt_cache_key="k")
    run, _ = await world.stream(prompt_cache_key="k")
    assert run.response.model == "b/m"
    reason = route_of(run).reason
    assert reason.endswith("; 1,000 tokens that a/m had in its cache are read anew, for $0.001500")


async def test_the_cheapest_counts_what_a_cache_saves(store: SqliteStore) -> None:
    known = {
        "a/m": ModelFacts(prices=Prices(input=3.0, cached_input=0.3, output=1.0)),
        "b/m": ModelFacts(prices=Prices(input=2.0, output=1.0)),
    }
    a, b = Scenes("a", FINE), Scenes("b", FAILS, FINE)
    world = World(store, a, b, catalogue=known, strategy="cheapest")
    long: dict[str, Any] = {"prompt_cache_key": "k", "input": "word " * 800}
    first, _ = await world.stream(**long)
    assert outcomes(first) == [("b/m", "timeout"), ("a/m", "answered")]
    then, _ = await world.stream(**long)
    assert then.response.model == "a/m"
    alone, _ = await world.stream()
    assert alone.response.model == "b/m"


async def test_reasoning_goes_back_only_to_the_target_that_gave_it(store: SqliteStore) -> None:
    thinks: list[Step] = [[], [ReasoningDelta("Hm."), SignatureDelta("proof"), TextDelta("Yes.")], [Finish()]]
    a, b = Scenes("a", thinks, thinks, FAILS), Scenes("b", thinks)
    a.capabilities = b.capabilities = Capabilities(frozenset(), proofs=True)
    world = World(store, a, b)
    first, _ = await world.stream()
    second, _ = await world.stream(previous_response_id=first.response.id)
    third, _ = await world.stream(previous_response_id=second.response.id)

    def proofs(target: Scenes) -> list[str | None]:
        return [item.encrypted_content for item in target.turns[-1].items if isinstance(item, Reasoning)]

    assert len(a.turns) == 3
    assert proofs(a) == ["proof", "proof"]
    assert proofs(b) == [None, None]
    assert any("only a/m can read this reasoning" in receipt.reason for receipt in third.turn.receipts)
    back, _ = await World(store, b).stream(previous_response_id=third.response.id)
    assert proofs(b) == [None, None, "proof"]
    assert back.response.status == "completed"
