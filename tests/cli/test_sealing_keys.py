"""A gateway without the sealing key of the others on its PostgreSQL does not start, and says why."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.postgres.database import describe_address
from antiphon.store.postgres.store import PostgresStore
from antiphon.wires.sealing import Seal
from tests.postgres import needs_postgres

pytestmark = needs_postgres

PAGE = (Path(__file__).parents[2] / "docs" / "many-machines.md").read_text(encoding="utf-8")


async def _start_with(url: str, key: bytes) -> None:
    await (await PostgresStore.open(url, connections=2, seal=Seal([key]))).close()


@pytest.mark.parametrize("command", [("work",), ("serve", "--port", "0")])
def test_another_key_is_refused_as_the_documentation_says(
    run: Any, home: Path, postgres_url: str, command: tuple[str, ...]
) -> None:
    asyncio.run(_start_with(postgres_url, b"\1" * 32))
    key = "0" * 64
    (home / "antiphon.toml").write_text(f'[store]\nurl = "{postgres_url}"\n[sealing]\nkeys = ["{key}"]\n')
    result = run(*command)
    (told,) = re.findall(r"```text\n(antiphon: The gateways.*?)```", PAGE, re.DOTALL)
    assert result.code == 1
    assert result.err.endswith(told.replace("db.internal:5432/antiphon", describe_address(postgres_url)))
    assert "Traceback" not in result.err
    assert key not in result.err
