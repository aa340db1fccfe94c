"""A server that is not there, goes away, and comes back; and work that goes on without the terminal."""

import socket
from pathlib import Path
from typing import Any

import pytest

from antiphon.server.process import bind
from antiphon.tui import server_connection
from antiphon.tui.server_connection import ServerConnection
from tests.server.servers import Serving, configure
from tests.tui.conftest import SCRIPTED, Start, script


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serving_on(port: int, folder: Path) -> Serving:
    """A gateway on a port that is known before it is there."""
    serving = Serving(configure(folder, SCRIPTED))
    serving._listener.close()
    serving._listener = bind("127.0.0.1", port)
    return serving


async def test_a_server_that_comes_and_goes_is_shown_and_found_again(chat: Start, tmp_path: Path) -> None:
    port = free_port()
    async with chat(base_url=f"http://127.0.0.1:{port}/v1", system=script({"text": "Here."})) as chatting:
        app = chatting.app
        await chatting.until(lambda: "The server cannot be reached" in chatting.text)
        assert "`antiphon serve` starts one" in chatting.text
        assert app._status().state == "no server"
        with serving_on(port, tmp_path / "gateway"):
            await chatting.until(lambda: app.connection.is_up and not app.talk.book.is_local)
            assert "Here." in await chatting.say("Are you there?")
        await chatting.say("And now?")
        await chatting.until(lambda: not app.connection.is_up)
        with serving_on(port, tmp_path / "gateway"):
            await chatting.until(lambda: app.connection.is_up)
            assert chatting.text.count("Here.") == 1
            await chatting.say("/retry")
            assert chatting.text.count("Here.") == 2


async def test_a_response_in_the_background_is_followed_again_after_a_restart(chat: Start) -> None:
    steps: list[dict[str, Any]] = [
        {"text": "bit "},
        {"text": "by bit ", "times": 60, "delay": 0.02},
        {"text": "done."},
    ]
    async with chat(system=script(*steps), background=True) as chatting:
        await chatting.send("Work")
        await chatting.until(lambda: "bit" in chatting.text)
        assert chatting.app.talk.chat is not None
        id = chatting.app.talk.chat.id
    async with chat(chat=id, background=True) as chatting:
        await chatting.until(lambda: chatting.app.turns.is_running or "done." in chatting.text)
        await chatting.until(lambda: "done." in chatting.text)
        assert chatting.text.count("▎ Work") == 1
        assert chatting.text.count("done.") == 1
        await chatting.settle()
        chatting.app.settings.system = script({"text": "Endless. ", "times": 2000, "delay": 0.02})
        await chatting.send("More")
        await chatting.until(lambda: "Endless." in chatting.text)
        await chatting.press("escape")
        await chatting.settle()
        response = chatting.app.talk.recordings[-1].arrivals[0].payload["response"]["id"]
        ended = await chatting.app.connection.client.responses.retrieve(response)
        assert ended.status == "incomplete"


async def test_without_a_server_the_gateway_runs_inside(chat: Start, tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    store = f'[store]\npath = "{tmp_path / "store"}"\n[local]\nenabled = false\n[server]\ndiscover = false\n'
    file.write_text(SCRIPTED + store)
    async with chat(base_url=None, local=True, config=str(file), system=script({"echo": True})) as chatting:
        assert "▎ Hello inside" in await chatting.say("Hello inside")
        assert chatting.text.count("Hello inside") == 2
        assert "this program" in str(chatting.app.query_one("#head").render())


async def test_a_server_that_stays_away_is_told_once_however_often_it_is_looked_for(
    chat: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look added the same lines again, and pushed the conversation off the screen."""
    monkeypatch.setattr(server_connection, "_PAUSE", 0.01)
    looks = 0
    look = ServerConnection.look

    async def counted(connection: ServerConnection) -> bool:
        nonlocal looks
        looks += 1
        return await look(connection)

    monkeypatch.setattr(ServerConnection, "look", counted)
    port = free_port()
    async with chat(base_url=f"http://127.0.0.1:{port}/v1", system=script({"text": "Here."})) as chatting:
        await chatting.until(lambda: looks > 3)
        assert chatting.text.count("The server cannot be reached") == 1
        await chatting.say("Anybody?")
        after = looks
        await chatting.until(lambda: looks > after + 3)
        assert chatting.text.count("The server cannot be reached") == 2  # once more, for the question
        with serving_on(port, tmp_path / "gateway"):
            await chatting.until(lambda: "The server is back" in chatting.text)
            assert "cannot be reached" not in chatting.text
            assert "Reconnecting" not in chatting.text
            assert "/retry asks again" in chatting.text


async def test_a_question_that_no_server_got_is_told_once_and_judged_by_nobody(chat: Start) -> None:
    async with chat(base_url=f"http://127.0.0.1:{free_port()}/v1") as chatting:
        await chatting.until(lambda: "The server cannot be reached" in chatting.text)
        await chatting.say("Anybody?")
        await chatting.until(lambda: "/retry asks again" in chatting.text)
        assert chatting.text.count("The server cannot be reached") == 2
        await chatting.press("f12")
        await chatting.until(
            lambda: "nothing to judge" in str(chatting.app.screen.query_one("#verdict").render())
        )
