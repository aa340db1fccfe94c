"""Which store a configuration gets, and what it says when psycopg is not installed."""

import os
import re
import sys
from pathlib import Path

import pytest

from antiphon.config import load
from antiphon.config.schema import StoreSettings
from antiphon.config.secret import Secret
from antiphon.store import SqliteStore, StoreError, open_store
from tests.postgres import needs_postgres

PAGE = (Path(__file__).parents[2] / "docs" / "state.md").read_text(encoding="utf-8")


async def test_without_an_address_it_is_sqlite(tmp_path: Path) -> None:
    store = await open_store(StoreSettings(), tmp_path)
    assert isinstance(store, SqliteStore)
    await store.close()


async def test_without_psycopg_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("antiphon.store.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("psycopg", "psycopg_pool"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(StoreError, match=re.escape("pip install 'antiphon[postgres]'")):
        await open_store(StoreSettings(url=Secret("postgresql://host/db")), tmp_path)


@needs_postgres
async def test_the_example_of_the_documentation_opens_a_store(postgres_url: str, tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(\[store\]\nurl_env.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "antiphon.toml"
    file.write_text(example.replace("…", "0" * 64))
    environ = {"HOME": str(tmp_path), "ANTIPHON_DATABASE": postgres_url}
    config = load(file, environ, types=None)
    store = await open_store(config.store, tmp_path)
    assert (await store.size()).responses == 0
    assert not isinstance(store, SqliteStore)
    assert os.listdir(tmp_path) == [file.name]
    await store.close()
