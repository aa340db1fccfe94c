"""The model process with the real model: shared, restarted, unloaded, ended."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from antiphon.config import LocalSettings
from antiphon.embedded.process import Endpoint, ModelError, ModelProcess, why_unavailable
from tests.embedded.processes import ROOT

LOCAL = LocalSettings(slots=2, context=256, idle_seconds=600.0, threads=1)
HASTY = LocalSettings(slots=2, context=256, idle_seconds=0.05, threads=1)
Start = Callable[..., ModelProcess]

WORKER = """
import asyncio, pathlib, sys
from antiphon.config import LocalSettings
from antiphon.embedded.process import ModelProcess

async def main():
    local = LocalSettings(slots=2, context=256, idle_seconds=600.0, threads=1)
    process = ModelProcess(local, "tiny", pathlib.Path(sys.argv[1]))
    endpoint = await process.endpoint()
    print(process.pid, endpoint.url, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def start(model: Path, tmp_path: Path) -> AsyncIterator[Start]:
    """Makes model processes that meet in one folder, and ends them."""
    made: list[ModelProcess] = []

    def start(local: LocalSettings = LOCAL) -> ModelProcess:
        made.append(ModelProcess(local, "tiny", tmp_path / "run"))
        return made[-1]

    yield start
    for process in made:
        await process.aclose()


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


async def say(endpoint: Endpoint, tokens: int = 2) -> str:
    """The text of a short answer."""
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": tokens, "ignore_eos": True}
    headers = {"Authorization": f"Bearer {endpoint.key}"}
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{endpoint.url}/v1/chat/completions", json=body, headers=headers)
    return str(answer.raise_for_status().json()["choices"][0]["message"]["content"])


def test_it_is_available_here() -> None:
    assert why_unavailable() is None


def test_without_the_bindings_the_reason_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "needs the package xllamacpp" in (why_unavailable() or "")


def test_without_a_system_library_the_reason_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.embedded.process._LIBRARIES", ("libnothing.so.0",))
    assert "needs the system library libnothing.so.0" in (why_unavailable() or "")


async def test_nothing_starts_before_it_is_needed(start: Start, tmp_path: Path) -> None:
    process = start()
    assert process.pid is None
    assert not (tmp_path / "run").exists()


async def test_a_process_has_a_life(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon.embedded")
    process = start()

    endpoints = await asyncio.gather(*(process.endpoint() for _ in range(5)))
    assert len(set(endpoints)) == 1
    assert endpoints[0].n_ctx == 256
    assert endpoints[0].key not in repr(endpoints[0])
    first = process.pid
    assert first is not None
    async with process.lease() as endpoint:
        assert await say(endpoint)
    assert caplog.messages[-2:] == ["loading the model tiny", "the model tiny is ready"]

    # A crash breaks what is under way, and nothing else.
    async with process.lease() as endpoint:
        talk = asyncio.create_task(say(endpoint, 200))
        os.kill(first, signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            await talk
    async with process.lease() as endpoint:
        assert await say(endpoint)
    second = process.pid
    assert second not in (None, first)
    assert any("has ended: it was killed" in message for message in caplog.messages)

    began = time.monotonic()
    await process.aclose()
    assert time.monotonic() - began < 5
    assert process.pid is None
    assert second is not None
    assert not is_running(second)
    with pytest.raises(ModelError, match="has been shut down"):
        await process.endpoint()


async def test_an_address_that_cannot_be_written_is_told_and_leaves_nothing_behind(start: Start) -> None:
    """As on a full disk."""
    process = start()
    address = process._sharing._address
    address.mkdir()
    with pytest.raises(ModelError, match=r"cannot be used for the embedded model \("):
        await process.endpoint()
    assert process.pid is None
    assert not list(address.parent.glob(f"{address.stem}.[0-9]*"))
    address.rmdir()
    async with process.lease() as endpoint:
        assert await say(endpoint)


async def test_leases_are_served_in_order(start: Start) -> None:
    process = start()
    release = [asyncio.Event() for _ in range(5)]
    order: list[int] = []
    waited: list[int] = []

    async def use(number: int) -> None:
        async with process.lease(on_wait=lambda: waited.append(number)):
            order.append(number)
            await release[number].wait()

    tasks = [asyncio.create_task(use(number)) for number in range(5)]
    await until(lambda: len(order) == 2)
    assert (sorted(order), waited) == ([0, 1], [2, 3, 4])
    # One at a time: two that get their slots at once each ask the model, and either may hear first.
    release[1].set()
    await until(lambda: len(order) == 3)
    release[0].set()
    await until(lambda: len(order) == 4)
    for event in release:
        event.set()
    await asyncio.gather(*tasks)
    assert order[2:] == [2, 3, 4]


async def test_a_tenant_who_asks_much_is_not_served_before_all_others(start: Start) -> None:
    process = start()
    ends = {name: asyncio.Event() for name in ("alice 0", "alice 1", "alice 2", "alice 3", "bob 0")}
    order: list[str] = []

    async def use(name: str) -> None:
        async with process.lease(name.split()[0]):
            order.append(name)
            await ends[name].wait()

    tasks = [asyncio.create_task(use(name)) for name in ends]
    # Alone she may use every slot; bob comes before what waits of hers.
    await until(lambda: len(order) == 2)
    assert sorted(order) == ["alice 0", "alice 1"]
    ends["alice 0"].set()
    await until(lambda: len(order) == 3)
    assert order[2] == "bob 0"
    for event in ends.values():
        event.set()
    await asyncio.gather(*tasks)


async def test_it_is_unloaded_when_nobody_uses_it(start: Start) -> None:
    process = start(HASTY)
    async with process.lease() as endpoint:
        pid = process.pid
        assert pid is not None
        assert await say(endpoint, 30)
    await until(lambda: process.pid is None)
    assert not is_running(pid)
    async with process.lease() as endpoint:
        assert await say(endpoint)


async def test_one_process_serves_every_worker(start: Start, tmp_path: Path) -> None:
    owner, guest, bystander = start(HASTY), start(HASTY), start(HASTY)
    assert [process.is_loaded for process in (owner, guest, bystander)] == [False] * 3
    async with owner.lease() as endpoint, guest.lease() as same:
        assert same == endpoint
        assert owner.pid is not None
        assert guest.pid is None
        # So every worker says the same at /readyz.
        assert [process.is_loaded for process in (owner, guest, bystander)] == [True] * 3
    (address,) = (tmp_path / "run" / "model").glob("*.json")
    assert address.stat().st_mode & 0o777 == 0o600
    async with guest.lease() as endpoint:
        assert await say(endpoint, 30)  # the owner does not unload what another uses
        await owner.aclose()
    async with guest.lease() as endpoint:
        assert await say(endpoint)
        assert guest.pid is not None


async def test_a_worker_that_is_killed_takes_the_model_along(start: Start, tmp_path: Path) -> None:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(tmp_path / "run"), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    pid, url = (await worker.stdout.readline()).decode().split()
    guest = start()
    async with guest.lease() as endpoint:
        assert endpoint.url == url
    worker.kill()
    await worker.wait()
    await until(lambda: not is_running(int(pid)))
    async with guest.lease() as endpoint:
        assert await say(endpoint)
        assert endpoint.url != url


async def test_a_caller_that_gives_up_does_not_stop_the_start(start: Start) -> None:
    process = start()
    gives_up = asyncio.create_task(process.endpoint())
    stays = asyncio.create_task(process.endpoint())
    await asyncio.sleep(0)
    gives_up.cancel()
    assert (await stays).model == "tiny"
    assert gives_up.cancelled()


async def test_closing_ends_a_start_under_way(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon.embedded")
    process = start()
    waiting = asyncio.create_task(process.endpoint())
    await until(lambda: "loading the model tiny" in caplog.messages)
    await process.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    other = start()
    async with other.lease() as endpoint:
        assert await say(endpoint)


async def test_a_model_that_cannot_be_loaded(start: Start, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing more")
    process = start(LocalSettings(model=str(broken), slots=1, context=256))
    for _ in range(2):
        with pytest.raises(ModelError, match=r"The embedded model tiny could not be started: .+\."):
            await process.endpoint()
    missing = start(LocalSettings(model=str(tmp_path / "missing.gguf"), slots=1, context=256))
    with pytest.raises(ModelError, match=r"missing\.gguf cannot be read"):
        async with missing.lease():
            pass


async def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = ModelProcess(LOCAL, "tiny", tmp_path / "file" / "run")
    with pytest.raises(ModelError, match="cannot be used for the embedded model"):
        async with process.lease():
            pass
