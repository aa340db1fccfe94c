"""`antiphon setup codex --prove` with a small client that really asks the gateway, calls and writes."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Result
from tests.server.servers import Serving, configure

Run = Callable[..., Result]

# Takes the options that Codex is given; keeps its history in its home, and shortens it when it is told to.
CLIENT = f"""#!{sys.executable}
import json, os, sys, tempfile, tomllib, urllib.request

options = [sys.argv[n + 1] for n, word in enumerate(sys.argv[:-1]) if word == "-c"]
told = {{}}
for option in options:
    name, _, value = option.partition("=")
    told[name] = tomllib.loads("x = " + value)["x"]
url = told["model_providers.antiphon"]["base_url"]
kept = os.path.join(os.environ["HOME"], "history.json")
# As Codex does, whose sandbox then does not start.
if os.environ["CODEX_HOME"].startswith(tempfile.gettempdir() + os.sep):
    sys.exit("refusing to work from a home in the temporary folder")
history = json.load(open(kept)) if "resume" in sys.argv else []


def ask(items):
    tool = {{"type": "function", "name": "write", "parameters": {{"type": "object"}}}}
    body = {{"model": told["model"], "input": items, "tools": [tool], "store": False, "service_tier": "flex"}}
    headers = {{"content-type": "application/json"}}
    request = urllib.request.Request(url + "/responses", json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))["output"]


def message(text):
    return {{"type": "message", "role": "user", "content": text}}


if "model_auto_compact_token_limit" in told and HOW:
    said = [n for n, item in enumerate(history) if item.get("role") == "user"]
    newest = history[said[-1]:] if HOW == "but for its newest turn" else []
    history = [message(ask([*history, message("Summarise.")])[-1]["content"][0]["text"]), *newest]
prompt = next(word for word in sys.argv[2:] if " " in word and "=" not in word)
history.append(message(prompt))
while True:
    output = ask(history)
    history += output
    calls = [item for item in output if item["type"] == "function_call"]
    for call in calls:
        open("proof.txt", "w").write(json.loads(call["arguments"])["text"])
        history.append({{"type": "function_call_output", "call_id": call["call_id"], "output": "written"}})
    if not calls:
        break
json.dump(history, open(kept, "w"))
"""

SCRIPT = """
[[turns]]
when = { contains = "Create the file proof.txt" }
steps = [ { call = "write", arguments = { text = "alpha" } } ]
[[turns]]
when = { contains = "word beta" }
steps = [ { call = "write", arguments = { text = "beta" } } ]
[[turns]]
steps = [ { text = "That is done." }, { usage = { input_tokens = 5000, output_tokens = 5 } } ]
"""


def client(folder: Path, monkeypatch: pytest.MonkeyPatch, compacts: str) -> None:
    programs = folder / "programs"
    programs.mkdir()
    (programs / "codex").write_text(CLIENT.replace("HOW", repr(compacts)))
    (programs / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))


@pytest.mark.parametrize("compacts", ["everything", "but for its newest turn", ""])
def test_what_a_client_does_is_judged_by_what_passed(
    run: Run, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compacts: str
) -> None:
    client(place, monkeypatch, compacts)
    folder = tmp_path / "gateway"
    folder.mkdir()
    (folder / "script.toml").write_text(SCRIPT)
    config = '[providers.demo]\ntype = "script"\nfile = "script.toml"\n[models]\ndemo = "demo/one"\n'
    with Serving(configure(folder, config)) as server:
        result = run("setup", "codex", "--prove", "--url", server.url)
    lines = result.out.splitlines()
    assert [line[:4].strip() for line in lines[1:6]] == ["yes"] * 4 + ["yes" if compacts else "NO"]
    assert result.code == (0 if compacts else 1)
    assert "proof.txt: 'beta'" in result.out
    assert not list((place / ".local/share/antiphon/setup").iterdir())


def test_a_model_that_calls_nothing(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client(place, monkeypatch, "everything")
    result = run("setup", "codex", "--prove")  # the model of this gateway says what it was told
    assert result.code == 1
    assert "NO   tool call" in result.out
    assert "NO   file edit" in result.out
