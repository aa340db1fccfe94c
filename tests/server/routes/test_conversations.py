"""Conversations over HTTP, by hand and with the unmodified `openai` package."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.conversations import Conversation, ConversationDeletedResource

from tests.server.conftest import Serve
from tests.server.servers import Client, Serving
from tests.server.upstream import Upstream

Item = dict[str, Any]


@pytest.fixture
def server(serve: Serve, upstream: Upstream) -> Serving:
    upstream.answer = "I heard you."
    return serve(upstream.toml)


@pytest.fixture
def client(server: Serving) -> Client:
    return server.client()


@pytest.fixture
def sdk(server: Serving) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as made:
        yield made


def said(*words: str) -> list[Item]:
    return [{"role": "user", "content": word} for word in words]


def texts(items: list[Item]) -> list[str]:
    return [item["content"][0]["text"] for item in items]


def test_an_empty_one_needs_no_body(client: Client) -> None:
    made = client.ok("POST", "/v1/conversations")
    assert made["id"].startswith("conv_")
    assert made == {
        "id": made["id"],
        "object": "conversation",
        "created_at": made["created_at"],
        "metadata": {},
    }
    assert client.ok("GET", f"/v1/conversations/{made['id']}") == made
    assert client.ok("POST", "/v1/conversations", json={"items": None, "metadata": None})["metadata"] == {}


def test_metadata_is_replaced(client: Client) -> None:
    made = client.ok("POST", "/v1/conversations", json={"metadata": {"topic": "birds", "mood": "good"}})
    changed = client.ok("POST", f"/v1/conversations/{made['id']}", json={"metadata": {"topic": "fish"}})
    assert changed == {**made, "metadata": {"topic": "fish"}}
    assert client.ok("GET", f"/v1/conversations/{made['id']}") == changed
    assert client.ok("POST", f"/v1/conversations/{made['id']}", json={"metadata": None})["metadata"] == {}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata": {"n": 1}}, "metadata.n"),
        ({"metadata": {"long": "x" * 513}}, "metadata.long"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
    ],
)
def test_wrong_metadata_is_refused(client: Client, body: Item, param: str) -> None:
    id = client.ok("POST", "/v1/conversations")["id"]
    assert client.refused(400, "POST", f"/v1/conversations/{id}", json=body)["param"] == param


def test_items_get_ids_and_their_long_form(client: Client) -> None:
    made = client.ok("POST", "/v1/conversations", json={"items": said("one")})
    path = f"/v1/conversations/{made['id']}/items"
    call: Item = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{}"}
    output: Item = {"type": "function_call_output", "call_id": "call_1", "output": "2"}
    vendor: Item = {"type": "acme:note", "id": "note_1", "anything": [1, {"b": 2}]}
    added = client.ok("POST", path, json={"items": [*said("two"), call, output, vendor]})
    assert added["object"] == "list"
    assert added["has_more"] is False
    message, called, answered, note = added["data"]
    assert message == {
        "type": "message",
        "id": message["id"],
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "two"}],
    }
    assert called == {**call, "id": called["id"], "status": "completed"}
    assert answered == {**output, "id": answered["id"], "status": "completed"}
    assert note == vendor
    prefixes = [item["id"].split("_")[0] for item in added["data"]]
    assert prefixes == ["msg", "fc", "fco", "note"]
    assert (added["first_id"], added["last_id"]) == (message["id"], "note_1")
    listed = client.ok("GET", path, params={"order": "asc"})
    assert listed["data"][1:] == added["data"]
    for item in added["data"]:
        assert client.ok("GET", f"{path}/{item['id']}") == item


def test_items_come_in_pages(client: Client) -> None:
    words = [f"word {n}" for n in range(45)]
    made = client.ok("POST", "/v1/conversations", json={"items": said(*words)})
    path = f"/v1/conversations/{made['id']}/items"
    pages = [client.ok("GET", path)]
    while pages[-1]["has_more"]:
        pages.append(client.ok("GET", path, params={"after": pages[-1]["last_id"]}))
    assert [len(page["data"]) for page in pages] == [20, 20, 5]
    assert [text for page in pages for text in texts(page["data"])] == words[::-1]
    first = client.ok("GET", path, params={"order": "asc", "limit": 100})
    assert texts(first["data"]) == words
    assert client.refused(404, "GET", f"{path}?after=msg_none")["param"] == "after"
    assert client.refused(400, "GET", f"{path}?limit=0")["param"] == "limit"


def test_an_item_is_taken_out(client: Client) -> None:
    made = client.ok("POST", "/v1/conversations", json={"items": said("one", "two", "three")})
    path = f"/v1/conversations/{made['id']}/items"
    second = client.ok("GET", path)["data"][1]["id"]
    assert client.ok("DELETE", f"{path}/{second}") == made
    assert texts(client.ok("GET", path)["data"]) == ["three", "one"]
    for method in ("GET", "DELETE"):
        assert client.refused(404, method, f"{path}/{second}")["code"] == "item_not_found"


def test_a_deleted_one_is_gone_with_its_items(client: Client) -> None:
    made = client.ok("POST", "/v1/conversations", json={"items": said("one")})
    path = f"/v1/conversations/{made['id']}"
    item = client.ok("GET", f"{path}/items")["data"][0]["id"]
    deleted = client.ok("DELETE", path)
    assert deleted == {"id": made["id"], "object": "conversation.deleted", "deleted": True}
    for method, where in [("GET", ""), ("DELETE", ""), ("GET", "/items"), ("GET", f"/items/{item}")]:
        assert client.refused(404, method, path + where)["code"] == "conversation_not_found"
    body = {"items": said("two")}
    assert client.refused(404, "POST", f"{path}/items", json=body)["code"] == "conversation_not_found"


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([], "items"),
        ("text", "items"),
        ([{"role": "nobody", "content": "x"}], "items[0].role"),
        ([{"role": "user", "content": "a"}, {"role": "user"}], "items[1].content"),
        ([{"type": "function_call", "name": "f", "arguments": "{}"}], "items[0].call_id"),
        ([{"type": "item_reference", "id": "msg_1"}], "items[0].type"),
        (
            [
                {"role": "user", "content": "a", "id": "msg_1"},
                {"role": "user", "content": "b", "id": "msg_1"},
            ],
            "items",
        ),
    ],
)
def test_items_are_checked_as_input_is(client: Client, items: Any, param: str) -> None:
    path = f"/v1/conversations/{client.ok('POST', '/v1/conversations')['id']}/items"
    assert client.refused(400, "POST", path, json={"items": items})["param"] == param
    assert client.ok("GET", path)["data"] == []


def test_an_item_can_be_in_it_only_once(client: Client) -> None:
    one = {"role": "user", "content": "x", "id": "msg_1"}
    made = client.ok("POST", "/v1/conversations", json={"items": [one]})
    path = f"/v1/conversations/{made['id']}/items"
    error = client.refused(400, "POST", path, json={"items": [*said("new"), one]})
    assert error["code"] == "duplicate_item"
    assert texts(client.ok("GET", path)["data"]) == ["x"]


def test_responses_continue_it(client: Client, upstream: Upstream) -> None:
    made = client.ok("POST", "/v1/conversations", json={"items": said("My name is Ada.")})
    first = client.create(input="Who am I?", conversation=made["id"])
    client.create(input="And you?", conversation={"id": made["id"]})
    assert first["conversation"] == {"id": made["id"]}
    path = f"/v1/conversations/{made['id']}/items"
    listed = client.ok("GET", path, params={"order": "asc"})["data"]
    assert texts(listed) == ["My name is Ada.", "Who am I?", "Iheardyou.", "And you?", "Iheardyou."]
    assert listed[2]["id"] == first["output"][0]["id"]
    client.ok("DELETE", f"{path}/{listed[1]['id']}")
    client.ok("DELETE", f"{path}/{listed[2]['id']}")
    client.create(input="Still there?", conversation=made["id"])
    upstream.answer = None
    client.create(input="x", background=True, conversation=made["id"])
    call = upstream.next()
    call.finish()
    words = [message["content"] for message in call.body["messages"]]
    assert [_text(word) for word in words] == [
        "My name is Ada.",
        "And you?",
        "Iheardyou.",
        "Still there?",
        "Iheardyou.",
        "x",
    ]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_the_openai_package_works(sdk: openai.OpenAI) -> None:
    made = sdk.conversations.create(
        items=[{"type": "message", "role": "user", "content": "Hello"}], metadata={"a": "b"}
    )
    assert isinstance(made, Conversation)
    assert sdk.conversations.retrieve(made.id) == made
    assert sdk.conversations.update(made.id, metadata={"c": "d"}).metadata == {"c": "d"}
    added = sdk.conversations.items.create(
        made.id,
        items=[{"role": "user", "content": [{"type": "input_text", "text": f"{n}"}]} for n in range(30)],
    )
    assert len(added.data) == 30
    listed = list(sdk.conversations.items.list(made.id, order="asc"))
    assert [item.type for item in listed] == ["message"] * 31
    message = listed[0]
    assert message.type == "message"
    assert (message.role, message.status) == ("user", "completed")
    assert message.content[0].type == "input_text"
    assert message.content[0].text == "Hello"
    assert sdk.conversations.items.retrieve(message.id, conversation_id=made.id) == message
    assert sdk.conversations.items.delete(message.id, conversation_id=made.id).id == made.id
    response = sdk.responses.create(model="model", input="Hi", conversation=made.id)
    assert response.conversation is not None
    assert response.conversation.id == made.id
    newest = sdk.conversations.items.list(made.id, limit=1).data[0]
    assert newest.type == "message"
    assert newest.role == "assistant"
    deleted = sdk.conversations.delete(made.id)
    assert isinstance(deleted, ConversationDeletedResource)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        sdk.conversations.retrieve(made.id)
    with pytest.raises(openai.NotFoundError, match="continue after"):
        sdk.conversations.items.list(sdk.conversations.create().id, after="msg_none")


def test_the_openai_package_reads_stored_responses(sdk: openai.OpenAI, upstream: Upstream) -> None:
    response = sdk.responses.create(model="model", input="Hi")
    assert sdk.responses.retrieve(response.id) == response
    (item,) = sdk.responses.input_items.list(response.id)
    assert item.type == "message"
    assert item.content[0].type == "input_text"
    sdk.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(response.id)
    upstream.answer = None
    running = sdk.responses.create(model="model", input="Hi", background=True)
    assert running.status == "queued"
    upstream.next().say("Once upon")
    with sdk.responses.retrieve(running.id, stream=True) as events:
        for event in events:
            if event.type == "response.output_text.delta":
                seen = event.sequence_number
                break
    cancelled = sdk.responses.cancel(running.id)
    assert cancelled.status == "cancelled"
    assert cancelled.output_text == "Once upon"
    rest = list(sdk.responses.retrieve(running.id, stream=True, starting_after=seen))
    assert rest[0].type == "response.output_text.done"
    assert rest[-1].type == "response.incomplete"
