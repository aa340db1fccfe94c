"""Every method against a real gateway."""

import json

import pytest

from antiphon.client import AsyncClient, Client, StatusError, StreamBroken
from antiphon.client.agent import Agent
from antiphon.client.tools import tool
from antiphon.spec.codec import Opaque
from antiphon.spec.items import Compaction, FunctionCall, FunctionCallOutput, Message, type_of
from antiphon.spec.tools import FunctionTool
from tests.server.servers import Serving


def script(steps: object) -> str:
    return f"Go.\n```script\n{json.dumps(steps)}\n```"


async def test_create_retrieve_list_and_delete(client: AsyncClient) -> None:
    first = await client.responses.create("one", model="demo", metadata={"a": "b"})
    second = await client.responses.create("two", previous_response_id=first.id)
    assert (await client.responses.retrieve(first.id)).metadata == {"a": "b"}
    items = [item async for item in client.responses.input_items(second.id, order="asc", limit=1)]
    assert [item.get_text() for item in items if isinstance(item, Message)] == ["one", "one", "two"]
    some = [item async for item in client.responses.input_items(second.id, order="asc", after=items[0].id)]
    assert some == items[1:]
    deleted = await client.responses.delete(first.id)
    assert (deleted.id, deleted.deleted) == (first.id, True)
    with pytest.raises(StatusError) as caught:
        await client.responses.retrieve(first.id)
    assert (caught.value.status, caught.value.code) == (404, "response_not_found")
    assert caught.value.request_id


async def test_items_can_be_dicts_structs_or_what_came_back(client: AsyncClient) -> None:
    calling = {"when": {"last": "message"}, "steps": [{"call": "f", "arguments": {"a": 1}}]}
    call = script({"turns": [calling, {"steps": [{"echo": True}]}]})
    tool = FunctionTool("f", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
    asked = await client.responses.create({"role": "user", "content": call}, tools=[tool])
    (made,) = asked.output
    assert isinstance(made, FunctionCall)
    output = FunctionCallOutput(call_id=made.call_id, output="18 degrees")
    question = Message(role="user", content=call)
    answered = await client.responses.create([question, *asked.output, output], tools=[tool], store=False)
    assert answered.output_text == "18 degrees"


async def test_a_background_response_is_cancelled(client: AsyncClient) -> None:
    slow = 'x\n```script\n[{"text": "so far"}, {"delay": 30}, {"text": "never"}]\n```'
    response = await client.responses.create(slow, background=True)
    assert response.status in ("queued", "in_progress")
    stream = await client.responses.retrieve(response.id, stream=True)
    async with stream:
        async for _ in stream.text_deltas():
            break
        cancelled = await client.responses.cancel(response.id)
    assert cancelled.status in ("incomplete", "cancelled")
    assert cancelled.output_text == "so far"
    with pytest.raises(StreamBroken):
        await stream.final()


async def test_compact_and_count(client: AsyncClient) -> None:
    first = await client.responses.create("one")
    shorter = await client.responses.compact(model="demo", previous_response_id=first.id)
    assert any(isinstance(item, Compaction) for item in shorter.output)
    again = await client.responses.create([*shorter.output, {"role": "user", "content": "two"}])
    assert again.output_text == "two"
    with pytest.raises(StatusError, match="count"):
        await client.responses.input_tokens("how many?")


async def test_conversations(client: AsyncClient) -> None:
    made = await client.conversations.create(
        items=[{"role": "user", "content": "I am Ada."}], metadata={"topic": "names"}
    )
    await client.responses.create("two", conversation=made.id)
    added = await client.conversations.items.add(made.id, [{"role": "user", "content": "three"}])
    listed = [item async for item in client.conversations.items.list(made.id, order="asc", limit=2)]
    assert [item.get_text() for item in listed if isinstance(item, Message)] == [
        "I am Ada.",
        "two",
        "two",
        "three",
    ]
    assert (await client.conversations.items.retrieve(made.id, added[0].id)) == listed[-1]
    assert (await client.conversations.items.delete(made.id, added[0].id)).id == made.id
    updated = await client.conversations.update(made.id, metadata={"topic": "people"})
    assert (await client.conversations.retrieve(made.id)) == updated
    assert updated.metadata == {"topic": "people"}
    assert (await client.conversations.delete(made.id)).deleted
    with pytest.raises(StatusError):
        await client.conversations.retrieve(made.id)


async def test_models(client: AsyncClient) -> None:
    models = await client.models.list()
    assert "demo" in [model.id for model in models]
    assert (await client.models.retrieve("demo/demo")).owned_by == "demo"
    with pytest.raises(StatusError):
        await client.models.retrieve("nobody")


async def test_vendor_items_come_and_go_unchanged(gateway: Serving) -> None:
    search = {"type": "acme:search", "id": "s_1", "status": "completed", "hits": [1, 2]}
    shows = {"X-Antiphon-Dialect": "vtcode"}
    async with AsyncClient(f"{gateway.url}/v1", headers=shows, trust_env=False) as client:
        response = await client.responses.create(script([{"item": search}, {"text": "ok"}]))
        found = response.output[0]
        assert isinstance(found, Opaque)
        assert found.fields["hits"] == [1, 2]
        again = await client.responses.create([*response.output, {"role": "user", "content": "and?"}])
        kept = [item async for item in client.responses.input_items(again.id, order="asc")]
    assert isinstance(kept[0], Opaque)
    assert kept[0].fields["hits"] == [1, 2]


def test_the_synchronous_client_does_all_of_it_too(sync_client: Client) -> None:
    client = sync_client
    first = client.responses.create("one")
    assert client.responses.retrieve(first.id) == first
    assert len(list(client.responses.input_items(first.id, limit=1))) == 1
    with client.responses.create("two", stream=True) as stream:
        assert [event.type for event in stream][-1] == "response.completed"
    slow = 'x\n```script\n[{"text": "so far"}, {"delay": 30}]\n```'
    running = client.responses.create(slow, background=True)
    with client.responses.retrieve(running.id, stream=True) as stream:
        assert next(stream.text_deltas()) == "so far"
        assert client.responses.cancel(running.id).output_text == "so far"
    assert any(isinstance(item, Compaction) for item in client.responses.compact("x", model="demo").output)
    with pytest.raises(StatusError):
        client.responses.input_tokens("x")
    assert client.responses.delete(first.id).deleted
    made = client.conversations.create()
    (added,) = client.conversations.items.add(made.id, [{"role": "user", "content": "x"}])
    assert client.conversations.items.retrieve(made.id, added.id).id == added.id
    assert [item.id for item in client.conversations.items.list(made.id)] == [added.id]
    assert client.conversations.items.delete(made.id, added.id).id == made.id
    assert client.conversations.update(made.id, metadata={"a": "b"}).metadata == {"a": "b"}
    assert client.conversations.retrieve(made.id).id == made.id
    assert client.conversations.delete(made.id).deleted
    assert client.models.retrieve("demo").id == "demo"
    assert client.models.list()


async def test_the_response_of_a_task_has_the_servers_id_and_can_be_continued(client: AsyncClient) -> None:
    @tool
    def look_up() -> str:
        """Look it up."""
        return "heron"

    calling = {"when": {"last": "message"}, "steps": [{"call": "look_up", "arguments": {}}]}
    looks = script({"turns": [calling, {"steps": [{"text": "It is there."}]}]})
    agent = Agent(model="demo", client=client, tools=[look_up])
    first = await agent.execute_open_responses(looks)
    assert (first.status, first.output_text) == ("completed", "It is there.")
    assert (await client.responses.retrieve(first.id)).output_text == "It is there."
    second = await agent.execute_open_responses("Go on.", first.id)
    assert (second.status, second.previous_response_id) == ("completed", first.id)
    kinds = [type_of(item) async for item in client.responses.input_items(second.id, order="asc")]
    assert kinds[:5] == ["message", "function_call", "function_call_output", "message", "message"]


async def test_the_response_of_a_task_that_failed_on_the_server_has_its_id_too(client: AsyncClient) -> None:
    failed = await Agent(model="demo", client=client).execute_open_responses(
        script([{"text": "half"}, {"error": {"type": "model_error", "message": "overloaded"}}])
    )
    assert failed.error is not None
    assert failed.error.code == "execution_failed"
    assert (await client.responses.retrieve(failed.id)).status == "failed"


async def test_the_response_of_a_task_that_the_server_refused_says_why(client: AsyncClient) -> None:
    refused = await Agent(model="demo", client=client).execute_open_responses("Go on.", "resp_unheard_of")
    assert refused.error is not None
    assert refused.error.code == "execution_failed"
    assert "the response 'resp_unheard_of' does not exist" in refused.error.message
