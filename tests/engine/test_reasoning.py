"""Proofs of reasoning: sealed for the client, opened for the model that gave them, for nobody else."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import Config, ProviderSettings
from antiphon.engine.engine import Engine
from antiphon.engine.reasoning import Proofs
from antiphon.engine.request_context import RequestContext
from antiphon.providers.base import AnsweringProvider, Capabilities, Sink, Turn, answer_from
from antiphon.spec.codec import encode, to_builtins
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item, Reasoning
from antiphon.spec.request import Request
from antiphon.spec.response import Response
from antiphon.store import SqliteStore
from antiphon.stream.deltas import AnyDelta, Finish, ReasoningDelta, SignatureDelta, TextDelta
from antiphon.wires.sealing import Seal

BLOB = '{"type":"thinking","signature":"EqQB=="}'


class Thinking(AnsweringProvider):
    """A provider that thinks with a proof, and remembers what it was shown."""

    def __init__(self, name: str = "p", *, foreign: bool = False) -> None:
        self.name = name
        self.capabilities = Capabilities(frozenset(), proofs=True, foreign_proofs=foreign)
        self.shown: list[str | None] = []

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await answer_from(self._batches(turn), sink)

    async def _batches(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        self.shown = [item.encrypted_content for item in turn.items if isinstance(item, Reasoning)]
        yield [ReasoningDelta("Hm."), SignatureDelta(BLOB), TextDelta("Yes."), Finish()]


class World:
    def __init__(self, store: SqliteStore, *, foreign: bool = False) -> None:
        self.p, self.q = Thinking("p", foreign=foreign), Thinking("q")
        config = Config(default_model="p/m", providers={name: ProviderSettings(type="x") for name in "pq"})
        self.engine = Engine(config, {"p": self.p, "q": self.q}, store, Seal([bytes(32)]), lambda: 1000.0)

    async def ask(self, input: Any = "hi", *, tenant: str = "", **fields: Any) -> Response:
        request = decode_request(encode({"input": input, **fields}))
        run = await self.engine.start(
            request, self.engine.new_run(RequestContext(tenant=tenant, receipts=True))
        )
        return await run.result()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = await SqliteStore.open(tmp_path)
    yield World(store)
    await store.close()


def proof(response: Response) -> str:
    (reasoning,) = (item for item in response.output if isinstance(item, Reasoning))
    assert reasoning.encrypted_content
    return reasoning.encrypted_content


def replayed(response: Response) -> list[Any]:
    """What a client without a store sends back, and a further word."""
    return ["hi", *to_builtins(response.output), "go on"]


def as_input(items: list[Any]) -> list[Any]:
    return [{"role": "user", "content": one} if isinstance(one, str) else one for one in items]


async def test_a_proof_is_sealed_and_comes_back_to_its_model_without_a_store(world: World) -> None:
    first = await world.ask(store=False)
    assert proof(first).startswith("v1.")
    assert "signature" not in proof(first)
    second = await world.ask(as_input(replayed(first)), store=False)
    assert world.p.shown == [BLOB]
    assert not second.receipts


async def test_a_proof_comes_back_from_the_store(world: World) -> None:
    first = await world.ask()
    await world.ask("go on", previous_response_id=first.id)
    assert world.p.shown == [BLOB]


@pytest.mark.parametrize("model", ["q/m", "p/other"])
async def test_another_provider_or_model_is_not_shown_the_proof(world: World, model: str) -> None:
    first = await world.ask()
    for input, previous in (("go on", first.id), (as_input(replayed(first)), None)):
        moved = await world.ask(input, previous_response_id=previous, model=model)
        assert (world.q if model == "q/m" else world.p).shown == [None]
        (receipt,) = moved.receipts or []
        assert (receipt.action, "only p/m" in receipt.reason) == ("suppressed", True)


async def test_the_chain_can_come_back_to_the_first_model(world: World) -> None:
    first = await world.ask()
    second = await world.ask("and", previous_response_id=first.id, model="q/m")
    await world.ask("then", previous_response_id=second.id)
    assert world.p.shown == [BLOB, None]


async def test_a_forged_or_stolen_proof_is_refused(world: World) -> None:
    first = await world.ask(tenant="a", store=False)
    items = as_input(replayed(first))
    with pytest.raises(SpecError) as stolen:
        await world.ask(items, tenant="b", store=False)
    forged = [dict(one) for one in items]
    forged[1]["encrypted_content"] = proof(first)[:-8] + "AAAAAAA="
    with pytest.raises(SpecError) as changed:
        await world.ask(forged, tenant="a", store=False)
    for caught in (stolen, changed):
        assert caught.value.payload.code == "invalid_encrypted_content"
        assert caught.value.payload.param == "input[1].encrypted_content"


async def test_a_blob_from_elsewhere_goes_only_to_an_upstream_that_seals_its_own(tmp_path: Path) -> None:
    items = [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAAB"},
    ]
    store = await SqliteStore.open(tmp_path)
    world = World(store, foreign=True)
    await world.ask(items)
    assert world.p.shown == ["gAAAAAB"]
    told = await world.ask(items, model="q/m")
    assert world.q.shown == [None]
    assert [receipt.param for receipt in told.receipts or []] == ["input[1].encrypted_content"]
    await store.close()


async def test_what_the_client_sent_is_stored_as_it_was(world: World) -> None:
    first = await world.ask()
    second = await world.ask(as_input(replayed(first)))
    stored = await world.engine.store.context("", second.id)
    assert stored is not None
    assert proof(first).encode() in stored.json()


@given(st.text(), st.text(max_size=20), st.text(max_size=20))
def test_every_proof_survives_the_way_there_and_back(blob: str, tenant: str, model: str) -> None:
    blob = blob.encode("utf-8", "replace").decode()
    tenant, model = (text.encode("utf-8", "replace").decode() for text in (tenant, model))
    turn = Turn(model=model, request=Request(), items=[], tenant=tenant)
    proofs = Proofs(Seal([bytes(32)]), Thinking(), turn)
    item = Reasoning(summary=[], encrypted_content=proofs.seal_blob(blob))
    items: list[Item] = [item]
    (opened,) = proofs.open_items(items, 0)
    assert isinstance(opened, Reasoning)
    assert opened.encrypted_content == blob
    assert item.encrypted_content != blob
