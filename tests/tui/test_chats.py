"""Chats: of the server, or files where a server keeps none."""

from pathlib import Path

import pytest

from antiphon import AntiphonError, AsyncClient, Response
from antiphon.spec.items import Message
from antiphon.tui.chats import LocalChats, chats_of
from antiphon.tui.chooser import Chooser, TextPrompt
from tests.client.scripted_server import Player, error, streamed
from tests.providers.fake_server import Received, Wire
from tests.tui.conftest import Chatting, Start, script


async def in_list(chatting: Chatting) -> None:
    await chatting.press("ctrl+o")
    await chatting.until(lambda: isinstance(chatting.app.screen, Chooser))
    await chatting.pilot.pause()


def titles(chatting: Chatting) -> list[str]:
    assert isinstance(chatting.app.screen, Chooser)
    return [choice.title for choice in chatting.app.screen._choices]


async def test_chats_are_listed_searched_renamed_pinned_deleted_and_gone_on_with(chat: Start) -> None:
    async with chat(system=script({"text": "Some words of wisdom."})) as chatting:
        app = chatting.app
        await chatting.say("About birds")
        await chatting.press("ctrl+n")
        await chatting.say("About fish")
        await in_list(chatting)
        assert titles(chatting)[:2] == ["About fish", "About birds"]
        await chatting.press(*"birds")
        await chatting.until(lambda: titles(chatting) == ["About birds"])
        await chatting.press("ctrl+r")
        await chatting.until(lambda: isinstance(app.screen, TextPrompt))
        await chatting.press("end", *" and nests", "enter")
        await chatting.until(lambda: isinstance(app.screen, Chooser))
        await chatting.until(lambda: "About birds and nests" in titles(chatting))
        place = titles(chatting).index("About birds and nests")
        await chatting.press(*["down"] * place, "ctrl+k")
        await chatting.until(
            lambda: isinstance(app.screen, Chooser) and "• About birds and nests" in titles(chatting)
        )
        await chatting.press(*"nests")
        await chatting.until(lambda: len(titles(chatting)) == 1)
        await chatting.press("enter")
        await chatting.until(lambda: "▎ About birds" in chatting.text)
        assert "Some words of wisdom." in chatting.text
        await chatting.say("More")
        assert app.talk.chat is not None
        assert len(await app.talk.book.nodes(app.talk.chat.id)) == 2
        await in_list(chatting)
        await chatting.press(*"nests")
        await chatting.until(lambda: len(titles(chatting)) == 1)
        for answer, left in (("down", True), ("", False)):
            await chatting.press("ctrl+d")
            await chatting.until(lambda: titles(chatting) == ["Delete it for good", "Keep it"])
            await chatting.pilot.pause()
            await chatting.press(*([answer] if answer else []), "enter")
            await chatting.until(lambda: "Keep it" not in titles(chatting))
            await chatting.press(*"nests")
            await chatting.until(lambda: len(titles(chatting)) < 2)
            assert titles(chatting) == (["• About birds and nests"] if left else [])
        await chatting.press("escape")
        assert app.transcript.entries == []


async def test_after_a_restart_the_last_chat_is_there(chat: Start) -> None:
    async with chat(system=script({"text": "Remember me."})) as chatting:
        await chatting.say("What shall I remember?")
        assert chatting.app.talk.chat is not None
        id = chatting.app.talk.chat.id
    async with chat(resume=True) as chatting:
        await chatting.until(lambda: "Remember me." in chatting.text)
        assert "▎ What shall I remember?" in chatting.text
    async with chat(chat=id, system=script({"echo": True})) as chatting:
        await chatting.until(lambda: "Remember me." in chatting.text)
        await chatting.say("Go on")
        assert chatting.app.talk.recordings[-1].request["antiphon:chat"] == id
    async with chat(chat="chat_nowhere") as chatting:
        await chatting.until(lambda: "There is no such chat" in chatting.text)


async def test_a_server_without_chats_gets_a_list_of_this_machine(chat: Start, tmp_path: Path) -> None:
    def reply(received: Received) -> Wire:
        return streamed("Hello.") if received.path.endswith("/responses") else error(404, "not_found")

    async with Player(reply) as server:
        async with chat(base_url=server.base_url) as chatting:
            await chatting.say("To be kept")
            assert "local chats" in str(chatting.app.query_one("#head").render())
            await in_list(chatting)
            assert titles(chatting) == ["To be kept"]
            [file] = (tmp_path / "data").glob("*.json")
            assert file.stat().st_mode & 0o777 == 0o600
        async with chat(base_url=server.base_url, resume=True) as chatting:
            await chatting.until(lambda: "Hello." in chatting.text)
            await chatting.say("More")
            assert server.body["previous_response_id"]
            await in_list(chatting)
            await chatting.press("ctrl+d")
            await chatting.until(lambda: "Delete it for good" in titles(chatting))
            await chatting.pilot.pause()
            await chatting.press("enter")
            await chatting.until(lambda: isinstance(chatting.app.screen, Chooser) and titles(chatting) == [])
            assert list((tmp_path / "data").glob("*.json")) == []


async def test_local_chats_search_texts_and_survive_a_broken_file(tmp_path: Path) -> None:
    book = LocalChats(tmp_path)
    chat = await book.create("A title")
    response = Response.new("resp_1", "m", now=1)
    response.add_message("about whales")
    await book.keep(chat.id, response, [Message(role="user", content="about what?")], None, running=True)
    (tmp_path / "chat_broken.json").write_text("{")
    assert [one.id for one in await book.search("WHALES")] == [chat.id]
    assert [one.running for one in await book.search("a TITLE")] == ["resp_1"]
    assert await book.search("birds") == []
    [node] = await book.nodes(chat.id)
    assert (node.text, node.input[0].get_text()) == ("about whales", "about what?")  # type: ignore[union-attr]
    with pytest.raises(AntiphonError, match="cannot be read"):
        await book.nodes("chat_broken")


async def test_which_chats_are_used(tmp_path: Path) -> None:
    async with Player(error(404)) as server, server.client() as client:
        assert isinstance(client, AsyncClient)
        assert (await chats_of(client, tmp_path)).is_local
