"""Every key that is declared anywhere does something, and none is without a test."""

import re
from functools import partial
from pathlib import Path

from textual.binding import Binding
from textual.command import CommandList, CommandPalette

from antiphon.tui.app import ChatApp
from antiphon.tui.approval import ApprovalPrompt
from antiphon.tui.chooser import Chooser, TextPrompt
from antiphon.tui.event_list import EventList
from antiphon.tui.inspector import Inspector
from antiphon.tui.prompt_input import PromptInput
from antiphon.tui.transcript import Transcript
from tests.tui.conftest import Chatting, Start, script

HERE = Path(__file__).parent
SPELLED = {"left_square_bracket": "[", "right_square_bracket": "]"}


def test_every_declared_key_is_pressed_in_a_test() -> None:
    pressed = set(re.findall(r'"([^"\s]+)"', "".join(file.read_text() for file in HERE.glob("test_*.py"))))
    for owner in (
        ChatApp,
        ApprovalPrompt,
        TextPrompt,
        Chooser,
        PromptInput,
        EventList,
        Inspector,
        Transcript,
    ):
        for binding in owner.__dict__.get("BINDINGS", ()):
            assert isinstance(binding, Binding)
            for key in binding.key.split(","):
                assert SPELLED.get(key, key) in pressed, f"{owner.__name__}: {key}"


async def test_new_lines_by_every_key(chat: Start) -> None:
    async with chat() as chatting:
        for key in ("shift+enter", "alt+enter", "ctrl+j"):
            chatting.composer.clear()
            await chatting.press("a", key, "b")
            assert chatting.composer.text == "a\nb", key


async def test_the_transcript_by_keyboard(chat: Start) -> None:
    async with chat(system=script({"reasoning": "A hidden thought."}, {"text": "Said."})) as chatting:
        await chatting.say("Hi")

        def chosen() -> str:
            return type(chatting.app.transcript.chosen_entry).__name__

        await chatting.press("tab")
        assert chosen() == "AnswerEntry"
        await chatting.press("k")
        assert chosen() == "ReasoningEntry"
        for key in ("space", "enter"):
            await chatting.press(key)
            assert ("A hidden thought." in chatting.text) == (key == "space")
        await chatting.press("up")
        assert chosen() == "UserEntry"
        await chatting.press("up", "j", "down")
        assert chosen() == "AnswerEntry"
        await chatting.press("escape")
        assert chatting.composer.has_focus


async def test_interrupting_copies_or_stops_or_says_how_to_leave(chat: Start) -> None:
    async with chat(system=script({"text": "Endless. ", "times": 2000, "delay": 0.02})) as chatting:
        await chatting.press(*"word", "shift+home", "ctrl+c")
        assert chatting.app.clipboard == "word"
        chatting.composer.clear()
        await chatting.press("ctrl+c")
        assert [notice.message for notice in chatting.app._notifications][-1] == "Ctrl+Q leaves."
        await chatting.send("Go on")
        await chatting.until(lambda: "Endless." in chatting.text)
        await chatting.press("ctrl+c")
        await chatting.settle()
        assert "Stopped" in chatting.text


async def test_the_inspector_by_keyboard(chat: Start) -> None:
    async with chat(system=script({"text": "Said."})) as chatting:
        for words in ("one", "two"):
            await chatting.say(words)
        await chatting.press("f12")
        await chatting.until(lambda: isinstance(chatting.app.screen, Inspector))
        verdict = chatting.app.screen.query_one("#verdict")
        for key, place in (("[", "response 1 of 2"), ("]", "response 2 of 2")):
            await chatting.press(key)
            await chatting.until(partial(lambda place: place in str(verdict.render()), place))
        listed = chatting.app.screen.query_one(EventList)
        for keys in (("home", "down", "end"), ("pageup", "pagedown", "up")):
            await chatting.press(*keys)
        assert listed.has_focus


async def palette(chatting: Chatting, letters: str, command: str) -> None:
    app = chatting.app

    def first() -> str:
        found = app.screen.query_one(CommandList)
        return str(found.get_option_at_index(0).prompt) if found.option_count else ""

    await chatting.press("ctrl+p")
    await chatting.until(lambda: isinstance(app.screen, CommandPalette) and "/model" in first())
    await chatting.press(*letters)
    await chatting.until(lambda: command in first())
    await chatting.until(lambda: app.screen.query_one(CommandList).highlighted == 0)
    await chatting.press("enter")
    await chatting.until(lambda: len(app.screen_stack) == 1)


async def test_the_palette_has_the_commands(chat: Start) -> None:
    async with chat() as chatting:
        await palette(chatting, "backgr", "/background")
        await chatting.until(lambda: chatting.app.settings.background)
        await palette(chatting, "rename", "/rename")
        await chatting.until(lambda: chatting.composer.text == "/rename ")


async def test_only_keys_that_do_something_are_shown(chat: Start) -> None:
    def shown() -> set[str]:
        active = chatting.app.screen.active_bindings.values()
        return {one.binding.description for one in active if one.enabled and one.binding.show}

    async with chat(system=script({"text": "Endless. ", "times": 2000, "delay": 0.02})) as chatting:
        assert shown() == {"New", "Chats", "Inspector"}
        await chatting.send("Go on")
        await chatting.until(lambda: "Endless." in chatting.text)
        assert "Stop" in shown()
        await chatting.press("escape")
        await chatting.settle()
        await chatting.press("f12")
        await chatting.until(lambda: isinstance(chatting.app.screen, Inspector))
        assert "New" not in shown()
        assert "Save capture" in shown()
