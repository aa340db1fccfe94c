"""How each screen looks: dark and light, wide and narrow."""

from functools import partial

import pytest

from antiphon.tui import answering, chat_list, entries, recording, turns
from antiphon.tui.approval import Approval
from antiphon.tui.chooser import Chooser
from antiphon.tui.connection import Connection
from antiphon.tui.inspector import Inspector
from tests.server.servers import Serving, configure
from tests.tui.conftest import SCRIPTED, Start, scenes, script
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
SCRIPT = script({"reasoning": "A definition is wanted."}, {"text": ANSWER, "chunk": 9})


def weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}"


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands, and a server without a port in its name."""
    monkeypatch.setattr(turns, "Answering", partial(answering.Answering, clock=lambda: 0.0))
    monkeypatch.setattr(entries, "seconds", lambda taken: "0 ms")
    monkeypatch.setattr(recording, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(chat_list, "day", lambda stamp, now: "12:00")
    monkeypatch.setattr(Connection, "name", "127.0.0.1:8080")


@pytest.mark.parametrize(
    ("name", "size", "light"),
    [
        ("answer-dark-80x24", (80, 24), False),
        ("answer-light-120x40", (120, 40), True),
        ("answer-dark-60x20", (60, 20), False),
    ],
)
async def test_an_answer(chat: Start, name: str, size: tuple[int, int], light: bool) -> None:
    async with chat(size=size, light=light, system=SCRIPT) as chatting:
        if size == (80, 24):
            compare("welcome-dark-80x24", await chatting.picture())
        await chatting.say("What is an antiphon?")
        compare(name, await chatting.picture())
        if size == (80, 24):
            await chatting.pilot.resize_terminal(120, 40)
            await chatting.settle()
            compare("answer-dark-120x40", await chatting.picture())


async def test_the_inspector(chat: Start) -> None:
    async with chat(size=(120, 40), system=SCRIPT) as chatting:
        await chatting.say("What is an antiphon?")
        await chatting.press("f12")
        await chatting.until(lambda: isinstance(chatting.app.screen, Inspector))
        await chatting.pilot.pause(0.2)
        await chatting.press("home")
        await chatting.pilot.pause()
        compare("inspector-dark-120x40", await chatting.picture())


async def test_approvals_commands_and_what_failed(chat: Start) -> None:
    told = scenes(
        {
            "when": {"last": "function_call_output"},
            "steps": [{"text": "Take an umbrella"}, {"error": {"message": "boom", "code": "broken"}}],
        },
        {"steps": [{"call": "weather", "arguments": '{"city": "Leeds"}'}]},
    )
    async with chat(system=told, tools=(weather,), light=True) as chatting:
        await chatting.send("How is the weather?")
        await chatting.until(lambda: chatting.app.query_one(Approval).has_class("shown"))
        await chatting.pilot.pause()
        chatting.app.transcript.settle()
        compare("approval-light-80x24", await chatting.picture())
        await chatting.press("y")
        await chatting.settle()
        await chatting.press("/", "e")
        await chatting.pilot.pause()
        compare("failed-light-80x24", await chatting.picture())


async def test_the_list_of_chats(chat: Start, tmp_path_factory: pytest.TempPathFactory) -> None:
    with Serving(configure(tmp_path_factory.mktemp("chats"), SCRIPTED)) as serving:
        async with chat(base_url=f"{serving.url}/v1", system=SCRIPT) as chatting:
            for title in ("What is an antiphon?", "Who sings it?"):
                await chatting.press("ctrl+n")
                await chatting.say(title)
            await chatting.press("ctrl+o")
            await chatting.until(lambda: isinstance(chatting.app.screen, Chooser))
            await chatting.pilot.pause(0.1)
            compare("chats-dark-80x24", await chatting.picture())


async def test_without_colour(chat: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with chat(system=SCRIPT) as chatting:
        await chatting.say("What is an antiphon?")
        assert chatting.app.no_color
        compare("answer-no-colour-80x24", await chatting.picture())
