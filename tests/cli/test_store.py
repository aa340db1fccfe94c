import asyncio
import json
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.store import NewResponse, SqliteStore

Run = Callable[..., Any]


async def fill(folder: Path) -> None:
    store = await SqliteStore.open(folder)
    now = int(time.time())
    for number, tenant, expires in ((1, "a", None), (2, "a", now - 10), (3, "b", now + 1000)):
        await store.save(
            NewResponse(
                id=f"resp_{number}",
                tenant=tenant,
                status="completed",
                model="m",
                created_at=now - 100,
                body=b'{"output":[]}',
                input=b'{"type":"message"}',
                names=[f"msg_{number}"],
                expires_at=expires,
            )
        )
    await store.close()


@pytest.fixture
def folder(home: Path) -> Path:
    """A store with three responses of two tenants, one of which has expired."""
    asyncio.run(fill(home / "data"))
    (home / "antiphon.toml").write_text('[store]\npath = "data"\n')
    return home / "data"


def numbers(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines())


def test_size(run: Run, folder: Path) -> None:
    result = run("store", "size")
    assert (result.code, result.err) == (0, "")
    found = numbers(result.out)
    assert int(found.pop("bytes")) > 4096
    assert found == {"folder": "data", "responses": "3", "conversations": "0", "chats": "0", "events": "0"}


def test_prune(run: Run, folder: Path) -> None:
    assert numbers(run("store", "prune").out) == {"removed": "1"}
    assert numbers(run("store", "prune").out) == {"removed": "0"}
    assert numbers(run("store", "size").out)["responses"] == "2"


def test_export_to_a_file_for_its_owner_only(run: Run, folder: Path, home: Path) -> None:
    result = run("store", "export", "--output", "all.jsonl")
    assert (result.code, result.out, result.err) == (0, "", "")
    lines = [json.loads(line) for line in (home / "all.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["resp_1", "resp_2", "resp_3"]
    assert stat.S_IMODE((home / "all.jsonl").stat().st_mode) == 0o600
    result = run("store", "export", "--output", "all.jsonl")
    assert (result.code, result.err) == (1, "antiphon: cannot write all.jsonl: File exists\n")


def test_export_of_one_tenant(run: Run, folder: Path) -> None:
    result = run("store", "export", "--tenant", "b")
    assert (result.code, [json.loads(line)["id"] for line in result.out.splitlines()]) == (0, ["resp_3"])


def test_nothing_is_stored_yet(run: Run, home: Path) -> None:
    result = run("store", "size")
    folder = home / ".local" / "share" / "antiphon"
    assert (result.code, result.err) == (1, f"antiphon: nothing is stored yet: there is no folder {folder}\n")
    assert not folder.exists()


def test_a_broken_store_is_one_sentence(run: Run, folder: Path) -> None:
    for file in folder.iterdir():
        file.write_bytes(
            b"this is no database, and long enough that nobody could take it for an empty one " * 99
        )
    result = run("store", "size")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("antiphon: The store data/antiphon.db cannot be opened.")
    assert result.err.count("\n") == 1


def test_secrets_of_upstreams_are_not_needed(run: Run, folder: Path, home: Path) -> None:
    with (home / "antiphon.toml").open("a") as file:
        file.write(
            '[providers.x]\ntype = "chat"\nbase_url = "https://a.example.com"\napi_key_env = "NOT_SET"\n'
        )
    assert run("store", "size").code == 0


def test_check_tells_what_was_set_aside_and_changes_nothing(run: Run, folder: Path) -> None:
    result = run("store", "check")
    assert (result.code, result.err) == (0, "")
    counts = {"responses": "3", "conversations": "0", "chats": "0", "waiting": "0", "set": "aside      0"}
    assert numbers(result.out) == {"folder": "data"} | counts
    journal = folder / "antiphon.db-journal2-dead"
    journal.write_bytes(b"no journal at all")
    result = run("store", "check")
    assert (result.code, result.err) == (1, "")
    wrong = "a record cannot be read: 17 bytes are damaged, or were not written to their end"
    assert numbers(result.out)["wrong"] == f"{journal.name}: {wrong}"
    assert journal.exists()
    assert run("store", "prune").code == 0
    assert (journal.exists(), (folder / "antiphon.db-set-aside-dead").exists()) == (False, True)
    result = run("store", "check")
    assert (result.code, numbers(result.out)["set"]) == (1, "aside      1")
    assert wrong in numbers(result.out)["wrong"]
    assert numbers(run("store", "size").out)["responses"] == "2"
