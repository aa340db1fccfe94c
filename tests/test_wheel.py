"""The package as users get it: built as a wheel, installed in an empty environment, and asked something."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from antiphon.embedded.catalogue import DEFAULT
from antiphon.embedded.weights import models_folder

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements" / "dev.txt"
PATIENCE = 120.0
OUTSIDE = dict(os.environ)  # as it is before the tests change it
ECHO = 'default_model = "demo/echo"\n[providers.demo]\ntype = "script"\n'


def uv(*arguments: str | Path) -> None:
    """uv as it is configured on this machine; what it installs is in its cache since the set-up."""
    done = subprocess.run(
        [Path(sys.executable).with_name("uv"), *arguments],
        env=OUTSIDE,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


class Installed:
    """The wheel with some of its extras in an environment of its own, far from the source."""

    def __init__(self, wheel: Path, folder: Path, extras: str = "") -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self._bin = folder / "venv" / "bin"
        uv("venv", "--quiet", "--python", sys.executable, folder / "venv")
        wanted = f"antiphon{extras} @ {wheel.as_uri()}"
        uv("pip", "install", "--quiet", "--python", self._bin / "python", "--constraint", LOCK, wanted)

    def environ(self, **settings: str) -> dict[str, str]:
        named = {f"ANTIPHON_{name}": text for name, text in settings.items()}
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], **named}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._bin / command[0], *command[1:]],
            cwd=self.home,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    @contextmanager
    def serving(self, toml: str = "", **settings: str) -> Iterator[str]:
        """The address of a running server, which must also end well."""
        (self.home / "antiphon.toml").write_text(toml)
        with subprocess.Popen(
            [self._bin / "antiphon", "serve", "--port", "0"],
            cwd=self.home,
            env=self.environ(**settings),
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            try:
                assert server.stdout is not None
                address = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
                assert address is not None, "it did not start"
                yield address[0]
            finally:
                server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Without any extra."""
    return Installed(wheel, tmp_path_factory.mktemp("library"))


def fetch(url: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=PATIENCE) as answer:
        return bytes(answer.read())


def ask(url: str, **request: Any) -> str:
    """The text of the answer."""
    response = json.loads(fetch(f"{url}/v1/responses", request))
    assert response["status"] in ("completed", "incomplete"), response
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        entry_points = archive.read(next(n for n in archive.namelist() if n.endswith("entry_points.txt")))
        licences = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
    sources = [path for path in (ROOT / "antiphon").rglob("*") if path.is_file()]
    ours = {str(path.relative_to(ROOT)) for path in sources if "__pycache__" not in path.parts}
    assert packed == ours
    assert {"antiphon/py.typed", "antiphon/server/docs.html"} <= packed
    assert b"antiphon = antiphon.cli:main" in entry_points
    assert len(licences) == 1


def test_the_gateway_alone(wheel: Path, tmp_path: Path) -> None:
    installed = Installed(wheel, tmp_path, "[server]")
    where = installed.run("python", "-c", "import antiphon; print(antiphon.__file__)")
    assert where.stdout.startswith(str(tmp_path / "venv"))
    for command in (("--help",), ("serve", "--help"), ("config", "check"), ("--version",)):
        done = installed.run("antiphon", *command)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout
    with installed.serving(ECHO, LOCAL__ENABLED="false") as url:
        assert ask(url, input="Is anybody there?") == "Is anybody there?"
        stream = fetch(f"{url}/v1/responses", {"input": "Is anybody there?", "stream": True})
        assert stream.endswith(b"data: [DONE]\n\n")
        assert b"<html" in fetch(f"{url}/docs")
        assert json.loads(fetch(f"{url}/openapi.json"))["paths"]


def test_the_gateway_with_the_embedded_model(wheel: Path, tmp_path: Path) -> None:
    """As a newcomer starts it: no configuration, no key. The model's file is taken from the cache."""
    file = models_folder() / f"{DEFAULT}.gguf"
    assert file.exists(), f"{file} is not there; fetch it with: make model"
    installed = Installed(wheel, tmp_path, "[server,local]")
    with installed.serving(MODELS_DIR=str(models_folder())) as url:
        assert ask(url, input="Say hello in five words.", max_output_tokens=32)


def test_the_library_alone_says_what_the_server_needs(library: Installed) -> None:
    assert library.run("antiphon", "--help").returncode == 0
    done = library.run("antiphon", "serve")
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'antiphon[server]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


LIBRARY = """
import asyncio, httpx, sys
from antiphon import Agent, AsyncClient, Client, MCPServer, UsageError, tool
from antiphon.producer import ResponsesApp

@tool
def add(a: int, b: int) -> int:
    return a + b

async def answer(request):
    yield "Hello."

async def main():
    app = httpx.ASGITransport(app=ResponsesApp(answer))
    async with AsyncClient("http://here/v1", transport=app) as client:
        print((await Agent(client=client, tools=[]).run("Hi")).text)

asyncio.run(main())
for missing in (lambda: Client(transport="local").responses.create("Hi"), lambda: MCPServer.stdio("any")):
    try:
        missing()
    except UsageError as error:
        print(error)
print({"uvicorn", "pydantic", "mcp"} & set(sys.modules))
"""


def test_the_library_alone_is_a_client_an_agent_and_an_endpoint(library: Installed) -> None:
    done = library.run("python", "-W", "error", "-c", LIBRARY)
    assert (done.returncode, done.stderr) == (0, "")
    said, local, mcp, loaded = done.stdout.splitlines()
    assert (said, loaded) == ("Hello.", "set()")
    assert "pip install 'antiphon[server]'" in local
    assert "pip install 'antiphon[mcp]'" in mcp
