"""A data folder from before there were chats opens, and has the chats of the AI SDK bridge."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from antiphon.store import SqliteStore, StoredChat, check
from tests.store.sqlite.written import write

TENANT = ""


async def opened(folder: Path) -> SqliteStore:
    write(folder, "before_chats")
    return await SqliteStore.open(folder)


async def titled(store: SqliteStore) -> dict[str, StoredChat]:
    return {(chat.title or "")[:10]: chat for chat in (await store.chats(TENANT)).chats}


def texts(*fragments: bytes) -> list[str]:
    items = [item for one in fragments for item in json.loads(b"[%b]" % one)]
    return [
        item.get("call_id") or "".join(part["text"] for part in item["content"])
        for item in items
        if item["type"] != "reasoning"
    ]


async def told(store: SqliteStore, chat: StoredChat, last: str | None = None) -> list[str]:
    path = await store.chat_path(TENANT, chat.id, last or chat.current or "")
    assert path is not None
    found = [text for turn in path for text in texts(turn.input, turn.output)]
    context = await store.context(TENANT, path[-1].id)
    assert context is not None
    assert texts(*context.fragments()) == found  # what a reader sees is what the model is given
    return found


async def test_chats_of_the_bridge_are_carried_over(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    found = await titled(store)
    assert set(found) == {"Where does", "Right", "```script", "Later"}
    sea = found["Where does"]
    question, second = "Where does the octopus sleep?", "And the whale?"
    assert await told(store, sea) == [question, question, second, second, "Thanks", "Thanks"]
    assert sea.expires_at is not None
    assert [chat.id for chat in (await store.chats(TENANT, search="whale")).chats] == [sea.id]
    assert (await told(store, found["```script"]))[1:] == [
        "Let me look.",
        *["call_paris", "call_tokyo"] * 2,
        "Paris 18, Tokyo 25.",
    ]
    assert await told(store, found["Later"]) == ["Later", "Later"]
    await store.close()
    assert check(tmp_path).problems == []


async def test_answers_that_were_asked_for_again_are_branches(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    found = await titled(store)
    page = await store.chat_nodes(TENANT, found["Where does"].id)
    assert page is not None
    first, *others = page.nodes
    thanks = others.pop()
    assert [(texts(node.input), node.previous) for node in others] == [(["And the whale?"], first.id)] * 3
    assert thanks.previous == others[-1].id
    for node in others:
        assert len(await told(store, found["Where does"], node.id)) == 4
    page = await store.chat_nodes(TENANT, found["Right"].id)
    assert page is not None
    assert [(texts(node.input), node.previous) for node in page.nodes] == [
        (["Wrong"], None),
        (["Right"], None),
    ]
    await store.close()


async def test_what_was_no_chat_stays_as_it_was(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    lines = [json.loads(line) async for line in store.export()]
    (kept,) = [line for line in lines if line["type"] == "conversation"]
    assert [item["role"] for item in kept["items"]] == ["user", "user", "assistant"]
    inside = {node["id"] for line in lines if line["type"] == "chat" for node in line["responses"]}
    outside = [line for line in lines if line["type"] == "response" and line["id"] not in inside]
    assert len(inside) == 11
    assert [line["input"][0]["content"] for line in outside] == ["Who am I?", "Chain", "Link"]
    assert all(line["expires_at"] is not None for line in outside)
    await store.close()


async def test_a_conversation_that_a_client_made_is_no_chat(tmp_path: Path) -> None:
    write(tmp_path, "before_chats")
    with closing(sqlite3.connect(tmp_path / "antiphon.db")) as db, db:
        changed = "UPDATE conversations SET metadata = ? WHERE metadata = ?"
        assert db.execute(changed, (b'{"chat":"support"}', b"{}")).rowcount == 1
    store = await SqliteStore.open(tmp_path)
    assert len((await store.chats(TENANT)).chats) == 5
    lines = [json.loads(line) async for line in store.export()]
    (kept,) = [line for line in lines if line["type"] == "conversation"]
    assert kept["metadata"] == {"chat": "support"}
    assert len(kept["items"]) == 3
    await store.close()


async def test_what_ran_then_is_still_in_its_chat(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    (chat,) = [chat for chat in (await store.chats(TENANT)).chats if chat.running]
    assert chat.current == chat.running
    (orphan,) = await store.claim_orphans("w1", 2.0, 1.0)
    assert orphan.id == chat.running
    await store.close()
