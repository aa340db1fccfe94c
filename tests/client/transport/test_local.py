"""The gateway inside the program: the same API, no socket, real streams."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from antiphon.client import AsyncClient, Client, ResponseFailed, StatusError, UsageError
from antiphon.config import load
from antiphon.engine.background.background import Background
from antiphon.providers.registry import TYPES
from tests.server.servers import DEADLINE
from tests.server.upstream import Upstream


async def test_everything_works_without_a_socket(local_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    async with AsyncClient(transport="local", config=local_config) as client:
        first = await client.responses.create("one", model="demo")
        second = await client.responses.create("two", previous_response_id=first.id)
        assert (await client.responses.retrieve(second.id)) == second
        assert [item async for item in client.responses.input_items(second.id)]
        assert (await client.models.list())[0].id == "demo"
        with pytest.raises(StatusError) as caught:
            await client.responses.create("x", model="nobody")
        assert caught.value.status == 404


async def test_a_stream_comes_piece_by_piece(local_config: Path) -> None:
    slow = 'x\n```script\n[{"text": "one"}, {"delay": 60}, {"text": "two"}]\n```'
    async with (
        AsyncClient(transport="local", config=local_config) as client,
        asyncio.timeout(DEADLINE),
        client.responses.stream(slow) as stream,
    ):
        assert await anext(stream.text_deltas()) == "one"
        assert stream.response.status == "in_progress"


async def test_who_gives_up_while_the_gateway_opens_leaves_nothing_running(
    local_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = asyncio.Event()

    async def forever(background: Background) -> None:
        opening.set()
        await asyncio.Event().wait()

    before = set(threading.enumerate())
    async with AsyncClient(transport="local", config=local_config) as client, asyncio.timeout(DEADLINE):
        with monkeypatch.context() as slow:
            slow.setattr(Background, "open", forever)
            asking = asyncio.create_task(client.responses.create("one"))
            await opening.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        left = {thread.name for thread in set(threading.enumerate()) - before}
        assert not [name for name in left if name.startswith("antiphon-store")]
        assert (await client.responses.create("two")).output_text == "two"


async def test_leaving_a_stream_ends_the_work(tmp_path: Path) -> None:
    with Upstream() as upstream:
        file = tmp_path / "antiphon.toml"
        rest = f'[store]\npath = "{tmp_path}"\n[local]\nenabled = false\n'
        file.write_text(upstream.toml + rest, encoding="utf-8")
        async with AsyncClient(transport="local", config=file) as client:
            stream = client.responses.stream("x")
            opening = asyncio.create_task(stream.open())
            call = await asyncio.to_thread(upstream.next)
            call.say("one")
            await opening
            assert await anext(stream.text_deltas()) == "one"
            await stream.close()
            assert await asyncio.to_thread(call.was_closed)
            waiting = asyncio.create_task(client.responses.create("y"))
            call = await asyncio.to_thread(upstream.next)
            waiting.cancel()
            assert await asyncio.to_thread(call.was_closed)
            with pytest.raises(asyncio.CancelledError):
                await waiting


async def test_many_at_once_and_one_that_nobody_reads(local_config: Path) -> None:
    long = 'x\n```script\n[{"text": "word ", "times": 2000, "chunk": 1}]\n```'
    async with (
        AsyncClient(transport="local", config=local_config) as client,
        client.responses.stream(long) as unread,
    ):
        await anext(unread)
        words = [f"word {n}" for n in range(20)]
        answers = await asyncio.gather(*(client.responses.create(word) for word in words))
        assert [answer.output_text for answer in answers] == words
        assert (await unread.final()).output_text == "word " * 2000


async def test_a_failed_response_and_a_background_one(local_config: Path) -> None:
    async with AsyncClient(transport="local", config=load(local_config, types=TYPES)) as client:
        with pytest.raises(ResponseFailed):
            async with client.responses.stream('x\n```script\n[{"text": "a"}, {"cut": true}]\n```') as stream:
                await stream.final()
        async with client.responses.stream("later", background=True) as stream:
            assert (await stream.final()).output_text == "later"


async def test_sessions_are_plain_calls(local_config: Path) -> None:
    async with (
        AsyncClient(transport="local", config=local_config) as client,
        client.session(store=False) as session,
    ):
        await session.create("one")
        assert (await session.create("two")).output_text == "two"
        assert (session.transport, len(session.items)) == ("http", 4)


def test_the_synchronous_client(local_config: Path) -> None:
    with Client(transport="local", config=str(local_config)) as client:
        assert client.responses.create("one").output_text == "one"
        with client.responses.stream("two") as stream:
            assert list(stream.text_deltas()) == ["two"]
        assert repr(client) == "Client(transport='local')"


def test_a_program_that_closes_nothing_ends_without_a_word(local_config: Path) -> None:
    code = (
        f"import antiphon; c = antiphon.Client(transport='local', config={str(local_config)!r})\n"
        "print(c.responses.create('x').output_text)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=DEADLINE
    )
    assert (done.stdout, done.stderr, done.returncode) == ("x\n", "", 0)


@pytest.mark.parametrize("toml", ["[server]\nport = 'x'\n", "nonsense", "[providers.a]\ntype = 'none'\n"])
async def test_a_mistake_in_the_configuration_is_told_with_its_line(tmp_path: Path, toml: str) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(toml, encoding="utf-8")
    async with AsyncClient(transport="local", config=file) as client:
        with pytest.raises(UsageError, match=r"antiphon\.toml"):
            await client.responses.create("x")


async def test_what_does_not_go_together_is_told(local_config: Path) -> None:
    with pytest.raises(UsageError, match="base_url"):
        AsyncClient("http://127.0.0.1:1/v1", transport="local")
    with pytest.raises(UsageError, match="config"):
        AsyncClient("http://127.0.0.1:1/v1", config=local_config)
    with pytest.raises(UsageError, match="no transport 'websocket'; there are 'http', 'local'"):
        AsyncClient(transport="websocket")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="characters that no HTTP header can carry"):
        AsyncClient(transport="local", config=local_config, api_key="schlüssel")


def test_without_the_server_extra_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    """As in an environment in which a package of the extra was never installed."""
    (tmp_path / "cryptography.py").write_text("raise ModuleNotFoundError(name='cryptography')")
    code = (
        "import antiphon\n"
        "try:\n    antiphon.Client(transport='local', config='x.toml').responses.create('x')\n"
        "except antiphon.UsageError as error:\n    print(error)"
    )
    environ = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, timeout=DEADLINE
    )
    assert done.stdout == (
        "transport='local' needs the gateway, and the package 'cryptography' is missing; "
        "run `pip install 'antiphon[server]'`\n"
    ), done.stderr
