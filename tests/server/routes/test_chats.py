"""Chats over HTTP: a tree of responses that is listed, searched, renamed, pinned, moved and deleted."""

from typing import Any

import pytest

from antiphon import AsyncClient
from antiphon import Client as AntiphonClient
from tests.bridges.scripts import TOML
from tests.server.conftest import Serve
from tests.server.http_calls import dial, key_table, turn
from tests.server.servers import Client, Serving, until
from tests.server.upstream import Upstream

CHATS = "/v1/antiphon/chats"


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


@pytest.fixture
def client(server: Serving) -> Client:
    return server.client()


def new(client: Client, **body: Any) -> str:
    return str(client.ok("POST", CHATS, json=body)["id"])


def ask(client: Client, chat: str, text: str, previous: str | None = None, **body: Any) -> str:
    asked = {"input": text, "previous_response_id": previous, "antiphon:chat": chat} | body
    return str(client.create(**asked)["id"])


def tree(client: Client, chat: str) -> dict[str, str | None]:
    found = client.ok("GET", f"{CHATS}/{chat}/responses?limit=100")["data"]
    return {node["id"]: node["previous_response_id"] for node in found}


def test_a_chat_from_its_first_question_to_its_end(client: Client) -> None:
    made = client.ok("POST", CHATS)
    id = made["id"]
    assert id.startswith("chat_")
    assert made == {
        "id": id,
        "object": "antiphon.chat",
        "title": None,
        "current": None,
        "running": None,
        "created_at": made["created_at"],
        "updated_at": made["created_at"],
        "expires_at": made["expires_at"],
        "pinned": False,
    }
    assert made["expires_at"] > made["created_at"]
    first = ask(client, id, "How deep is the sea?\nPlease answer.")
    found = client.ok("GET", f"{CHATS}/{id}")
    assert (found["title"], found["current"]) == ("How deep is the sea?", first)
    (node,) = client.ok("GET", f"{CHATS}/{id}/responses")["data"]
    assert (node["id"], node["previous_response_id"], node["status"]) == (first, None, "completed")
    assert [item["role"] for item in node["input"]] == ["user"]
    assert node["input"][0]["content"][0]["text"].startswith("How deep")
    assert [item["role"] for item in node["output"]] == ["assistant"]
    assert {"model", "usage", "error", "incomplete_details", "created_at"} <= node.keys()
    assert client.ok("DELETE", f"{CHATS}/{id}") == {
        "id": id,
        "object": "antiphon.chat.deleted",
        "deleted": True,
    }
    assert client.refused(404, "GET", f"{CHATS}/{id}")["code"] == "chat_not_found"
    client.refused(404, "DELETE", f"{CHATS}/{id}")
    client.refused(404, "GET", f"{CHATS}/{id}/responses")
    client.refused(404, "GET", f"/v1/responses/{first}")


def test_branches_stay_and_the_chat_moves_between_them(client: Client) -> None:
    id = new(client)
    first = ask(client, id, "One")
    second = ask(client, id, "Two", first)
    again = ask(client, id, "Two, again", first)
    other = ask(client, id, "Something else")
    assert tree(client, id) == {first: None, second: first, again: first, other: None}
    assert client.ok("GET", f"{CHATS}/{id}")["current"] == other
    moved = client.ok("POST", f"{CHATS}/{id}", json={"current": second})
    assert moved["current"] == second
    page = client.ok("GET", f"{CHATS}/{id}/responses?limit=2&after={first}")
    assert ([node["id"] for node in page["data"]], page["has_more"]) == ([second, again], True)
    assert (page["first_id"], page["last_id"]) == (second, again)
    assert client.refused(404, "GET", f"{CHATS}/{id}/responses?after=nope")["param"] == "after"
    error = client.refused(404, "POST", f"{CHATS}/{id}", json={"current": "resp_nope"})
    assert (error["code"], error["param"]) == ("response_not_found", "current")


def test_every_door_leads_into_a_chat(client: Client, server: Serving) -> None:
    id = new(client)
    with client.listen("/v1/responses", input="One", stream=True, **{"antiphon:chat": id}) as stream:
        stream.until("response.completed")
    first = stream.events[-1]["response"]["id"]
    with dial(server) as socket:
        second = turn(socket, input="Two", previous_response_id=first, **{"antiphon:chat": id})
    third = ask(client, id, "Three", second["response"]["id"], background=True)
    until(lambda: client.ok("GET", f"{CHATS}/{id}")["running"] is None)
    assert tree(client, id) == {first: None, second["response"]["id"]: first, third: second["response"]["id"]}
    with dial(server) as socket:
        refused = turn(socket, input="Four", **{"antiphon:chat": "chat_nope"})
    assert refused["error"]["code"] == "chat_not_found"


def test_a_response_that_runs_is_shown_and_ends_with_its_chat(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml).client()
    id = new(client)
    made = ask(client, id, "Slowly", background=True)
    call = upstream.next()
    found = client.ok("GET", f"{CHATS}/{id}")
    assert (found["current"], found["running"]) == (made, made)
    assert client.ok("GET", CHATS)["data"][0]["running"] == made
    client.ok("DELETE", f"{CHATS}/{id}")
    client.refused(404, "GET", f"/v1/responses/{made}")
    assert call.was_closed()


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"antiphon:chat": "chat_nope"}, 404, "chat_not_found", "antiphon:chat"),
        ({"antiphon:chat": 7}, 400, "invalid_value", "antiphon:chat"),
        ({"store": False, "background": False}, 400, "chat_needs_store", "store"),
        ({"conversation": "conv_1"}, 400, "invalid_request", "conversation"),
        ({"previous_response_id": "resp_nope"}, 404, "previous_response_not_found", "previous_response_id"),
    ],
)
@pytest.mark.parametrize(
    "how", [{}, {"stream": True}, {"background": True}], ids=["json", "sse", "background"]
)
def test_what_cannot_join_is_refused(
    client: Client, body: dict[str, Any], status: int, code: str, param: str, how: dict[str, Any]
) -> None:
    asked = {"input": "x", "antiphon:chat": new(client)} | how | body
    error = client.refused(status, "POST", "/v1/responses", json=asked)
    assert (error["code"], error["param"]) == (code, param)


def test_a_chain_that_began_outside_comes_along(client: Client) -> None:
    first = client.create(input="Tell me of boats")["id"]
    second = client.create(input="And of ships", previous_response_id=first)["id"]
    id = new(client)
    third = ask(client, id, "And of rafts", second)
    assert tree(client, id) == {first: None, second: first, third: second}
    assert client.ok("GET", f"{CHATS}/{id}")["title"] == "Tell me of boats"
    error = client.refused(400, "POST", CHATS, json={"current": second})
    assert (error["code"], error["param"]) == ("response_in_another_chat", "current")
    elsewhere = {"input": "x", "antiphon:chat": new(client), "previous_response_id": third}
    error = client.refused(400, "POST", "/v1/responses", json=elsewhere)
    assert (error["code"], error["param"]) == ("response_in_another_chat", "previous_response_id")
    fourth = client.create(input="Outside", previous_response_id=third)["id"]
    adopted = client.ok("POST", CHATS, json={"current": fourth, "title": "Mine", "pinned": True})
    assert (adopted["current"], adopted["title"]) == (fourth, "Mine")
    assert (adopted["pinned"], adopted["expires_at"]) == (True, None)


def test_chats_are_named_pinned_and_found(serve: Serve) -> None:
    client = serve(TOML).client()
    octopus = new(client)
    ask(client, octopus, "Where does the octopus sleep?")
    whale = new(client, title="Whales")
    assert [chat["id"] for chat in client.ok("GET", CHATS)["data"]] == [whale, octopus]
    renamed = client.ok("POST", f"{CHATS}/{octopus}", json={"title": "Mollusca", "pinned": True})
    assert (renamed["title"], renamed["pinned"], renamed["expires_at"]) == ("Mollusca", True, None)
    page = client.ok("GET", f"{CHATS}?limit=1")
    assert ([chat["id"] for chat in page["data"]], page["has_more"]) == ([octopus], True)
    page = client.ok("GET", f"{CHATS}?limit=1&after={octopus}")
    assert ([chat["id"] for chat in page["data"]], page["has_more"]) == ([whale], False)

    def found(search: str) -> list[str]:
        return [chat["id"] for chat in client.ok("GET", CHATS, params={"search": search})["data"]]

    assert found("octopus") == [octopus]
    assert found("mollusca sleep") == [octopus]
    assert found('"whal') == [whale]
    assert found("zebra") == []
    client.ok("POST", f"{CHATS}/{octopus}", json={"title": "", "pinned": False})
    assert client.ok("GET", f"{CHATS}/{octopus}")["expires_at"] is not None
    for wrong, param in (({"title": 1}, "title"), ({"title": "x" * 201}, "title"), ({"pinned": 1}, "pinned")):
        assert client.refused(400, "POST", f"{CHATS}/{octopus}", json=wrong)["param"] == param
    assert client.refused(400, "GET", f"{CHATS}?limit=0")["param"] == "limit"
    assert client.refused(404, "GET", f"{CHATS}?after=chat_nope")["param"] == "after"
    assert client.refused(400, "GET", CHATS, params={"search": "x" * 201})["param"] == "search"


def test_a_chat_belongs_to_its_tenant(serve: Serve) -> None:
    server = serve(TOML + key_table("alice") + key_table("bob"))
    alice, bob = server.client("sk-alice"), server.client("sk-bob")
    id = new(alice, title="Secret")
    first = ask(alice, id, "One")
    assert bob.ok("GET", CHATS, params={"search": "secret"})["data"] == []
    bob.refused(404, "GET", f"{CHATS}/{id}")
    bob.refused(404, "GET", f"{CHATS}/{id}/responses")
    bob.refused(404, "POST", f"{CHATS}/{id}", json={"title": "Mine"})
    bob.refused(404, "DELETE", f"{CHATS}/{id}")
    bob.refused(404, "POST", "/v1/responses", json={"input": "x", "antiphon:chat": id})
    bob.refused(404, "POST", CHATS, json={"current": first})
    server.client().refused(401, "GET", CHATS)
    assert alice.ok("GET", f"{CHATS}/{id}")["title"] == "Secret"


def test_the_clients_have_chats(serve: Serve) -> None:
    url = serve(TOML).url + "/v1"
    with AntiphonClient(url) as client:
        made = client.chats.create(title="Plans")
        first = client.responses.create("One", chat=made.id)
        second = client.responses.create("Two", chat=made.id, previous_response_id=first.id)
        assert [
            (node.id, node.previous_response_id) for node in client.chats.responses(made.id, limit=1)
        ] == [
            (first.id, None),
            (second.id, first.id),
        ]
        node = next(client.chats.responses(made.id))
        assert node.output == first.output
        assert node.usage == first.usage
        assert client.chats.retrieve(made.id).current == second.id
        assert client.chats.update(made.id, current=first.id, pinned=True).current == first.id
        assert client.chats.update(made.id, title="").title is None
        other = client.chats.create(current=client.responses.create("Apart").id)
        assert [chat.id for chat in client.chats.list(limit=1)] == [other.id, made.id]
        assert [chat.id for chat in client.chats.list(search="apart")] == [other.id]
        assert client.chats.delete(made.id).deleted


async def test_the_asynchronous_client_has_chats(serve: Serve) -> None:
    async with AsyncClient(serve(TOML).url + "/v1") as client:
        made = await client.chats.create(pinned=True)
        assert made.pinned
        async with client.responses.stream("One", chat=made.id) as stream:
            first = await stream.final()
        session = client.session(chat=made.id)
        second = await session.create("Two")
        third = await session.create("Three")
        nodes = [(node.id, node.previous_response_id) async for node in client.chats.responses(made.id)]
        assert nodes == [(first.id, None), (second.id, None), (third.id, second.id)]
        assert (await client.chats.update(made.id, title="A")).title == "A"
        assert [chat.title async for chat in client.chats.list()] == ["A"]
        assert (await client.chats.retrieve(made.id)).current == third.id
        assert (await client.chats.delete(made.id)).deleted
