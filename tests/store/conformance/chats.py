"""Chats: trees of responses that are listed, searched, continued, pinned and deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.store import (
    Change,
    ChatEdit,
    Context,
    Joining,
    Store,
    StoreConflict,
    StoredChat,
    StoredItem,
    UnknownCursor,
)
from tests.store.conformance.values import Open, chain, response, running, said


def message(id: str, role: str, text: str) -> StoredItem:
    content = [{"type": "input_text" if role == "user" else "output_text", "text": text}]
    made = {"type": "message", "id": id, "role": role, "content": content}
    return StoredItem(id, json.dumps(made).encode())


def chat(id: str = "t1", **fields: Any) -> StoredChat:
    values: dict[str, Any] = {"tenant": "acme", "title": None, "current": None} | fields
    return StoredChat(id, created_at=1000, **{"updated_at": 1000.0} | values)


async def turn(
    store: Store, id: str, previous: str | None = None, *, at: float = 1000.0, to: str = "t1", **fields: Any
) -> None:
    """A response of the chat: `id` asks, and is answered."""
    context: Context | None = None
    if previous is not None:
        context = await store.context("acme", previous)
        assert context is not None
    input = (message(f"{id}_in", "user", fields.pop("asks", f"question {id}")),)
    output = (message(f"{id}_out", "assistant", fields.pop("says", f"answer {id}")),)
    joining = Joining(to, at, fields.pop("until", None))
    await store.save(response(id, context, input=input, output=output, chat=joining, **fields))


async def tree(store: Store, id: str = "t1") -> dict[str, str | None]:
    page = await store.chat_nodes("acme", id, limit=100)
    assert page is not None
    return {node.id: node.previous for node in page.nodes}


async def titles(store: Store, search: str = "", tenant: str = "acme") -> list[str | None]:
    return [found.title for found in (await store.chats(tenant, search=search)).chats]


class Chats:
    async def test_a_chat_is_kept(self, store: Store, open_store: Open) -> None:
        made = await store.create_chat(chat(title="Boats", expires_at=5000))
        assert made == chat(title="Boats", expires_at=5000)
        other = await open_store()
        assert await other.chat("acme", "t1") == made
        assert await other.chat("other", "t1") is None
        with pytest.raises(StoreConflict, match="already stored"):
            await other.create_chat(chat(tenant="other"))
        edited = await other.edit_chat("acme", "t1", ChatEdit(1001.5, 6000, title="Ships"))
        assert edited == chat(title="Ships", updated_at=1001.5, expires_at=6000)
        assert await other.edit_chat("acme", "t2", ChatEdit(1.0, title="x")) is None
        assert await other.edit_chat("other", "t1", ChatEdit(1.0, title="x")) is None
        assert not await other.delete_chat("other", "t1")
        assert await other.delete_chat("acme", "t1")
        assert not await store.delete_chat("acme", "t1")
        assert await store.chat("acme", "t1") is None
        assert await store.chat_nodes("acme", "t1") is None

    async def test_responses_grow_a_tree(self, store: Store, open_store: Open) -> None:
        await store.create_chat(chat())
        await turn(store, "r1", at=1001, asks="How deep\n is the sea?", until=4000)
        await turn(store, "r2", "r1", at=1002, until=4001)
        await turn(store, "r3", "r1", at=1003, until=4002)
        await turn(store, "r4", at=1004, until=4003)
        other = await open_store()
        assert await tree(other) == {"r1": None, "r2": "r1", "r3": "r1", "r4": None}
        found = await other.chat("acme", "t1")
        assert found == chat(title="How deep", current="r4", updated_at=1004, expires_at=4003)
        assert said(await other.context("acme", "r3")) == ["r1_in", "r1_out", "r3_in", "r3_out"]
        assert await other.chat_of("acme", "r3") == "t1"
        assert await other.chat_of("other", "r3") is None
        page = await other.chat_nodes("acme", "t1", after="r1", limit=2)
        assert page is not None
        assert [node.id for node in page.nodes] == ["r2", "r3"]
        assert page.more
        assert json.loads(page.nodes[0].input)["id"] == "r2_in"
        assert json.loads(page.nodes[0].body)["output"][0]["id"] == "r2_out"
        with pytest.raises(UnknownCursor, match="nope"):
            await other.chat_nodes("acme", "t1", after="nope")
        path = await other.chat_path("acme", "t1", "r3")
        assert path is not None
        assert [node.id for node in path] == ["r1", "r3"]
        assert await other.chat_path("acme", "t1", "nope") is None
        assert await other.chat_path("other", "t1", "r3") is None
        assert await other.edit_chat("acme", "t1", ChatEdit(1005, 4004, current="r2")) == chat(
            title="How deep", current="r2", updated_at=1005, expires_at=4004
        )

    async def test_a_chain_outside_is_taken_in(self, store: Store) -> None:
        last = await chain(store, "r1", "r2", "r3")
        assert last.response == "r3"
        await store.create_chat(chat(current="r2"))
        assert list(await tree(store)) == ["r2"]  # these bodies do not say what they continue
        for id, previous in (("s1", None), ("s2", "s1"), ("s3", "s2")):
            context = await store.context("acme", previous) if previous else None
            new = response(id, context)
            body = json.loads(new.body) | {"previous_response_id": previous}
            fields = {name: getattr(new, name) for name in new.__struct_fields__}
            await store.save(type(new)(**fields | {"body": json.dumps(body).encode(), "expires_at": 2000}))
        await turn(store, "s4", "s2")
        assert await tree(store) == {"r2": None, "s1": None, "s2": "s1", "s4": "s2"}
        assert await store.chat_of("acme", "s3") is None
        await store.create_chat(chat("t2", current="s3"))
        assert await tree(store, "t2") == {"s3": None}  # what it continues is in another chat
        assert await store.prune(3000) == 0  # what is in a chat lives as long as the chat

    async def test_a_chat_knows_what_runs(self, store: Store) -> None:
        await store.create_chat(chat())
        asks = (message("b1_in", "user", "Count the stars"),)
        await store.save(running("b1", input=asks, chat=Joining("t1", 1001.0)))
        assert await store.chat("acme", "t1") == chat(
            title="Count the stars", current="b1", running="b1", updated_at=1001
        )
        await store.save(running("b2", chat=Joining("t1", 1002.0)))
        assert (await store.chats("acme")).chats[0].running == "b2"
        answer = [message("b1_out", "assistant", "Septillions")]
        body = json.dumps({"id": "b1"}).encode()
        assert await store.update(Change("b1", "w1", "in_progress", body, at=1002.5))
        assert await store.update(Change("b1", "w1", "completed", body, answer, at=1003.5))
        found = await store.chat("acme", "t1")
        assert found is not None
        assert (found.current, found.running, found.updated_at) == ("b2", "b2", 1003.5)
        assert await titles(store, "septillions") == ["Count the stars"]
        assert await store.update(Change("b2", "w1", "failed", body, [], at=1004.0))
        found = await store.chat("acme", "t1")
        assert found is not None
        assert found.running is None

    async def test_chats_come_in_pages(self, store: Store) -> None:
        for n in range(25):
            await store.create_chat(chat(f"t{n:02}", updated_at=1000.0 + n % 5, title=str(n)))
        await store.create_chat(chat("theirs", tenant="other", updated_at=2000.0))
        seen: list[str] = []
        more, after = True, None
        while more:
            page = await store.chats("acme", after=after, limit=10)
            seen += [one.id for one in page.chats]
            more, after = page.more, seen[-1]
        assert seen == sorted(seen, key=lambda id: (int(id[1:]) % 5, int(id[1:])), reverse=True)
        assert len(seen) == 25
        with pytest.raises(UnknownCursor, match="theirs"):
            await store.chats("acme", after="theirs")
        await store.edit_chat("acme", "t00", ChatEdit(3000.0, title="first again"))
        assert (await store.chats("acme", limit=1)).chats[0].id == "t00"

    async def test_titles_and_texts_are_searched(self, store: Store) -> None:
        await store.create_chat(chat("t1", updated_at=1.0))
        await turn(
            store, "r1", at=1, asks="Where do Ångström and Müller live?", says="In 東京都 they say 100%_sure"
        )
        await turn(
            store, "r2", "r1", at=2, asks="And the octopus?", says='It said "hello" OR (nothing) NEAR it*'
        )
        await store.create_chat(chat("t2", title="Octopus recipes", updated_at=3.0))
        await store.create_chat(chat("t3", tenant="other", title="Octopus of others"))
        first, second = "Where do Ångström and Müller live?", "Octopus recipes"
        for search, found in {
            "octopus": [second, first],
            "octo": [second, first],
            "OCTOPUS muller": [first],
            "octopus recipes": [second],
            "octopus submarine": [],
            "東京": [first],
            "100%_": [first],
            '"hello"': [first],
            'near it* OR ( "': [first],
            "'; DROP TABLE chats; --": [],
            "NEAR(": [first],
            " \t": [second, first],
            "*": [first],
            "a\0": [first],
            "-": [],
            " ".join(["octopus"] * 50): [],
        }.items():
            assert await titles(store, search) == found, search
        await store.edit_chat("acme", "t2", ChatEdit(4.0, title="Squid"))
        assert await titles(store, "recipes") == []
        assert await titles(store, "squid") == ["Squid"]
        await store.edit_chat("acme", "t2", ChatEdit(5.0, title=""))
        assert await titles(store, "squid") == []
        assert await store.delete("acme", "r2")
        assert await titles(store, "hello") == []
        assert await store.delete_chat("acme", "t1")
        assert await titles(store, "muller") == []
        assert await titles(store, "octopus", "other") == ["Octopus of others"]

    async def test_a_deleted_response_leaves_a_whole_tree(self, store: Store) -> None:
        await store.create_chat(chat())
        for id, previous in (("r1", None), ("r2", "r1"), ("r3", "r2"), ("r4", "r2")):
            await turn(store, id, previous)
        assert await store.delete("acme", "r2")
        assert await tree(store) == {"r1": None, "r3": "r1", "r4": "r1"}
        assert said(await store.context("acme", "r3"))[2:4] == ["r2_in", "r2_out"]
        assert await store.delete("acme", "r4")
        found = await store.chat("acme", "t1")
        assert found is not None
        assert found.current == "r1"
        assert await store.delete("acme", "r1")
        found = await store.chat("acme", "t1")
        assert found is not None
        assert found.current == "r3"

    async def test_a_chat_goes_on_only_from_what_it_has(self, store: Store) -> None:
        await store.create_chat(chat())
        await store.create_chat(chat("t2"))
        await turn(store, "r1")
        for current in ("nowhere", "r1"):
            with pytest.raises(StoreConflict):
                await store.edit_chat("acme", "t2", ChatEdit(2.0, title="New", current=current))
            with pytest.raises(StoreConflict):
                await store.create_chat(chat("t3", current=current))
        found = await store.chat("acme", "t2")
        assert found is not None
        assert (found.title, found.current) == (None, None)
        assert await store.chat("acme", "t3") is None

    async def test_a_title_is_one_line(self, store: Store) -> None:
        await store.create_chat(chat(title=" A\n b\t"))
        await store.create_chat(chat("t2", title=" \n"))
        assert set(await titles(store)) == {"A b", None}

    async def test_a_deleted_chat_takes_its_responses_along(self, store: Store, open_store: Open) -> None:
        await store.create_chat(chat())
        await turn(store, "r1")
        await turn(store, "r2", "r1")
        await store.save(response("outside", await store.context("acme", "r1")))
        other = await open_store()
        assert await other.context("acme", "r2") is not None
        assert await store.delete_chat("acme", "t1")
        for reader in (store, other):
            assert await reader.context("acme", "r2") is None
            assert said(await reader.context("acme", "outside"))[:2] == ["r1_in", "r1_out"]
        await turn(store, "late")
        assert await store.chat_of("acme", "late") is None
        assert await store.context("acme", "late") is not None

    async def test_a_chat_lives_as_long_as_its_last_response(self, store: Store) -> None:
        await store.create_chat(chat(expires_at=100))
        await store.create_chat(chat("t2", expires_at=100))
        await store.create_chat(chat("t3", expires_at=100))
        await turn(store, "r1", until=200, expires_at=100)
        for n in range(250):
            await turn(store, f"x{n}", to="t2", until=100, expires_at=100)
        await store.edit_chat("acme", "t3", ChatEdit(1.0, 100, pinned=True))
        await turn(store, "p1", to="t3", until=100, expires_at=100)
        await store.create_chat(chat("t4"))
        await store.save(running("busy", expires_at=100, chat=Joining("t4", 1.0, 100)))
        assert await store.prune(99) == 0
        assert await store.prune(150) == 251
        assert [one.id for one in (await store.chats("acme")).chats] == ["t4", "t3", "t1"]
        assert await store.get("acme", "x1") is None
        assert await store.get("acme", "busy") is not None
        pinned = await store.chat("acme", "t3")
        assert pinned is not None
        assert (pinned.pinned, pinned.expires_at) == (True, None)
        freed = await store.edit_chat("acme", "t3", ChatEdit(1.0, 150, pinned=False))
        assert freed is not None
        assert (freed.pinned, freed.expires_at) == (False, 150)
        assert await store.prune(250) == 4
        assert (await store.size()).chats == 1

    async def test_chats_are_exported(self, store: Store) -> None:
        await store.create_chat(chat(title="Boats", expires_at=5000))
        await store.create_chat(chat("theirs", tenant="other"))
        await turn(store, "r1", at=1001.25, until=6000)
        await turn(store, "r2", "r1", at=1002.5, until=6000)
        lines = [json.loads(line) async for line in store.export("acme")]
        assert [line["type"] for line in lines] == ["response", "response", "chat"]
        assert lines[-1] == {
            "type": "chat",
            "tenant": "acme",
            "id": "t1",
            "title": "Boats",
            "current": "r2",
            "created_at": 1000,
            "updated_at": 1002,
            "expires_at": 6000,
            "pinned": False,
            "responses": [
                {"id": "r1", "previous_response_id": None},
                {"id": "r2", "previous_response_id": "r1"},
            ],
        }
