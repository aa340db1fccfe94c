"""The application, driven by Textual's pilot, against a real gateway with the `script` provider."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from antiphon.tui.app import ChatApp
from antiphon.tui.approval import ApprovalPrompt
from antiphon.tui.options import ChatOptions
from antiphon.tui.prompt_input import PromptInput
from tests.server.servers import Serving, configure

SCRIPTED = """
default_model = "demo"
[providers.demo]
type = "script"
[models]
"demo" = "demo/script"
"""
PATIENCE = 600
"""How often a condition is looked at before it counts as broken."""


def script(*steps: dict[str, Any]) -> str:
    """Instructions that make the gateway answer with these steps."""
    return f"```script\n{json.dumps(list(steps))}\n```"


def scenes(*turns: dict[str, Any]) -> str:
    """Instructions with an answer for each kind of turn."""
    return f"```script\n{json.dumps({'turns': list(turns)})}\n```"


class Chatting:
    """The application and a hand on its keys."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def composer(self) -> PromptInput:
        return self.app.query_one(PromptInput)

    @property
    def text(self) -> str:
        return self.app.transcript.text()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def send(self, text: str) -> None:
        """Write it at once, and press Enter."""
        self.composer.write(text)
        await self.pilot.pause()
        await self.press("enter")

    async def say(self, text: str) -> str:
        """Send it and wait for the answer; everything that is on the screen then."""
        await self.send(text)
        await self.settle()
        return self.text

    async def settle(self) -> None:
        """Until nothing runs and everything is drawn."""
        await self.pilot.pause()
        await self.app.turns.settle()
        self.app.transcript.settle()
        await self.pilot.pause()

    async def picture(self) -> str:
        """The screen as SVG, once it does not change any more."""
        before = ""
        for _ in range(PATIENCE):
            await self.pilot.pause(0.1)
            now = self.app.export_screenshot()
            if now == before:
                return now
            before = now
        raise AssertionError("the screen never stands still")

    async def until(self, condition: Callable[[], object]) -> None:
        for _ in range(PATIENCE):
            if condition():
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"it never came; the screen has:\n{self.text}")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for family in ("ANTIPHON", "OPENRESPONSES", "OPENAI"):
        monkeypatch.delenv(f"{family}_BASE_URL", raising=False)
        monkeypatch.delenv(f"{family}_API_KEY", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests answer at once."""
    monkeypatch.setattr(ApprovalPrompt, "PAUSE", 0.0)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(configure(tmp_path_factory.mktemp("gateway"), SCRIPTED)) as serving:
        yield serving


Start = Callable[..., AbstractAsyncContextManager[Chatting]]


@asynccontextmanager
async def started(options: ChatOptions, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Chatting]:
    app = ChatApp(options)
    async with app.run_test(size=size) as pilot:
        chatting = Chatting(app, pilot)
        await chatting.until(app.ready.is_set)
        yield chatting


@pytest.fixture
def chat(gateway: Serving, tmp_path: Path) -> Start:
    """Starts the application with the gateway, or with what `base_url` names."""

    def start(size: tuple[int, int] = (80, 24), **options: Any) -> AbstractAsyncContextManager[Chatting]:
        given: dict[str, Any] = {
            "base_url": f"{gateway.url}/v1",
            "data": tmp_path / "data",
            "folder": tmp_path,
        }
        return started(ChatOptions(**given | options), size)

    return start
