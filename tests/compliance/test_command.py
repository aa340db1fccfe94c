"""`antiphon comply` as a command."""

import argparse
import json
import re
import shlex
from pathlib import Path

import pytest

from antiphon.cli import main, parser
from antiphon.compliance.catalog import catalog
from antiphon.compliance.reports.terminal import ProgressLine
from scripts.compliance_page import PAGE
from tests.compliance.two_tenants import KEYS
from tests.providers.fake_server import refusing_address
from tests.server.servers import Serving


def test_a_run_with_every_report_and_a_record(
    gateway: Serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {form: str(tmp_path / f"report.{form}") for form in ("json", "junit", "html")}
    options = [part for form, file in files.items() for part in (f"--{form}", file)]
    code = main(
        [
            "comply",
            f"{gateway.url}/v1/",
            *("--api-key", KEYS["alice"], "--second-key", KEYS["bob"], "--model", "model"),
            *("--only", "official", "--only", "tenant.", "--record", str(tmp_path / "record"), *options),
        ]
    )
    told = capsys.readouterr()
    assert code == 0, told.out
    assert "official: 17 of 17" in told.out
    assert all(Path(file).stat().st_size for file in files.values())
    kept = sorted(path.name for path in (tmp_path / "record").iterdir())
    assert {"basic-response-1.json", "streaming-response-1.sse", "websocket-response-1.jsonl"} <= set(kept)
    assert not any(KEYS["alice"] in path.read_text() for path in (tmp_path / "record").iterdir())
    for name in ("streaming-response-1.sse", "websocket-response-1.jsonl"):
        assert main(["comply", "--capture", str(tmp_path / "record" / name)]) == 0


def test_the_model_is_the_first_that_is_listed(gateway: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["comply", f"{gateway.url}/v1", "--api-key", KEYS["alice"], "--only", "basic-response"]
    assert main([*arguments, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "model"


@pytest.mark.parametrize("path", ["", "/v1/responses"])
def test_an_address_that_ends_too_early_or_too_late_is_understood_and_told(
    gateway: Serving, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    arguments = ["--api-key", KEYS["alice"], "--only", "basic-response"]
    assert main(["comply", gateway.url + path, *arguments]) == 0
    assert f"going on with {gateway.url}/v1" in capsys.readouterr().err


def test_what_cannot_run_is_told_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with refusing_address() as url:
        assert main(["comply", url]) == 2
        assert main(["comply", url, "--model", "m"]) == 2
    assert "does not answer" in capsys.readouterr().err
    assert main(["comply"]) == 2
    assert main(["comply", "ftp://x"]) == 2
    assert main(["comply", "http://127.0.0.1:1/v1", "--only", "no.such.rule"]) == 2
    assert "no.such.rule" in capsys.readouterr().err
    assert main(["comply", "http://127.0.0.1:1/v1", "--timeout", "0"]) == 2


def test_the_rules_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["comply", "--list", "--level", "must"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert listed == {
        rule.id for rule in catalog().values() if rule.level == "MUST" and "2026-04-24" in rule.specs
    }


class Terminal:
    """A terminal as far as the progress needs one."""

    def __init__(self) -> None:
        self.written = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        return


def test_progress_is_one_line_that_goes_away() -> None:
    out = Terminal()
    progress = ProgressLine(2, out)  # type: ignore[arg-type]
    progress.begin("basic-response")
    progress.end("basic-response", "pass")
    progress.close()
    assert "[0/2] ✓0" in out.written
    assert "[1/2] ✓1" in out.written
    assert "\n" not in out.written
    assert out.written.endswith("\r\x1b[K")


def _commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return re.findall(r"^(?:.*\| )?antiphon (.*)$", "\n".join(blocks), re.MULTILINE)


@pytest.mark.parametrize("command", _commands())
def test_the_commands_on_the_page_are_commands(command: str) -> None:
    assert callable(parser().parse_args(shlex.split(command)).run)


def test_the_options_on_the_page_are_the_options_there_are() -> None:
    told = set(re.findall(r"^\| `(--[a-z-]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    told |= {"--junit", "--html", "--capture", "--verbose", "--help"}
    commands = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    given = {option for action in commands.choices["comply"]._actions for option in action.option_strings}
    assert told == given - {"-h"}


def test_the_first_command_of_the_page_judges_a_server(gateway: Serving) -> None:
    first = _commands()[0].replace("http://127.0.0.1:8080", gateway.url)
    options = ["--api-key", KEYS["alice"], "--second-key", KEYS["bob"], "--model", "model"]
    assert main([*shlex.split(first), *options]) == 0
