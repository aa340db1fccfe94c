"""The search of chats without FTS5, an index that was left behind, and titles."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.store import SqliteStore
from antiphon.store.chat_words import MOST_TEXT, TITLE, make_title, read_chat_text
from antiphon.store.sqlite.backend import has_fts5, text_condition
from tests.store.conformance.chats import chat, titles, turn


@pytest.fixture
def without_fts5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.store.sqlite.backend.has_fts5", lambda: False)


async def test_the_search_works_without_fts5(tmp_path: Path, without_fts5: None) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.create_chat(chat("t1"))
    await turn(store, "r1", asks="Where is the 100%_octopus?", says="In the sea")
    first = "Where is the 100%_octopus?"
    for search, found in {
        "octo SEA": [first],
        "0%_oct": [first],
        "%": [first],
        "__": [],
        "whale": [],
    }.items():
        assert await titles(store, search) == found, search
    await store.delete_chat("acme", "t1")
    assert await titles(store, "octopus") == []
    await store.close()


async def test_an_index_that_was_left_behind_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_fts5():
        pytest.skip("NOT TESTED: this SQLite has no FTS5")
    store = await SqliteStore.open(tmp_path)
    await store.create_chat(chat("t1", title="Gone"))
    await store.close()
    with monkeypatch.context() as patch:
        patch.setattr("antiphon.store.sqlite.backend.has_fts5", lambda: False)
        store = await SqliteStore.open(tmp_path)
        await store.delete_chat("acme", "t1")
        for n in range(3):
            await store.create_chat(chat(f"t2{n}", title=f"Octopus {n}"))
        await store.close()
    store = await SqliteStore.open(tmp_path)
    assert len(await titles(store, "octopus")) == 3
    assert await titles(store, "gone") == []
    await store.delete_chat("acme", "t20")
    assert len(await titles(store, "octopus")) == 2
    await store.close()


def items(*texts: object, role: str = "user") -> bytes:
    return b",".join(
        json.dumps({"type": "message", "role": role, "content": text}).encode() for text in texts
    )


def test_a_title_is_the_beginning_of_the_first_line() -> None:
    assert make_title(items("\n  How   deep\tis it? \nReally")) == "How deep is it?"
    long = make_title(items("word " * 40))
    assert long is not None
    assert long.endswith("word…")
    assert TITLE // 2 < len(long) <= TITLE
    assert make_title(items("x" * 100)) == "x" * (TITLE - 1) + "…"
    assert (
        make_title(items([{"type": "input_image", "image_url": "x"}], [{"type": "input_text", "text": "Hi"}]))
        == "Hi"
    )
    assert make_title(items("Hello", role="assistant")) is None
    assert make_title(None) is None


def test_what_user_and_model_say_is_searched_and_nothing_else() -> None:
    made = items([{"type": "refusal", "refusal": "No"}], role="assistant")
    hidden = items("Be brief", role="system")
    call = b'{"type":"function_call","name":"f","arguments":"{}"}'
    odd = b'{"odd":7,"role":"user","content":[1,{"text":2}]}'
    assert read_chat_text(items("Hi"), b",".join([hidden, call, odd, made]), None, b"") == "Hi\nNo"


async def test_what_fts5_takes_for_no_word_is_looked_for(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.create_chat(chat("t1", title="What is __init__?"))
    for search in ("__", "_", "__init", "?"):
        assert await titles(store, search) == ["What is __init__?"], search
    assert await titles(store, "___") == []
    await store.close()


async def test_a_look_goes_through_the_texts_of_one_tenant(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.create_chat(chat("t1", title="Party 🎉"))
    await store.close()
    where, words = text_condition("acme", "🎉")
    with closing(sqlite3.connect(tmp_path / "antiphon.db")) as db:
        asked = f"SELECT id FROM chats WHERE tenant = ?{where} ORDER BY updated_at DESC, key DESC"
        assert db.execute(asked, ["acme", *words]).fetchall() == [("t1",)]
        plan = [row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {asked}", ["acme", *words])]
    assert any("chats_recent (tenant=?)" in step for step in plan), plan
    assert any("chat_texts_chat (chat=?)" in step for step in plan), plan


def test_of_a_very_long_input_the_beginning_is_read() -> None:
    many = b",".join([items("word " * 100)] * 1000 + [b"{}"])
    assert len(read_chat_text(many, items("the end"))) == MOST_TEXT
    assert (make_title(many) or "").startswith("word word")


@given(st.text())
def test_no_search_is_a_mistake(search: str) -> None:
    sql, values = text_condition("acme", search)
    assert sql.count("?") == len(values) <= 8
