"""Every command after a slash, and every key."""

from pathlib import Path

from antiphon.tui import commands
from antiphon.tui.chooser import Chooser
from antiphon.tui.entries import AnswerEntry, UserEntry
from antiphon.tui.inspector import Inspector
from antiphon.tui.palette import DARK, LIGHT
from tests.tui.conftest import Chatting, Start, script

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c626001000000"
    "ffff03000006000557bfabd40000000049454e44ae426082"
)


async def pick(chatting: Chatting, *keys: str) -> None:
    await chatting.until(lambda: isinstance(chatting.app.screen, Chooser))
    await chatting.pilot.pause()
    await chatting.press(*keys)
    await chatting.pilot.pause()


async def test_model_effort_system_tools_and_help(chat: Start) -> None:
    async with chat(size=(100, 40)) as chatting:
        app = chatting.app
        await chatting.send("/model")
        await pick(chatting, "enter")
        assert app.settings.model == "demo"
        await chatting.send("/model other")
        assert app.settings.model == "other"
        await chatting.send("/effort")
        await pick(chatting, *"hig", "enter")
        assert app.settings.effort == "high"
        await chatting.send("/effort low")
        await chatting.send("/effort huge")
        assert "There is no effort 'huge'" in chatting.text
        assert app._status().line(90).startswith("other  ·  effort low")
        await chatting.send("/system Be brief.")
        assert app.settings.system == "Be brief."
        await chatting.send("/tools")
        assert "There are no tools" in chatting.text
        await chatting.send("/background")
        assert app.settings.background
        await chatting.send("/nonsense")
        assert "There is no command /nonsense" in chatting.text
        await chatting.send("/help")
        for name in commands.COMMANDS:
            assert f"/{name}" in chatting.text
        await chatting.send("/system")
        assert app.settings.system is None


async def test_files_are_found_and_attached(chat: Start, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "shopping.txt").write_text("milk\n")
    (tmp_path / "dot.png").write_bytes(PIXEL)
    async with chat(system=script({"echo": True})) as chatting:
        await chatting.press(*"see @shop")
        assert [one.text for one in chatting.composer.offered] == ["@notes/shopping.txt"]
        await chatting.press("tab")
        assert chatting.composer.text == "see @notes/shopping.txt "
        await chatting.press("enter")
        await chatting.settle()
        assert "+ notes/shopping.txt" in chatting.text
        parts = chatting.app.talk.recordings[-1].request["input"][0]["content"]
        assert parts[0]["text"] == "shopping.txt:\n```\nmilk\n```"
        await chatting.send("/attach @dot.png")
        assert chatting.app.query_one("#attached").has_class("shown")
        await chatting.say("And this?")
        parts = chatting.app.talk.recordings[-1].request["input"][0]["content"]
        assert parts[0]["image_url"].startswith("data:image/png;base64,")
        await chatting.send("/attach nowhere.txt")
        assert "cannot be read" in chatting.text
        await chatting.send("/attach")
        assert "name of a file" in chatting.text


async def test_retry_edit_and_branches(chat: Start) -> None:
    async with chat(system=script({"text": "First answer."})) as chatting:
        app = chatting.app
        await chatting.send("/retry")
        await chatting.send("/edit")
        await chatting.send("/branch")
        assert chatting.text.count("There is n") == 2
        assert "This chat has one branch" in chatting.text
        await chatting.say("one")
        app.settings.system = script({"text": "Second answer."})
        text = await chatting.say("/retry")
        assert "First answer." not in text
        assert "Second answer." in text
        await chatting.send("/edit")
        await pick(chatting, "enter")
        await chatting.until(lambda: chatting.composer.text == "one")
        app.settings.system = script({"text": "Third answer."})
        text = await chatting.say("another one")
        assert "▎ another one" in text
        assert "▎ one" not in text
        assert app.talk.chat is not None
        assert len(await app.talk.book.nodes(app.talk.chat.id)) == 3
        await chatting.send("/branch")
        await pick(chatting, *"First", "enter")
        await chatting.until(lambda: "First answer." in chatting.text)
        assert "Third answer." not in chatting.text
        app.settings.system = script({"text": "On the first branch."})
        text = await chatting.say("go on")
        assert "First answer." in text
        assert "On the first branch." in text


async def test_export_copy_clear_theme_rename_and_quit(chat: Start, tmp_path: Path) -> None:
    async with chat(system=script({"text": "An **answer**.\n\n```py\nx = 1\n```"})) as chatting:
        app = chatting.app
        await chatting.send("/rename Early")
        assert "Send a message first" in chatting.text
        await chatting.say("A question")
        await chatting.send("/rename A better title")
        assert app.talk.chat is not None
        assert app.talk.chat.title == "A better title"
        await chatting.send("/copy")
        assert app.clipboard == "An **answer**.\n\n```py\nx = 1\n```"
        await chatting.send("/export")
        written = (tmp_path / "chat.md").read_text()
        assert "> A question" in written
        assert "An **answer**." in written
        await chatting.send("/export")
        assert "exists already" in chatting.text
        await chatting.send("/theme")
        assert app.theme == LIGHT.name
        await chatting.send("/inspect")
        await chatting.until(lambda: isinstance(app.screen, Inspector))
        await chatting.press("escape")
        await chatting.send("/clear")
        assert (app.transcript.entries, chatting.app.talk.chat) == ([], None)
        await chatting.send("/chats")
        await pick(chatting, "escape")
        await chatting.send("/quit")
        await chatting.until(lambda: app._exit)


async def test_the_keys(chat: Start) -> None:
    answer = "An answer.\n\n```py\nx = 1\n```"
    async with chat(system=script({"text": answer}), size=(80, 30)) as chatting:
        app = chatting.app
        await chatting.press(*"one", "ctrl+j", *"two\\", "enter", *"three")
        assert chatting.composer.text == "one\ntwo\nthree"
        await chatting.press("enter")
        await chatting.settle()
        await chatting.press("up")
        assert chatting.composer.text == "one\ntwo\nthree"
        await chatting.press("down")
        assert chatting.composer.text == ""
        await chatting.press("/", "e", "down", "up", "down", "tab")
        assert chatting.composer.text == "/edit "
        await chatting.press("escape")
        chatting.composer.clear()
        await chatting.press("ctrl+y")
        assert app.clipboard == answer
        await chatting.press("ctrl+t")
        assert app.theme == LIGHT.name
        await chatting.press("ctrl+t")
        assert app.theme == DARK.name
        await chatting.press("tab")
        assert app.transcript.has_focus
        assert isinstance(app.transcript.chosen_entry, AnswerEntry)
        await chatting.press("c")
        await chatting.press("up")
        assert isinstance(app.transcript.chosen_entry, UserEntry)
        await chatting.press("e")
        await chatting.until(lambda: chatting.composer.text == "one\ntwo\nthree")
        await chatting.press("escape")
        assert chatting.composer.text == ""
        await chatting.press("tab", "r")
        await chatting.settle()
        assert len(app.talk.nodes) == 2
        await chatting.press("ctrl+c")
        await chatting.press("ctrl+n")
        assert app.transcript.entries == []
        await chatting.press("ctrl+p")
        await chatting.until(lambda: len(app.screen_stack) > 1)
        await chatting.press("escape")
        await chatting.press("f12")
        await chatting.until(lambda: isinstance(app.screen, Inspector))
        await chatting.press("f12", "ctrl+o")
        await pick(chatting, "escape")
        await chatting.press("ctrl+q")
        await chatting.until(lambda: app._exit)


async def test_a_click_copies_code_and_folds(chat: Start) -> None:
    steps = [{"reasoning": "Hidden thought."}, {"text": "```py\nx = 1\n```"}]
    async with chat(system=script(*steps)) as chatting:
        app = chatting.app
        await chatting.say("Hi")
        lines = chatting.text.split("\n")
        row = next(n for n, line in enumerate(lines) if line.endswith("copy"))
        column = lines[row].index("copy") + 1
        await chatting.pilot.click(app.transcript, offset=(column + 1, row))
        await chatting.until(lambda: app.clipboard == "x = 1")
        row = next(n for n, line in enumerate(lines) if "Thought for" in line)
        await chatting.pilot.click(app.transcript, offset=(6, row))
        await chatting.until(lambda: "Hidden thought." in chatting.text)
