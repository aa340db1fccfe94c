"""Where a chain goes on, what it costs to move it, and who is given its reasoning back."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.config import ModelFacts, Prices, RouteSettings, Target
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing.affinity import HELD, Held, response_keys
from antiphon.providers.base import Capabilities, UpstreamError
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import Reasoning
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.store.base import StoredConversation
from antiphon.stream.deltas import Finish, ReasoningDelta, SignatureDelta, TextDelta, UsageDelta
from antiphon.wires.responses_socket import TurnMemory
from antiphon.wires.sealing import Seal
from tests.engine.played import Heard, Step
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
        fields = {"memory": TurnMemory(), "context": RequestContext(request_id="req_1", receipts=True)}
    await world.stream(**fields)
    then, _ = await world.stream(**fields)
    assert then.response.model == "b/m"
    other: dict[str, Any] = {"context": RequestContext(tenant="other")}
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
    longer: list[Step] = [[], [TextDelta("fine")], [UsageDelta(Usage.of(1200, 100)), Finish()]]
    a, b = Scenes("a", FINE, FAILS), Scenes("b", longer)
    world = World(store, a, b, catalogue=known)
    await world.stream(prompt_cache_key="k")
    run, _ = await world.stream(prompt_cache_key="k")
    assert run.response.model == "b/m"
    reason = route_of(run).reason
    assert reason.endswith("; 1,000 tokens that a/m had in its cache are read again, for $0.001500")


async def test_a_move_costs_no_more_than_the_prompt_that_moved(store: SqliteStore) -> None:
    uncounted: list[Step] = [[], [TextDelta("fine")], [Finish()]]
    counted: list[Step] = [[], [TextDelta("fine")], [UsageDelta(Usage.of(9, 2)), Finish()]]
    for answer, tokens in ((uncounted, 5), (counted, 9)):
        world = World(store, Scenes("a", FINE, FAILS), Scenes("b", answer))
        await world.stream(prompt_cache_key="k")
        run, _ = await world.stream(prompt_cache_key="k", input="twenty characters...")
        assert route_of(run).reason.endswith(f"; {tokens} tokens that a/m had in its cache are read again")


async def test_a_move_that_costs_nothing_is_not_told(store: SqliteStore) -> None:
    uncounted: list[Step] = [[], [TextDelta("fine")], [Finish()]]
    world = World(store, Scenes("a", uncounted, FAILS), Scenes("b", FINE))
    await world.stream(prompt_cache_key="k")
    run, _ = await world.stream(prompt_cache_key="k")
    assert route_of(run).reason == "b/m answered, after 1 other attempt"


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


async def test_two_routes_have_chains_of_their_own_under_one_cache_key(store: SqliteStore) -> None:
    """An agent asks a large and a small model under the same key; neither moves because of the other."""
    world = World(store, *(Scenes(name, FINE) for name in "abcd"))
    config = replace(
        world.engine.config,
        models={"large": ("a/m", "b/m"), "small": ("c/m", "d/m")},
        routes={name: RouteSettings(strategy="weighted") for name in ("large", "small")},
    )
    world.engine = Engine(config, world.providers, store, Seal([bytes(32)]), lambda: world.now)
    runs = [(await world.stream(model=name, prompt_cache_key="k"))[0] for name in ("large", "small") * 4]
    assert len({run.response.model for run in runs[::2]}) == 1
    assert len({run.response.model for run in runs[1::2]}) == 1
    assert not any("read again" in route_of(run).reason for run in runs)


async def test_a_chain_stays_on_its_target_after_a_restart(store: SqliteStore) -> None:
    """What a process has learnt ends with it; the response says itself who gave it."""
    first, _ = await (await moved_once(store)).stream()
    assert first.response.model == "b/m"
    for strategy in ("order", "weighted", "cheapest"):
        anew = World(store, Scenes("a", FINE), Scenes("b", FINE), strategy=strategy)
        then, _ = await anew.stream(previous_response_id=first.response.id)
        assert outcomes(then) == [("b/m", "answered")], strategy
    without = World(store, Scenes("a", FINE), Scenes("b", FINE), affinity="none")
    then, _ = await without.stream(previous_response_id=first.response.id)
    assert then.response.model == "a/m"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_that_nobody_can_go_on_with_takes_no_place(store: SqliteStore, stream: bool) -> None:
    world = World(store, Scenes("a", FINE), Scenes("b", FINE))
    for kept, expected in ((True, Held(Target("a", "m"), 1000)), (False, None)):
        run = (await world.stream(store=kept))[0] if stream else await world.plain(store=kept)
        keys = response_keys("", "r", run.response.id)
        assert world.engine.routes.states.affinity.find(keys, world.now) == expected


async def test_a_chain_that_nobody_answers_has_not_moved(store: SqliteStore) -> None:
    world = World(store, Scenes("a", FINE, FAILS), Scenes("b", FAILS), retries=1)
    began, _ = await world.stream(store=True)
    run = await world.start(previous_response_id=began.response.id)
    with pytest.raises(UpstreamError):
        await run.deliver(Heard(), 5)
    (told,) = [receipt for receipt in run.turn.receipts if receipt.action == "route"]
    assert "cache" not in told.reason


async def test_a_prompt_cache_is_not_believed_for_ever_after_a_restart(store: SqliteStore) -> None:
    first, _ = await World(store, Scenes("a", FINE), Scenes("b", FINE)).stream(input="word " * 500)
    for later, is_told in ((HELD - 1, True), (HELD, False)):
        anew = World(store, Scenes("a", FAILS), Scenes("b", FINE))
        anew.now += later
        then, _ = await anew.stream(previous_response_id=first.response.id)
        assert outcomes(then)[0] == ("a/m", "timeout")
        assert ("in its cache are read again" in route_of(then).reason) == is_told
