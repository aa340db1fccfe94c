"""A command as the user can type it."""

import sys
from pathlib import Path

import pytest

from antiphon.wires.own_command import own_command


def test_a_command_is_spelled_as_the_shell_can_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/antiphon", "ask"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command("serve") == ".venv/bin/antiphon serve"
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert own_command("serve") == "antiphon serve"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["/usr/lib/python3/site-packages/antiphon/__main__.py"])
    assert own_command("serve") == "antiphon serve"
