"""Models that are changed while gateways run: every worker and every machine serves them, and keeps them."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from antiphon.config import Config, ConfigErrors, ProviderSettings
from antiphon.server.settings_changes import SettingsChanges, digest_of
from antiphon.store import SqliteStore
from tests.postgres import needs_postgres
from tests.server.conftest import Serve, Spawn
from tests.server.counted_upstream import CountedUpstream
from tests.server.servers import Client, until

KEYS = '["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="]'
MANY = 12
"""So many connections at once reach each of two workers."""


@pytest.fixture
def upstream() -> Iterator[CountedUpstream]:
    with CountedUpstream() as upstream:
        yield upstream


def toml(upstream: CountedUpstream, more: str = "") -> str:
    return f"""
[providers.up]
type = "chat"
base_url = "{upstream.url}/v1"
[models]
old = "up/well"
{more}
"""


def served(client: httpx.Client, model: str) -> bool:
    answer = client.post("/v1/responses", json={"model": model, "input": "hi"})
    assert answer.status_code in (200, 404), answer.text
    return answer.status_code == 200


def test_every_worker_serves_what_one_process_has_changed(
    spawn: Spawn, serve: Serve, upstream: CountedUpstream, tmp_path: Path
) -> None:
    """A worker that starts later does so as well, and what is gone from the table is unknown to all."""
    data = str(tmp_path / "data")
    both = spawn(toml(upstream), workers=2, STORE__PATH=data)
    clients = [both.client() for _ in range(MANY)]
    assert all(served(client, "old") for client in clients)
    other = serve(toml(upstream), STORE__PATH=data)
    other.call(other.gateway.changes.change_models({"new": ["up/away", "up/well"]}))
    assert served(other.client(), "new")
    for client in clients:
        until(partial(served, client, "new"))
        assert not served(client, "old")
    later = spawn(toml(upstream), workers=2, STORE__PATH=data)
    assert all(served(later.client(), "new") for _ in range(MANY))


def test_what_workers_know_of_a_target_survives(
    spawn: Spawn, serve: Serve, upstream: CountedUpstream, tmp_path: Path
) -> None:
    """The breaker of a target that one worker has opened stays open in both, under another alias."""
    data, route = str(tmp_path / "data"), "failures = 1\ncooldown = 600"
    given = toml(upstream, f'r = ["up/away", "up/well"]\n[routes.r]\n{route}')
    both, other = spawn(given, workers=2, STORE__PATH=data), serve(given, STORE__PATH=data)
    assert served(both.client(), "r")
    assert len(upstream.asked) == 2
    other.call(
        other.gateway.changes.change_models({"r": ["up/away", "up/well"], "s": ["up/away", "up/well"]})
    )
    clients = [both.client() for _ in range(MANY)]
    for client in clients:
        until(partial(served, client, "s"))
    asked = len(upstream.asked)
    assert asked == 2 + MANY  # each was answered by the second target alone


def test_models_that_lead_nowhere_change_nothing(serve: Serve, upstream: CountedUpstream) -> None:
    server = serve(toml(upstream))
    with pytest.raises(ConfigErrors, match="nowhere"):
        server.call(server.gateway.changes.change_models({"new": ["nowhere/m"]}))
    assert served(server.client(), "old")


def test_an_edited_file_overrules_what_was_changed(
    serve: Serve, upstream: CountedUpstream, tmp_path: Path
) -> None:
    data = str(tmp_path / "data")
    first = serve(toml(upstream), STORE__PATH=data)
    first.call(first.gateway.changes.change_models({"new": ["up/well"]}))
    first.stop()
    again = serve(toml(upstream), STORE__PATH=data)
    assert (served(again.client(), "new"), served(again.client(), "old")) == (True, False)
    again.stop()
    edited = serve(toml(upstream, 'more = "up/well"'), STORE__PATH=data)
    assert (served(edited.client(), "new"), served(edited.client(), "more")) == (False, True)


SERVES = Config(default_model="up/m", providers={"up": ProviderSettings(type="chat")})


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


async def test_a_change_that_could_not_be_brought_in_force_is_tried_again(store: SqliteStore) -> None:
    used: list[Config] = []

    async def use(config: Config) -> None:
        used.append(config)
        if len(used) == 1:
            raise OSError("no more files")

    changes = SettingsChanges(SERVES, store, use)
    with pytest.raises(OSError, match="no more files"):
        await changes.change_models({"new": ["up/m"]})
    for _ in range(2):
        await changes.look()
    assert [list(config.models) for config in used] == [["new"], ["new"]]


async def test_a_gateway_starts_although_the_changed_settings_are_not_json(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    used: list[Config] = []

    async def use(config: Config) -> None:
        used.append(config)

    await store.change_settings(digest_of(SERVES), b"not JSON")
    changes = SettingsChanges(SERVES, store, use)
    await changes.open(follows=False)
    assert "cannot be served here" in caplog.text
    await changes.change_models({"new": ["up/m"]})
    assert [list(config.models) for config in used] == [["new"]]
    await changes.close()


@needs_postgres
def test_every_machine_serves_what_one_has_changed(
    serve: Serve, upstream: CountedUpstream, postgres_url: str, tmp_path: Path
) -> None:
    settings = {"STORE__URL": postgres_url, "SEALING__KEYS": KEYS}
    one = serve(toml(upstream), **settings)
    two = serve(toml(upstream), **settings | {"STORE__PATH": str(tmp_path / "elsewhere")})
    one.call(one.gateway.changes.change_models({"new": ["up/well"]}))
    assert served(one.client(), "new")
    client: Client = two.client()
    until(lambda: served(client, "new"))
    two.call(two.gateway.changes.change_models({"newest": ["up/well"]}))
    until(lambda: served(one.client(), "newest"))
    assert not served(one.client(), "new")
