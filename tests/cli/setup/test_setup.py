"""`antiphon setup` on real files: what is written, and that undoing it is the identity."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.cli import main
from tests.cli.conftest import Result
from tests.cli.setup.test_edits import json_files, toml_files

Run = Callable[..., Result]

FILES = {
    "codex": ".codex/config.toml",
    "claude": ".claude/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "vscode": ".config/Code/User/chatLanguageModels.json",
}
OLD = {
    "codex": '# mine\nmodel = "gpt-5.5" # for work\n\n[mcp_servers.docs]\ncommand = "x"\n',
    "claude": '{\n    "permissions": {"allow": ["Bash(ls:*)"]},\n    "env": {"EDITOR": "vi"}\n}',
    "opencode": '{\r\n  // mine\r\n  "theme": "dark",\r\n  "provider": { "x": {} }, // last\r\n}\r\n',
    "vscode": '[\n\t{ "name": "Other", "vendor": "customendpoint", "models": [] }\n]\n',
}


def parsed(client: str, text: str) -> Any:
    from antiphon.cli.setup import json_text

    return tomllib.loads(text) if client == "codex" else json_text.parse(text)


@pytest.mark.parametrize("client", FILES)
def test_a_file_that_was_not_there(run: Run, place: Path, gateway: str, client: str) -> None:
    file = place / FILES[client]
    result = run("setup", client)
    assert result.code == 0, result.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert gateway in file.read_text()
    assert "demo" in file.read_text()
    assert f"+++ {file}" in result.out
    assert run("setup", client, "--undo").out == f"removed {file}, which was not there before\n"
    assert not file.parent.exists()


@pytest.mark.parametrize("client", FILES)
def test_what_is_in_a_file_stays_and_comes_back(run: Run, place: Path, client: str) -> None:
    file = place / FILES[client]
    file.parent.mkdir(parents=True)
    file.write_bytes(OLD[client].encode())
    file.chmod(0o640)
    result = run("setup", client)
    assert result.code == 0, result.err
    new = file.read_bytes().decode()
    assert file.stat().st_mode & 0o777 == 0o640
    for line in OLD[client].splitlines():
        comment = line.partition("//")[2] or line.partition("#")[2]
        assert comment in new
    backup = Path(result.out.partition("it is in ")[2].splitlines()[0])
    assert (backup.read_bytes().decode(), backup.stat().st_mode & 0o777) == (OLD[client], 0o640)
    assert run("setup", client).out == f"nothing to change: {file} has it already\n"
    assert file.read_bytes().decode() == new
    assert run("setup", client, "--undo").out == f"{file} is as it was before, byte for byte\n"
    assert (file.read_bytes().decode(), file.stat().st_mode & 0o777) == (OLD[client], 0o640)
    assert not backup.exists()
    again = run("setup", client, "--undo")
    assert (again.code, "nothing to undo" in again.err) == (1, True)


@pytest.mark.parametrize("text", ["null", "5", '"x"', "{}", "// mine\ntrue\n"])
def test_a_file_that_should_be_a_list_and_is_none(run: Run, place: Path, text: str) -> None:
    """`null` and `5` were an unexpected TypeError."""
    file = place / FILES["vscode"]
    file.parent.mkdir(parents=True)
    file.write_text(text)
    result = run("setup", "vscode")
    assert result.code == 1
    assert result.err.startswith(f"antiphon: {file} cannot be changed: the file is no list; nothing was")
    assert file.read_text() == text


@pytest.mark.parametrize("client", FILES)
def test_a_file_that_was_changed_since(run: Run, place: Path, client: str) -> None:
    file = place / FILES[client]
    file.parent.mkdir(parents=True)
    file.write_bytes(OLD[client].encode())
    run("setup", client)
    mark = "# later\n" if client == "codex" else "// later\n"
    file.write_bytes(mark.encode() + file.read_bytes())
    result = run("setup", client, "--undo")
    assert "was changed since: what this command wrote was taken out" in result.out
    text = file.read_bytes().decode()
    assert text.startswith(mark)
    assert parsed(client, text) == parsed(client, OLD[client])


def test_another_set_up_begins_at_what_was_there_before_the_first(run: Run, place: Path) -> None:
    file = place / FILES["codex"]
    file.parent.mkdir(parents=True)
    file.write_text(OLD["codex"])
    run("setup", "codex", "--model", "demo")
    run("setup", "codex", "--model", "other")
    assert tomllib.loads(file.read_text())["model"] == "other"
    run("setup", "codex", "--undo")
    assert file.read_text() == OLD["codex"]


@pytest.mark.parametrize(
    ("client", "files"), [("codex", toml_files()), ("claude", json_files()), ("opencode", json_files())]
)
def test_set_up_then_undo_is_the_identity(
    run: Run, place: Path, client: str, files: st.SearchStrategy[str]
) -> None:
    file = place / FILES[client]
    file.parent.mkdir(parents=True)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(files, st.sampled_from(["", "\ufeff"]))
    def check(text: str, mark: str) -> None:
        before = (mark + text).encode()
        file.write_bytes(before)
        written = main(["setup", client]) == 0 and file.read_bytes() != before
        if written:
            assert main(["setup", client]) == 0
            assert main(["setup", client, "--undo"]) == 0
        assert file.read_bytes() == before

    check()


def test_codex_gets_its_models_with_their_windows(run: Run, place: Path, gateway: str) -> None:
    run("setup", "codex")
    written = tomllib.loads((place / FILES["codex"]).read_text())
    provider = written["model_providers"]["antiphon"]
    assert (written["model"], written["model_provider"]) == ("demo", "antiphon")
    assert (provider["base_url"], provider["wire_api"]) == (f"{gateway}/v1", "responses")
    assert provider["auth"]["args"][-1] == "token"
    assert (written["analytics"]["enabled"], written["features"]["plugins"]) == (False, False)
    catalogue = Path(written["model_catalog_json"])
    assert catalogue.is_absolute()
    models = {one["slug"]: one for one in json.loads(catalogue.read_bytes())["models"]}
    assert models["demo"]["context_window"] == 150000
    run("setup", "codex", "--undo")
    assert not catalogue.exists()


def test_claude_code_gets_its_window_and_no_key(run: Run, place: Path, gateway: str) -> None:
    run("setup", "claude", "--model", "demo", "--model", "other")
    written = json.loads((place / FILES["claude"]).read_text())
    assert written["apiKeyHelper"].endswith("token")
    assert written["env"] == {
        "ANTHROPIC_BASE_URL": gateway,
        "ANTHROPIC_MODEL": "demo",
        "ANTHROPIC_DEFAULT_OPUS_MODEL": "demo",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": "demo",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "other",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "150000",
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "150000",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "9000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def test_codex_is_told_of_a_window_that_nobody_knows(run: Run, place: Path) -> None:
    """Codex never shortens its history then, and nothing was said."""
    out = run("setup", "codex", "--model", "other").out
    assert "the window of other is unknown, so Codex never shortens its history by itself" in out
    assert '\n    [catalogue."demo/two"]\n    context_window = 131072' in out
    assert "is unknown" not in run("setup", "codex").out


def test_a_small_model_is_used_only_where_one_is_named(run: Run, place: Path) -> None:
    run("setup", "claude")  # the second model of the gateway's list may be anything
    variables = json.loads((place / FILES["claude"]).read_text())["env"]
    assert variables["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == variables["ANTHROPIC_MODEL"] == "demo"


@pytest.mark.parametrize("client", ["codex", "claude", "opencode", "vscode", "zed"])
def test_a_model_that_does_not_exist_is_refused(run: Run, place: Path, gateway: str, client: str) -> None:
    """It was written into the file, and every request of the client failed."""
    result = run("setup", client, "--model", "demmo")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"antiphon: the gateway on {gateway}/v1 has no model 'demmo': ")
    assert "demo" in result.err.partition("'demmo': ")[2]
    assert list(place.iterdir()) == []


def test_a_model_that_is_not_listed_may_be_named(run: Run, place: Path) -> None:
    result = run("setup", "codex", "--model", "demo/more")
    assert (result.code, result.err) == (0, "antiphon: the gateway does not list the model 'demo/more'\n")


def test_opencode_has_nothing_to_add_to_its_file(run: Run, place: Path) -> None:
    """It writes `$schema` into a file without one, so that what was there did not come back byte for byte."""
    file = place / FILES["opencode"]
    run("setup", "opencode")
    assert json.loads(file.read_text())["$schema"] == "https://opencode.ai/config.json"
    run("setup", "opencode", "--undo")
    file.parent.mkdir(parents=True)
    file.write_text('{"$schema": "https://example.com/mine.json",}')
    run("setup", "opencode")
    assert file.read_text().startswith('{"$schema": "https://example.com/mine.json", "model":')
    assert file.read_text().endswith(",}")


def test_opencode_and_vscode_get_limits(run: Run, place: Path, gateway: str) -> None:
    run("setup", "opencode")
    run("setup", "vscode")
    provider = json.loads((place / FILES["opencode"]).read_text())["provider"]["antiphon"]
    assert provider["models"]["demo"]["limit"] == {"context": 150000, "output": 9000}
    assert provider["options"] == {"baseURL": f"{gateway}/v1", "apiKey": "no-key"}
    group = json.loads((place / FILES["vscode"]).read_text())[0]
    assert (group["vendor"], group["apiType"], group["apiKey"]) == (
        "customendpoint",
        "responses",
        "${input:antiphon-key}",
    )
    first = group["models"][0]
    assert (first["url"], first["vision"]) == (f"{gateway}/v1/responses", True)
    assert (first["maxInputTokens"], first["maxOutputTokens"]) == (141000, 9000)


def test_the_key_is_written_only_when_asked_for(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEY", "sk-the-key")
    for client in FILES:
        assert "sk-the-key" not in run("setup", client).out
        assert "sk-the-key" not in (place / FILES[client]).read_text()
        result = run("setup", client, "--plain-key")
        assert "sk-the-key" in (place / FILES[client]).read_text()
        assert "sk-the-key" not in result.out
    assert "{env:ANTIPHON_API_KEY}" in run("setup", "opencode", "--profile", "p").out


def test_keys_of_others_are_not_shown(run: Run, place: Path) -> None:
    file = place / FILES["claude"]
    file.parent.mkdir(parents=True)
    file.write_text('{\n  "env": {\n    "OTHER_API_KEY": "sk-secret",\n    "ANTHROPIC_MODEL": "x"\n  }\n}\n')
    result = run("setup", "claude")
    assert result.code == 0
    assert "sk-secret" not in result.out + result.err


SECRET_FILES = {
    "last in env": ("claude", '{\n  "env": {\n    "ANTHROPIC_AUTH_TOKEN": "SECRETOLD"\n  }\n}\n'),
    "one line": ("claude", '{"env": {"ANTHROPIC_AUTH_TOKEN": "SECRETOLD"}}'),
    "value below": ("claude", '{"env": {"ANTHROPIC_AUTH_TOKEN":\n"SECRETOLD"}}'),
    "escaped": ("claude", '{"env": {"ANTHROPIC_AUTH_TOKEN": "a\\"SECRETOLD"}}'),
    "comment": ("claude", '{"env": {"EDITOR": "vi" /* "apiKey": "SECRETOLD" */}}'),
    "header": ("claude", '{"x": {"headers": {"X-Own": "SECRETOLD"}}}'),
    "argument": ("claude", '{"x": {"args": ["--api-key", "SECRETOLD", "--token=SECRETOLD"]}}'),
    "opencode": ("opencode", '{"provider": {"x": {"options": {"apiKey": "SECRETOLD"}}}}'),
    "vscode": ("vscode", '[{"name": "Other", "vendor": "x", "apiKey": "SECRETOLD", "models": []}]'),
    "codex": ("codex", 'x = {api_key = "SECRETOLD"}\ntoken = """\nSECRETOLD\nSECRETOLD"""'),
}


@pytest.mark.parametrize("case", SECRET_FILES)
def test_a_secret_whose_own_line_changes_is_not_shown(run: Run, place: Path, case: str) -> None:
    """The lines that were to be written had it in clear."""
    client, text = SECRET_FILES[case]
    file = place / FILES[client]
    file.parent.mkdir(parents=True)
    file.write_text(text)
    printed, written = run("setup", client, "--print"), run("setup", client)
    assert (printed.code, written.code) == (0, 0), written.err
    for result in (printed, written):
        assert "SECRETOLD" not in result.out + result.err
        assert "+" in result.out
    assert "***" in printed.out
    assert file.read_text().count("SECRETOLD") == text.count("SECRETOLD")


def test_what_is_wrong_with_a_file_is_told_without_its_values(run: Run, place: Path) -> None:
    """A value that is none was quoted."""
    file = place / FILES["claude"]
    file.parent.mkdir(parents=True)
    for value in ('"SECRETOLD\\x"', "123SECRETOLD"):
        file.write_text(f'{{"env": {{"ANTHROPIC_AUTH_TOKEN": {value}}}}}')
        result = run("setup", "claude")
        assert (result.code, "SECRETOLD" in result.out + result.err) == (1, False)
        assert "line 1: what stands here is no value" in result.err


def test_a_key_in_the_settings_of_claude_code_is_warned_of(run: Run, place: Path) -> None:
    """It would go to the gateway, and nothing was said."""
    file = place / FILES["claude"]
    file.parent.mkdir(parents=True)
    text = '{"env": {"ANTHROPIC_AUTH_TOKEN": "SECRETOLD", "ANTHROPIC_API_KEY": ""}}'
    file.write_text(text)
    said = f"{file} sets env.ANTHROPIC_AUTH_TOKEN: Claude Code would send it to the gateway"
    for scope in ([], ["--project"], ["--profile", "p"]):
        for more in (["--print"], [], []):
            result = run("setup", "claude", *scope, *more)
            assert (result.code, result.out.count(said)) == (0, 1)
            assert "env.ANTHROPIC_API_KEY" not in result.out
            assert "SECRETOLD" not in result.out + result.err
    run("setup", "claude", "--undo")
    assert file.read_text() == text


def test_the_key_that_the_set_up_writes_is_not_warned_of(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEY", "sk-the-key")
    file = place / FILES["claude"]
    file.parent.mkdir(parents=True)
    file.write_text('{"env": {"ANTHROPIC_AUTH_TOKEN": "x", "ANTHROPIC_API_KEY": "y"}}')
    out = run("setup", "claude", "--plain-key").out
    assert ("env.ANTHROPIC_AUTH_TOKEN" in out, "env.ANTHROPIC_API_KEY" in out) == (False, True)


def test_a_profile_and_a_project_have_files_of_their_own(run: Run, place: Path) -> None:
    assert "codex --profile work" in run("setup", "codex", "--profile", "work").out
    assert (place / ".codex/work.config.toml").exists()
    run("setup", "claude", "--project")
    assert (place / ".claude/settings.local.json").exists()
    run("setup", "opencode", "--project")
    assert (place / "opencode.json").exists()
    for client in FILES:
        assert not (place / FILES[client]).exists()
    assert "takes no provider from a project" in run("setup", "codex", "--project").err
    assert run("setup", "codex", "--profile", "../x").code == 2
    run("setup", "codex")
    run("setup", "codex", "--profile", "work", "--undo")
    assert Path(tomllib.loads((place / FILES["codex"]).read_text())["model_catalog_json"]).exists()


def test_print_writes_nothing(run: Run, place: Path) -> None:
    before = sorted(place.rglob("*"))
    result = run("setup", "codex", "--print")
    assert '+model_provider = "antiphon"' in result.out
    assert sorted(place.rglob("*")) == before


def test_a_link_stays_a_link(run: Run, place: Path) -> None:
    real = place / "dotfiles" / "codex.toml"
    real.parent.mkdir()
    real.write_text(OLD["codex"])
    link = place / FILES["codex"]
    link.parent.mkdir()
    link.symlink_to(real)
    assert f"which is {real}" in run("setup", "codex").out
    assert link.is_symlink()
    assert "antiphon" in real.read_text()
    run("setup", "codex", "--undo")
    assert (link.is_symlink(), real.read_text()) == (True, OLD["codex"])


def test_a_link_that_leads_to_itself(run: Run, place: Path) -> None:
    (place / ".codex").mkdir()
    (place / FILES["codex"]).symlink_to(place / FILES["codex"])
    result = run("setup", "codex")
    assert (result.code, result.out) == (1, "")


def test_a_file_that_is_read_only(run: Run, place: Path) -> None:
    file = place / FILES["claude"]
    file.parent.mkdir()
    file.write_text("{}")
    file.chmod(0o444)
    result = run("setup", "claude")
    assert (result.code, file.read_text()) == (1, "{}")
    assert "is read-only; nothing was written" in result.err
    assert run("setup", "claude", "--print").code == 0


@pytest.mark.parametrize(
    ("client", "text", "said"),
    [
        ("codex", "model = ", "cannot be changed: "),
        ("claude", '{"env": {', "cannot be changed: line 1"),
        ("claude", '{"env": []}', "cannot be changed"),
        (
            "opencode",
            '{"provider": {"antiphon": {}}}',
            "has provider.antiphon already, which this command did not",
        ),
        ("codex", "[model_providers.antiphon]\nname = 'x'\n", "has model_providers.antiphon already"),
        ("vscode", "{}", "cannot be changed"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone(
    run: Run, place: Path, client: str, text: str, said: str
) -> None:
    file = place / FILES[client]
    file.parent.mkdir(parents=True)
    file.write_text(text)
    result = run("setup", client)
    assert (result.code, file.read_text()) == (1, text)
    assert said in result.err


def test_bytes_that_are_no_text_and_a_folder_in_the_way(run: Run, place: Path) -> None:
    file = place / FILES["claude"]
    file.parent.mkdir()
    file.write_bytes(b"\xff\xfe{}")
    assert "is not UTF-8 text" in run("setup", "claude").err
    (place / FILES["codex"]).mkdir(parents=True)
    assert "cannot read" in run("setup", "codex").err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_where_nothing_can_be_made(run: Run, place: Path) -> None:
    (place / ".codex").mkdir(mode=0o500)
    assert "cannot write" in run("setup", "codex").err


def test_without_a_gateway(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_BASE_URL", "http://127.0.0.1:9/v1")
    result = run("setup", "codex")
    assert (result.code, result.out) == (1, "")
    assert "no gateway answers on http://127.0.0.1:9/v1" in result.err
    assert "start it with `antiphon serve`" in result.err
    result = run("setup", "codex", "--model", "some/model")
    assert result.code == 0
    assert "the context window of the model is unknown" in result.err
    assert run("setup", "codex", "--url", "nonsense").code == 2


@pytest.mark.parametrize("client", ["zed", "goose", "cline", "continue"])
def test_steps_have_everything_filled_in(run: Run, place: Path, gateway: str, client: str) -> None:
    result = run("setup", client)
    assert result.code == 0
    assert gateway in result.out
    assert "demo" in result.out
    assert "150000" in result.out
    assert "token" in result.out
    assert list(place.iterdir()) == []
    assert run("setup", client, "--undo").code == 2


def test_proving_needs_the_client_and_the_gateway(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place))
    assert "get it with: npm install -g @openai/codex" in run("setup", "codex", "--prove").err
    assert "cannot be driven from here" in run("setup", "vscode", "--prove").err


def test_the_page_names_every_client_and_option() -> None:
    from antiphon.cli import parser
    from antiphon.cli.setup import CLIENTS

    page = (Path(__file__).parents[3] / "docs" / "coding-agents.md").read_text(encoding="utf-8")
    commands = next(action for action in parser()._actions if action.metavar == "COMMAND")
    assert isinstance(commands.choices, dict)
    options = commands.choices["setup"]._option_string_actions
    for name in (*CLIENTS, *(option for option in options if option.startswith("--") and option != "--help")):
        assert f"`{name}" in page or f"setup {name}" in page, name


@pytest.mark.parametrize(
    "url", ["http://[::1/v1", "http://127.0.0.1:99999/v1", "http://me:secret@h/v1", "ftp://h"]
)
def test_an_address_that_is_none(run: Run, place: Path, url: str) -> None:
    for command in (["setup", "codex", "--model", "m"], ["setup", "zed", "--model", "m"]):
        result = run(*command, "--url", url)
        assert result.code == 2
        assert "is not the address of a gateway; expected one such as" in result.err
        assert "secret" not in result.err
