"""`antiphon store` on PostgreSQL."""

import asyncio
import json
from pathlib import Path

import pytest

from antiphon.store.postgres.schema import MIGRATIONS
from tests.cli.test_store import Run, fill, numbers
from tests.postgres import needs_postgres

pytestmark = needs_postgres


@pytest.fixture
def database(home: Path, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DATABASE", empty_postgres_url)
    (home / "antiphon.toml").write_text(f'[store]\nurl_env = "DATABASE"\n[sealing]\nkeys = ["{"0" * 64}"]\n')
    return empty_postgres_url


def test_a_store_is_migrated_and_copied_and_looked_after(run: Run, home: Path, database: str) -> None:
    missing = run("store", "migrate", "--check")
    assert missing.code == 1
    assert missing.out.count("missing") == len(MIGRATIONS)
    assert run("store", "migrate").out.count("done") == len(MIGRATIONS)
    assert run("store", "migrate", "--check").code == 0
    asyncio.run(fill(home / "old"))
    copied = run("store", "copy", "--from", "sqlite:old")
    assert (copied.code, copied.err) == (0, "")
    assert "responses            3\n" in copied.out
    assert "old/files" in copied.out
    result = run("store", "size")
    assert (result.code, result.err) == (0, "")
    assert numbers(result.out)["responses"] == "3"
    assert database not in result.out
    assert numbers(run("store", "prune").out) == {"removed": "1"}
    lines = [json.loads(line) for line in run("store", "export").out.splitlines()]
    assert [line["id"] for line in lines] == ["resp_1", "resp_3"]
    again = run("store", "copy", "--from", "sqlite:old")
    assert again.code == 1
    assert "not empty" in again.err


def test_what_postgresql_does_itself_is_said(run: Run, database: str) -> None:
    result = run("store", "check")
    assert (result.code, result.out) == (1, "")
    assert "pg_amcheck" in result.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "mysql:x"), "expected sqlite:FOLDER"),
        (("--from", "sqlite:nowhere"), "there is no store in nowhere"),
        (("--from", "sqlite:old", "--to", "mysql://me:geheim@host/db"), "expected a database"),
        (("--from", "sqlite:old", "--to", "postgresql://me:geheim@/x?host=/nowhere"), "cannot be opened"),
    ],
)
def test_a_wrong_copy_is_one_sentence(
    run: Run, home: Path, database: str, arguments: tuple[str, ...], said: str
) -> None:
    asyncio.run(fill(home / "old"))
    result = run("store", "copy", *arguments)
    assert (result.code, result.out) == (1, "")
    assert said in result.err
    assert result.err.count("\n") == 1
    assert "geheim" not in result.err


def test_a_variable_that_is_not_set_is_no_sqlite_store(
    run: Run, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE")
    result = run("store", "size")
    assert result.code == 1
    assert "url_env names is not set" in result.err
