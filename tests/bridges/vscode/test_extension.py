"""The example extension: compiled against VS Code's own types, and run against a real gateway."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.javascript import FOLDER, NODE, needs_node, run_alone
from tests.server.endings import Inside
from tests.server.servers import Serving, configure

EXTENSION = Path(__file__).parents[3] / "examples" / "vscode-extension"
SCRIPT = """
[[turns]]
when = { contains = "weather" }
steps = [
  { reasoning = "They want to know the weather in Paris.", chunk = 10 },
  { signature = "proof" },
  { text = "Let me look." },
  { call = "get_weather", arguments = { city = "Paris" }, id = "call_paris" },
]

[[turns]]
when = { last = "function_call_output" }
steps = [ { text = "It has 18 degrees.", chunk = 6 } ]

[[turns]]
when = { contains = "fail" }
steps = [ { text = "Well" }, { error = { code = "model_overloaded", message = "too busy" } } ]

[[turns]]
when = { contains = "slow" }
steps = [ { text = "And so on. ", times = 1000, delay = 0.05 } ]

[[turns]]
when = { contains = "silent" }
steps = [ { text = "Hm" }, { text = "…", delay = 30.0 } ]

[[turns]]
steps = [ { echo = true } ]
"""
TOML = """
[providers.play]
type = "script"
file = "script.toml"

[models]
"play" = "play/any"
"""

pytestmark = needs_node


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension as JavaScript; a mistake in its types fails here."""
    out = tmp_path_factory.mktemp("extension")
    assert NODE is not None
    compiler, types = FOLDER / "node_modules/typescript/bin/tsc", FOLDER / "node_modules/@types"
    command = [NODE, compiler, "-p", EXTENSION, "--outDir", out, "--typeRoots", types]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return out


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    config = configure(tmp_path / "server", TOML)
    (tmp_path / "server" / "script.toml").write_text(SCRIPT, encoding="utf-8")
    with Serving(config) as serving:
        yield serving


def said(role: int, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "value": value}


def chat(compiled: Path, server: Serving, *messages: dict[str, Any], **options: Any) -> Any:
    settings = {"url": server.url, **options.pop("settings", {})}
    wish = {"messages": messages, "toolMode": 1, **options}
    return run_alone("vscode.cjs", str(compiled), settings, {"chat": wish})


def texts(result: Any) -> str:
    return "".join(part["value"] for part in result["parts"] if part["type"] == "text")


def test_the_manifest_and_the_code_agree() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    source = (EXTENSION / "src/extension.ts").read_text()
    [provider] = manifest["contributes"]["languageModelChatProviders"]
    assert f'registerLanguageModelChatProvider("{provider["vendor"]}"' in source
    [command] = manifest["contributes"]["commands"]
    assert f'registerCommand("{command["command"]}"' in source
    for name in manifest["contributes"]["configuration"]["properties"]:
        assert (
            f'("{name.removeprefix("antiphon.")}"' in source
            or f'"{name.removeprefix("antiphon.")}",' in source
        )
    lock = json.loads((EXTENSION / "package-lock.json").read_text())
    assert not any("resolved" in package for package in lock["packages"].values())
    assert manifest["engines"]["vscode"] == f"^{manifest['devDependencies']['@types/vscode']}"


def test_the_models_of_the_gateway_are_listed(compiled: Path, server: Serving) -> None:
    result = run_alone("vscode.cjs", str(compiled), {"url": server.url}, {})
    model = result["models"][0]
    assert (model["id"], model["name"], model["family"]) == ("play", "play", "play")
    assert model["capabilities"] == {"imageInput": True, "toolCalling": True}
    assert model["maxInputTokens"] > 0
    assert result["counted"] == 4  # three words of 13 characters, estimated


def test_a_gateway_that_is_not_there_is_reported(compiled: Path) -> None:
    result = run_alone("vscode.cjs", str(compiled), {"url": "http://127.0.0.1:1"}, {})
    assert result["models"] == []
    assert "Antiphon at http://127.0.0.1:1" in result["shown"][0]


def test_a_whole_chat_with_a_tool(compiled: Path, server: Serving) -> None:
    tool = {"name": "get_weather", "description": "The weather of a city", "inputSchema": {"type": "object"}}
    question = said(1, text("What is the weather in Paris?"))
    first = chat(compiled, server, question, tools=[tool])
    kinds = [part["type"] for part in first["parts"]]
    assert kinds == ["thinking"] * 3 + ["text", "toolCall", "data"]
    assert "".join(part["value"] for part in first["parts"][:3]) == "They want to know the weather in Paris."
    call = first["parts"][4]
    assert call == {
        "type": "toolCall",
        "callId": "call_paris",
        "name": "get_weather",
        "input": {"city": "Paris"},
    }
    assert first["parts"][5]["mimeType"] == "stateful_marker"

    answer = said(2, *first["parts"])
    result = said(1, {"type": "toolResult", "callId": "call_paris", "content": [text("18 degrees")]})
    second = chat(compiled, server, question, answer, result, tools=[tool])
    assert texts(second) == "It has 18 degrees."


def test_data_and_prompt_elements_reach_the_model(compiled: Path, server: Serving) -> None:
    note = {"type": "data", "mimeType": "text/plain", "data": "4piD"}
    assert texts(chat(compiled, server, said(1, note))) == "☃"


def test_an_error_in_the_middle_is_thrown(compiled: Path, server: Serving) -> None:
    result = chat(compiled, server, said(1, text("fail")))
    assert texts(result) == "Well"
    assert result["error"]["message"] == "too busy"


def test_an_error_before_the_answer_is_thrown_with_its_place(compiled: Path, server: Serving) -> None:
    orphan = {"type": "toolResult", "callId": "nobody", "content": []}
    error = chat(compiled, server, said(1, orphan))["error"]
    assert "messages[0].content[0].callId" in error["message"]


def test_who_cancels_hears_no_error_and_ends_the_run(compiled: Path, server: Serving) -> None:
    inside = Inside(server)
    result = chat(compiled, server, said(1, text("slow")), cancelAfter=2)
    assert texts(result) == "And so on. And so on. "
    assert "error" not in result
    inside.until_nothing_is_left()


def test_a_model_that_falls_silent_is_given_up(compiled: Path, server: Serving) -> None:
    inside = Inside(server)
    settings = {"inactivityTimeout": 0.3}
    result = chat(compiled, server, said(1, text("silent")), settings=settings)
    assert texts(result) == "Hm"
    assert result["error"]["message"] == "the model has been silent for 0.3 seconds"
    inside.until_nothing_is_left()
    assert (
        '"antiphon.inactivityTimeout": {\n          "type": "number",\n          "default": 120'
        in (EXTENSION / "package.json").read_text()
    )
