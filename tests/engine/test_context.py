"""From previous responses, conversations and references to one list of items."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.engine.context import Memory, Resolved, prepare_items, resolve, resolve_alone
from antiphon.engine.reasoning import Proofs
from antiphon.engine.saving import encode_all, stored
from antiphon.providers.base import Turn
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_items, decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.items import FunctionCallOutput, Item, Message, is_call, type_of
from antiphon.store import Context, NewResponse, SqliteStore, StoredConversation
from antiphon.stream import pairing
from antiphon.wires.compaction import COMPACTION
from antiphon.wires.sealing import Seal
from tests.providers.silent import Silent

SEAL = Seal([bytes(32)])
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "42"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


def items(*raw: dict[str, Any]) -> list[Item]:
    return decode_items(encode(list(raw)))


def user(text: str, id: str = "") -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text} | ({"id": id} if id else {})


async def save(
    store: SqliteStore,
    id: str,
    given: list[Item],
    made: list[Item],
    previous: Context | None = None,
    tenant: str = "",
) -> None:
    await store.save(
        NewResponse(
            id=id,
            tenant=tenant,
            status="completed",
            model="m",
            created_at=1,
            body=b"{}",
            input=encode_all(given),
            output=encode_all(made),
            names=[item.id for item in given + made],
            previous=previous,
        )
    )


async def resolved(store: SqliteStore, tenant: str = "", **fields: Any) -> Resolved:
    pairing = fields.pop("pairing", "reject")
    memory = fields.pop("memory", None)
    request = decode_request(encode({"model": "m", **fields}))
    proofs = Proofs(SEAL, Silent(), Turn(model="m", request=request, items=[], tenant=tenant))
    found = await resolve(request, tenant=tenant, store=store, memory=memory, pairing=pairing)
    return replace(found, items=await prepare_items(found, proofs, tenant, SEAL))


def texts(found: list[Item]) -> list[str]:
    return [item.get_text() for item in found if isinstance(item, Message)]


async def test_a_string_is_a_user_message_with_an_id(store: SqliteStore) -> None:
    (message,) = (await resolved(store, input="hi")).items
    assert isinstance(message, Message)
    assert (message.role, message.content) == ("user", "hi")
    assert message.id.startswith("msg_")


async def test_what_a_provider_does_to_its_items_is_not_taken_for_input(store: SqliteStore) -> None:
    words = resolve_alone(decode_request(encode({"model": "m", "input": "hi"})))
    assert words is not None
    for found in (words, await resolved(store, input=[user("hi")])):
        found.items.insert(0, Message(role="system", content="be brief"))
        assert texts(found.input) == ["hi"]


async def test_context_is_previous_input_then_output_then_input_1_13(store: SqliteStore) -> None:
    await save(store, "resp_1", items(user("one", "m1")), items(user("two", "m2")))
    await save(
        store,
        "resp_2",
        items(user("three", "m3")),
        items(user("four", "m4")),
        await store.context("", "resp_1"),
    )
    found = await resolved(store, previous_response_id="resp_2", input="five")
    assert texts(found.items) == ["one", "two", "three", "four", "five"]
    assert texts(found.input) == ["five"]


async def test_an_unknown_previous_response_is_404(store: SqliteStore) -> None:
    with pytest.raises(SpecError) as refused:
        await resolved(store, previous_response_id="resp_x", input="a")
    assert refused.value.status == 404
    assert refused.value.payload.code == "previous_response_not_found"
    assert refused.value.payload.param == "previous_response_id"


async def test_another_tenants_response_is_404(store: SqliteStore) -> None:
    await save(store, "resp_1", items(user("secret", "m1")), [], tenant="alice")
    with pytest.raises(SpecError) as refused:
        await resolved(store, tenant="bob", previous_response_id="resp_1", input="a")
    assert refused.value.status == 404


async def test_the_memory_of_a_socket_comes_before_the_store(store: SqliteStore) -> None:
    memory = Memory()
    memory.keep("resp_9", Context("resp_9", "completed", (), encode(items(user("local"))[0]), b""))
    assert texts((await resolved(store, memory=memory, previous_response_id="resp_9", input="b")).items) == [
        "local",
        "b",
    ]
    memory.evict("resp_9")
    with pytest.raises(SpecError):
        await resolved(store, memory=memory, previous_response_id="resp_9", input="b")


async def test_a_conversation_is_the_context(store: SqliteStore) -> None:
    await store.create_conversation(
        StoredConversation("conv_1", "", b"{}", 1), stored(items(user("one", "m1")))
    )
    assert texts((await resolved(store, conversation="conv_1", input="two")).items) == ["one", "two"]
    with pytest.raises(SpecError, match="does not exist"):
        await resolved(store, conversation="conv_2", input="two")


async def test_conversation_and_previous_response_exclude_each_other(store: SqliteStore) -> None:
    await save(store, "resp_1", items(user("one", "m1")), [])
    with pytest.raises(SpecError, match="not both"):
        await resolved(store, conversation="conv_1", previous_response_id="resp_1", input="x")


async def test_an_item_reference_is_resolved_from_the_store(store: SqliteStore) -> None:
    await save(store, "resp_1", items(user("stored", "m1")), [])
    found = await resolved(store, input=[{"type": "item_reference", "id": "m1"}, user("new")])
    assert texts(found.items) == ["stored", "new"]


async def test_a_reference_into_the_context_does_not_repeat_it(store: SqliteStore) -> None:
    await save(store, "resp_1", items(user("stored", "m1")), [])
    found = await resolved(store, previous_response_id="resp_1", input=[{"id": "m1"}, user("new")])
    assert texts(found.items) == ["stored", "new"]


async def test_a_reference_to_nothing_names_its_place(store: SqliteStore) -> None:
    with pytest.raises(SpecError) as refused:
        await resolved(store, input=[user("a"), {"type": "item_reference", "id": "gone"}])
    assert (refused.value.status, refused.value.payload.param) == (404, "input[1].id")


async def test_an_orphan_output_is_refused_with_its_place(store: SqliteStore) -> None:
    with pytest.raises(SpecError) as refused:
        await resolved(store, input=[user("a"), OUTPUT])
    assert refused.value.payload.param == "input[1].call_id"


async def test_an_unanswered_call_is_refused_with_its_place(store: SqliteStore) -> None:
    with pytest.raises(SpecError) as refused:
        await resolved(store, input=[user("a"), CALL, user("b")])
    assert refused.value.payload.param == "input[1].call_id"


async def test_an_unanswered_call_of_an_earlier_turn_is_refused(store: SqliteStore) -> None:
    await save(store, "resp_1", items(user("a", "m1")), items(CALL | {"id": "fc_1"}))
    with pytest.raises(SpecError) as refused:
        await resolved(store, previous_response_id="resp_1", input="never mind")
    assert refused.value.payload.param == "input"


@pytest.mark.parametrize("call_id", [None, "tsc_1"])
@pytest.mark.parametrize("answered", [False, True])
async def test_a_tool_search_that_the_server_ran_needs_no_output(
    store: SqliteStore, call_id: str | None, answered: bool
) -> None:
    search: dict[str, Any] = {"type": "tool_search_call", "id": "tsc_1", "call_id": call_id}
    search["execution"] = "server"
    found: dict[str, Any] = {
        "type": "tool_search_output",
        "id": "tso_1",
        "call_id": None,
        "execution": "server",
        "tools": [],
    }
    made = [search, found] if answered else [search]
    context = await resolved(store, input=[user("a"), *made, user("b")])
    assert [type_of(item) for item in context.items] == ["message", *(one["type"] for one in made), "message"]


async def test_a_tool_search_of_the_client_needs_an_output(store: SqliteStore) -> None:
    search = {"type": "tool_search_call", "id": "tsc_1", "call_id": "c", "execution": "client"}
    with pytest.raises(SpecError) as refused:
        await resolved(store, input=[user("a"), search, user("b")])
    assert refused.value.payload.code == "missing_tool_output"


async def test_a_custom_call_after_which_the_model_went_on_needs_no_output(store: SqliteStore) -> None:
    """xAI's own search comes like a call of a client's tool, with the answer after it."""
    call = {"type": "custom_tool_call", "call_id": "xs_1", "name": "x_keyword_search", "input": "{}"}
    said = {"type": "message", "role": "assistant", "content": "Found it."}
    await save(store, "r1", items(user("search")), items(call, said))
    found = await resolved(store, input="and?", previous_response_id="r1")
    assert [type_of(item) for item in found.items] == ["message", "custom_tool_call", "message", "message"]
    for waiting in ([call], [said, call], [call, user("and?")]):
        with pytest.raises(SpecError) as refused:
            await resolved(store, input=waiting)
        assert refused.value.payload.code == "missing_tool_output"


async def test_a_call_of_the_history_is_an_item_and_not_text(store: SqliteStore) -> None:
    found = await resolved(store, input=[user("a"), CALL, OUTPUT])
    assert [type(item).__name__ for item in found.items] == ["Message", "FunctionCall", "FunctionCallOutput"]


async def test_repair_keeps_parallel_calls_together(store: SqliteStore) -> None:
    calls = [
        {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"} for id in ("a", "b", "c")
    ]
    output = {"type": "function_call_output", "call_id": "b", "output": "done"}
    found = await resolved(store, pairing="repair", input=[*calls, output, user("next")])
    told = [(type_of(item), getattr(item, "call_id", "")) for item in found.items]
    assert told[:3] == [("function_call", id) for id in ("a", "b", "c")]
    assert sorted(told[3:6]) == [("function_call_output", id) for id in ("a", "b", "c")]
    assert told[6] == ("message", "")


async def test_repair_looks_at_each_item_a_few_times(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def counted(item: Item) -> bool:
        nonlocal looks
        looks += 1
        return is_call(item)

    monkeypatch.setattr(pairing, "is_call", counted)
    calls = [CALL | {"call_id": f"c{n}"} for n in range(2000)]
    found = await resolved(store, pairing="repair", input=[*calls, user("next")])
    outputs = found.items[2000:4000]
    assert [getattr(item, "call_id", None) for item in outputs] == [f"c{n}" for n in range(2000)]
    assert found.items[4000:] == [found.input[-1]]
    assert looks < 5 * len(calls)


async def test_repair_drops_orphans_and_answers_open_calls(store: SqliteStore) -> None:
    stray = OUTPUT | {"call_id": "c9"}
    found = await resolved(store, pairing="repair", input=[stray, CALL, user("b")])
    assert [type(item).__name__ for item in found.items] == ["FunctionCall", "FunctionCallOutput", "Message"]
    repaired = found.items[1]
    assert isinstance(repaired, FunctionCallOutput)
    assert repaired.call_id == "c1"


async def test_a_compaction_item_becomes_its_summary(store: SqliteStore) -> None:
    summary = encode(items({"type": "message", "role": "developer", "content": "we spoke of tea"}))
    blob = SEAL.seal(summary, tenant="", purpose=COMPACTION)
    found = await resolved(store, input=[{"type": "compaction", "encrypted_content": blob}, user("go on")])
    assert texts(found.items) == ["we spoke of tea", "go on"]


@pytest.mark.parametrize("tenant", ["", "bob"])
async def test_a_forged_or_foreign_compaction_is_refused(store: SqliteStore, tenant: str) -> None:
    blob = SEAL.seal(b"[]", tenant="alice", purpose=COMPACTION)
    with pytest.raises(SpecError) as refused:
        await resolved(store, tenant=tenant, input=[{"type": "compaction", "encrypted_content": blob}])
    assert refused.value.payload.code == "invalid_encrypted_content"
    assert refused.value.payload.param == "input[0].encrypted_content"
