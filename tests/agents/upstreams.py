"""What stands behind the gateway while a client is driven: a fake of a wire, or the script provider."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.config import toml_text
from tests.agents import coder
from tests.providers.anthropic import wire as anthropic_wire
from tests.providers.chat import wire as chat_wire
from tests.providers.conformance.asked import Question
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import SETTINGS
from tests.providers.conformance.said import Script, Text
from tests.providers.fake_server import FakeServer, Received, Step, Wire, refusal
from tests.providers.gemini import fake as gemini_fake
from tests.providers.responses import wire as responses_wire
from tests.server.servers import Serving, configure

WINDOW = 200_000
NAMES = ("write", "change", "full", "broken", "slow", "done")
"""The models of the script provider: each plays another turn."""
_OVERFLOW: dict[str, Callable[[], bytes]] = {
    "chat": lambda: chat_wire.error(
        "This model's maximum context length is 200000 tokens, and your messages have 210000.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
    "responses": lambda: responses_wire.error(
        "Your input exceeds the context window of this model.", code="context_length_exceeded"
    ),
    "anthropic": lambda: anthropic_wire.error(
        "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
    ),
    "gemini": lambda: gemini_fake.error(
        400,
        "INVALID_ARGUMENT",
        "The input token count (210000) exceeds the maximum number of tokens allowed (200000).",
    ),
}


@dataclass
class Upstream:
    """A gateway with one upstream, and what that upstream shall do next."""

    url: str
    fail: bool = False
    """The next answer fails in its middle."""
    overflow: bool = False
    """The next request with the long output in it is too long."""
    hang: bool = False
    """The next answer stops in its middle, until the client goes."""
    heard: list[str] = field(default_factory=list)
    """All that the model was told, for each request that offered tools."""
    left: Callable[[], bool] = lambda: True
    """Has whoever waited for an answer that hung gone away?"""
    is_script: bool = False


@asynccontextmanager
async def upstream(wire: str, folder: Path, client: str) -> AsyncIterator[Upstream]:
    """A gateway over this wire; the model's name there is `coder`."""
    if wire == "script":
        with Serving(configure(folder, _scripted(folder, client))) as server:
            yield Upstream(server.url, is_script=True)
        return
    async with FAKES[wire]() as fake:
        assert isinstance(fake, FakeServer)
        settings, model = SETTINGS[wire]
        config = (
            f'[providers.fake]\nbase_url = "{fake.base_url}"\n{settings}\n'
            f'[models]\ncoder = "fake/{model}"\n[catalogue."fake/{model}"]\ncontext_window = {WINDOW}\n'
        )
        with Serving(configure(folder, config)) as server:
            made = Upstream(server.url)
            _teach(fake, wire, made)
            made.left = fake.gone.is_set
            yield made


def _teach(fake: Any, wire: str, state: Upstream) -> None:
    """Gives the fake its mind, and the faults that the state asks for."""

    def mind(question: Question) -> Script:
        if question.tools:
            state.heard.append(question.everything)
        if state.fail and question.tools:
            state.fail = False
            return Script((Text("I begin, and"),), "error", size=4)
        return coder.answer(question)

    plain = fake.reply

    def reply(received: Received) -> Wire:
        is_counted = received.path.lower().endswith(("tokens", "counttokens"))
        if state.overflow and coder.SEEN.encode() in received.raw and not is_counted:
            state.overflow = False
            return refusal(400, _OVERFLOW[wire]())
        answer: Wire = plain(received)
        if state.hang and received.method == "POST" and answer.status == 200 and b"tools" in received.raw:
            state.hang = False
            fake.gone.clear()
            pieces = list(answer.pieces)
            return Wire([*pieces[: max(len(pieces) // 2, 1)], Step.HANG], 200, answer.headers)
        return answer

    fake.mind = mind
    fake.reply = reply


_TOOLS = {
    "codex": {"exec_command", "apply_patch"},
    "claude": {"Bash", "Write", "Edit", "Read"},
    "opencode": {"bash", "write", "edit", "read"},
}


def _scripted(folder: Path, client: str) -> str:
    """The script provider; which turn is played is chosen by the model's name."""
    folder.mkdir(parents=True, exist_ok=True)
    tools = _TOOLS[client]
    work = str(folder / "work")
    write = [_step(*one) for one in coder.calls(True, tools, work)]
    change = [_step(*one) for one in coder.calls(False, tools, work)]
    done: list[dict[str, Any]] = [{"text": "That is done.", "chunk": 4}]
    too_long = {"code": "context_length_exceeded", "status": 400, "type": "invalid_request_error"}
    broken = {"code": "server_error", "message": "the model broke off", "type": "server_error"}
    turns: list[dict[str, Any]] = [
        *({"when": {"contains": marker}, "steps": done} for marker in coder.IN_WORDS),
        *(
            {"when": {"last": kind}, "steps": done}
            for kind in ("function_call_output", "custom_tool_call_output")
        ),
        {"when": {"model": "write"}, "steps": write},
        {"when": {"model": "change"}, "steps": change},
        # Once its history is short, it begins to count anew.
        {"when": {"model": "full", "turn": 1}, "steps": change},
        {"when": {"model": "full", "turn": 2}, "steps": change},
        {
            "when": {"model": "full"},
            "steps": [{"error": {**too_long, "message": "the context window is full"}}],
        },
        {"when": {"model": "broken"}, "steps": [{"text": "I begin, and"}, {"error": broken}]},
        {"when": {"model": "slow"}, "steps": [{"text": "Slowly, ", "chunk": 1, "delay": 5}]},
        {"steps": done},
    ]
    (folder / "script.json").write_text(json.dumps({"turns": turns}))
    known = "".join(f'[catalogue."script/{name}"]\ncontext_window = {WINDOW}\n' for name in NAMES)
    models = "".join(f"{toml_text(name)} = {toml_text(f'script/{name}')}\n" for name in NAMES)
    return f'[providers.script]\ntype = "script"\nfile = "script.json"\n[models]\n{models}{known}'


def _step(name: str, sent: dict[str, Any]) -> dict[str, Any]:
    if name == "apply_patch":
        return {"custom": name, "input": sent["input"]}
    return {"call": name, "arguments": sent}


async def until(condition: Callable[[], bool], patience: float = 15.0) -> bool:
    """Does it come true in time?"""
    ends = asyncio.get_running_loop().time() + patience
    while not condition():
        if asyncio.get_running_loop().time() > ends:
            return False
        await asyncio.sleep(0.05)
    return True
