import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from antiphon.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, which is also the working directory, and no settings in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "ANTIPHON_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    # With nothing to discover, `ANTIPHON_SERVER__DISCOVER` need not be among the settings that commands show.
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "__DISCOVER")) or name.startswith(("AWS_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs the command in this process."""

    def runs(*argv: str) -> Result:
        capsys.readouterr()
        code = main(argv)
        return Result(code, *capsys.readouterr())

    return runs
