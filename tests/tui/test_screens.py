"""How each screen looks: dark and light, wide and narrow."""

from functools import partial
from typing import Any

import pytest

from antiphon.tui import answering, chat_list, entries, recording, turns
from antiphon.tui.approval import ApprovalPrompt
from antiphon.tui.chooser import Chooser
from antiphon.tui.inspector import Inspector
from antiphon.tui.server_connection import ServerConnection
from tests.server.servers import Serving, configure
from tests.tui.conftest import SCRIPTED, Chatting, Start, scenes, script
from tests.tui.screens import compare

ANSWER = """\
An **antiphon** is a verse sung *in response*:

1. One choir begins.
2. The other answers.

```python
def answer(verse: str) -> str:
    return verse[::-1]  # a mirror
```

| voice  | ends |
|--------|-----:|
| first  |   12 |
| second |    9 |

> It is older than the organ.
"""
FAILING = scenes(
    {
        "when": {"last": "function_call_output"},
        "steps": [{"text": "Take an umbrella"}, {"error": {"message": "boom", "code": "broken"}}],
    },
    {"steps": [{"call": "weather", "arguments": '{"city": "Leeds"}'}]},
)
SCRIPT = script({"reasoning": "A definition is wanted."}, {"text": ANSWER, "chunk": 9})


def weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}"


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands, and a server without a port in its name."""
    monkeypatch.setattr(turns, "RunEntries", partial(answering.RunEntries, clock=lambda: 0.0))
    monkeypatch.setattr(entries, "seconds", lambda taken: "0 ms")
    monkeypatch.setattr(recording, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(chat_list, "day", lambda stamp, now: "12:00")
    monkeypatch.setattr(ServerConnection, "name", "127.0.0.1:8080")


class Walk:
    """Goes from screen to screen, and compares each with the one that was kept."""

    def __init__(self, chatting: Chatting, named: str) -> None:
        self._chatting = chatting
        self._named = named

    async def compare(self, screen: str) -> None:
        compare(f"{screen}-{self._named}", await self._chatting.picture())

    async def through_an_answer(self) -> None:
        chatting = self._chatting
        await self.compare("welcome")
        chatting.app.settings.system = SCRIPT
        await chatting.say("What is an antiphon?")
        await self.compare("answer")
        await chatting.press("f12")
        await chatting.until(lambda: isinstance(chatting.app.screen, Inspector))
        await chatting.pilot.pause(0.2)
        await chatting.press("home")
        await self.compare("inspector")
        await chatting.press("f12")
        await chatting.until(lambda: not isinstance(chatting.app.screen, Inspector))

    async def through_a_call(self) -> None:
        chatting = self._chatting
        await chatting.press("ctrl+n")
        chatting.app.settings.system = FAILING
        await chatting.send("How is the weather?")
        await chatting.until(lambda: chatting.app.query_one(ApprovalPrompt).has_class("shown"))
        await chatting.pilot.pause()
        chatting.app.transcript.settle()
        await self.compare("approval")
        await chatting.press("y")
        await chatting.settle()
        await chatting.press("/", "e")
        await self.compare("failed")
        await chatting.press("escape", "backspace", "backspace")

    async def through_the_chats(self) -> None:
        chatting = self._chatting
        await chatting.press("ctrl+o")
        await chatting.until(lambda: isinstance(chatting.app.screen, Chooser))
        await self.compare("chats")


@pytest.mark.parametrize(
    ("size", "light"),
    [((80, 24), False), ((80, 24), True), ((120, 40), False), ((120, 40), True), ((60, 20), False)],
    ids=["80x24-dark", "80x24-light", "120x40-dark", "120x40-light", "60x20-dark"],
)
async def test_every_screen(
    chat: Start, tmp_path_factory: pytest.TempPathFactory, size: tuple[int, int], light: bool
) -> None:
    named = f"{'light' if light else 'dark'}-{size[0]}x{size[1]}"
    with Serving(configure(tmp_path_factory.mktemp("chats"), SCRIPTED)) as serving:
        options: dict[str, Any] = {"base_url": f"{serving.url}/v1", "tools": (weather,), "light": light}
        async with chat(size=size, **options) as chatting:
            walk = Walk(chatting, named)
            await walk.through_an_answer()
            await walk.through_a_call()
            await walk.through_the_chats()


async def test_a_terminal_that_gets_another_size_shows_what_it_would_have_from_the_start(chat: Start) -> None:
    async with chat(size=(80, 24), system=SCRIPT, tools=(weather,)) as chatting:
        await chatting.say("What is an antiphon?")
        for size in ((120, 40), (60, 20), (80, 24)):
            await chatting.pilot.resize_terminal(*size)
            await chatting.settle()
            compare(f"answer-dark-{size[0]}x{size[1]}", await chatting.picture())


async def test_without_colour(chat: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with chat(system=SCRIPT) as chatting:
        await chatting.say("What is an antiphon?")
        assert chatting.app.no_color
        compare("answer-no-colour-80x24", await chatting.picture())
