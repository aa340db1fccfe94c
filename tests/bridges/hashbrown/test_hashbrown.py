"""Threads that the store cannot keep, and the examples of docs/bridges/hashbrown.md."""

import json
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from antiphon.client.hashbrown import hashbrown_frames
from antiphon.server.endpoint import queries
from antiphon.server.routes.hashbrown import HashbrownOptions
from antiphon.store import StoreBusy
from tests.bridges.javascript import FOLDER, NODE, needs_node
from tests.bridges.scripts import TOML
from tests.server.conftest import Serve
from tests.server.servers import Client, Serving
from tests.wires.hashbrown.frame_reader import Frame, frame_types, message, unframed

PAGE = (Path(__file__).parents[3] / "docs" / "bridges" / "hashbrown.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8080"
WAITING = """
const isOver = () => chat.messages().length > 1 && !chat.isLoading();
for (let n = 0; n < 2000 && !isOver(); n++) await new Promise((go) => setTimeout(go, 5));
console.log(JSON.stringify(chat.messages()));
process.exit();
"""


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


def ask(client: Client, **fields: Any) -> list[Frame]:
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    return unframed(client.post("/api/hashbrown", json=body).content)


async def busy(*_: object, **__: object) -> None:
    raise StoreBusy("the database is busy")


def test_a_store_that_cannot_load_is_told_in_a_frame(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.gateway.store, "conversation_context", busy)
    frames = ask(server.client(), threadId="t")
    assert frames[1:] == [{"type": "thread-load-failure", "error": "the database is busy"}]


@pytest.mark.parametrize("method", ["create_conversation", "add_items"])
def test_a_store_that_cannot_save_does_not_spoil_the_answer(
    server: Serving, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    client = server.client()
    known = {"threadId": ask(client)[-1]["threadId"]} if method == "add_items" else {}
    monkeypatch.setattr(server.gateway.store, method, busy)
    frames = ask(client, **known)
    assert message(frames)["content"] == "Hi"
    assert frame_types(frames)[-3:] == ["generation-finish", "thread-save-start", "thread-save-failure"]
    assert frames[-1]["error"] == "the database is busy"


def example(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


@needs_node
def test_the_example_for_the_browser_works(server: Serving) -> None:
    program = example("js") + WAITING
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", program.replace(ADDRESS, server.url)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said[1] == {"role": "assistant", "content": "Hello", "toolCalls": []}


def test_the_example_for_a_program_works(server: Serving) -> None:
    program = example("python").replace(ADDRESS, server.url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "generation-finish" in done.stdout


def test_the_page_names_every_option() -> None:
    for name in [*signature(hashbrown_frames).parameters][1:]:
        assert f"`{name}" in PAGE, name
    for query in queries(HashbrownOptions):
        assert f"`?{query.name}=" in PAGE, query.name
