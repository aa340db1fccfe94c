"""The pages of the providers: their examples load, and the table is the one that the code makes."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest

from antiphon.config import ProviderSettings, load
from antiphon.providers.presets import PRESETS
from antiphon.providers.registry import TYPES
from scripts import provider_pages
from tests.providers.fake_server import FakeServer, Received, Wire

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "providers"
OWN = ROOT / "examples" / "providers" / "antiphon_plain.py"


def examples(page: Path) -> list[str]:
    """The configurations on a page; there may be other TOML."""
    found = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [text for text in found if "[providers." in text]


@pytest.mark.parametrize("page", sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README"))
def test_the_configurations_of_a_page_load(page: str, tmp_path: Path) -> None:
    found = examples(PAGES / f"{page}.md")
    assert found, "a page shows how the provider is configured"
    for text in found:
        file = tmp_path / "antiphon.toml"
        file.write_text(text)
        secrets = dict.fromkeys(re.findall(r'_env = "(\w+)"', text), "secret")
        config = load(
            file, environ={"HOME": str(tmp_path), **secrets}, types={**TYPES, "plain": ProviderSettings}
        )
        assert config.providers.keys() - {"local"}


def test_the_table_is_fresh() -> None:
    committed = (PAGES / "README.md").read_text()
    assert committed == provider_pages.page(), "run: python -m scripts.provider_pages"


def test_the_table_has_every_type() -> None:
    rows = {name.partition(",")[0] for name in provider_pages.capabilities()}
    presets = set(re.findall(r"^\| `(\w+)` \|", provider_pages.page(), re.MULTILINE))
    assert presets == set(PRESETS)
    assert rows | presets == set(TYPES)


def test_every_page_is_linked_from_the_table() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", provider_pages.page()))
    assert linked == {page.name for page in PAGES.glob("*.md") if page.name != "README.md"}


# --- a provider of somebody else --------------------------------------------------------------------------

RUN = """
import asyncio, json, sys
from pathlib import Path
from antiphon.config import load
from antiphon.providers.base import Environment, Turn
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import TYPES, create_provider
from antiphon.spec.decode import decode_request

class Collected:
    def __init__(self):
        self.deltas = []

    def accepted(self):
        assert self.deltas == []

    def put(self, deltas):
        self.deltas += deltas
        return True

async def main() -> None:
    config = load("antiphon.toml", environ={}, types=TYPES)
    http = UpstreamClient()
    environment = Environment(http=http, timeouts=config.timeouts, local=config.local, folder=Path())
    provider = create_provider(config.providers["mine"], environment)
    request = decode_request(sys.stdin.buffer.read())
    turn = Turn(model="plain-1", request=request, items=list(request.input), tools=request.tools)
    sink = Collected()
    await provider.answer(turn, sink)
    told = [[type(delta).__name__, getattr(delta, "text", None)] for delta in sink.deltas]
    receipts = [receipt.param for receipt in turn.receipts]
    print(json.dumps({"deltas": told, "receipts": receipts, "models": await provider.models()}))
    await provider.close()
    await http.close()

asyncio.run(main())
"""


class PlainServer(FakeServer):
    """Answers with text. What it gets is no JSON, so the words are kept as they came."""

    def reply(self, received: Received) -> Wire:
        answer = ["Grüße, ".encode(), "世".encode()[:2], "世".encode()[2:] + b"!"]
        return Wire(answer, headers={"content-type": "text/plain; charset=utf-8"})


def test_the_page_shows_the_example_as_it_is() -> None:
    code = OWN.read_text()
    assert f"```python\n{code}```" in (PAGES / "your-own.md").read_text()
    assert len(code.splitlines()) < 80


async def test_a_provider_of_somebody_else_is_found_and_runs(tmp_path: Path) -> None:
    """Through a real entry point: a distribution on the path, as an installer leaves it."""
    page = (PAGES / "your-own.md").read_text()
    [(group, points)] = re.findall(r'\[project\.entry-points\."(.*?)"\]\n(.*?)```', page, re.DOTALL)
    (tmp_path / OWN.name).write_text(OWN.read_text())
    installed = tmp_path / "antiphon_plain-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: antiphon-plain\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\n{points.replace(chr(34), '')}")
    [example] = examples(PAGES / "your-own.md")
    request = {
        "model": "mine",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}],
        "tools": [{"type": "function", "name": "f"}],
    }
    async with PlainServer() as upstream:
        (tmp_path / "antiphon.toml").write_text(example.replace("http://127.0.0.1:9000", upstream.base_url))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            RUN,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, errors = await process.communicate(json.dumps(request).encode())
    assert process.returncode == 0, errors.decode()
    told = json.loads(out)
    assert (told["receipts"], told["models"]) == (["tools[0]"], ["plain-1"])
    *words, last = told["deltas"]
    assert {kind for kind, _ in words} == {"TextDelta"}
    assert "".join(text for _, text in words) == "Grüße, 世!"
    assert last == ["Finish", None]
    [received] = upstream.requests
    assert received.path == "/v2/complete"
    assert received.raw.decode() == "system: Be brief.\nuser: Hi\nassistant: Yes?"
