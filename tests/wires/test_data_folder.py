"""The data folder on each system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from antiphon.wires.data_folder import default_data_folder


def test_the_users_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_data_folder() == tmp_path / ".local" / "share" / "antiphon"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_data_folder() == tmp_path / "Library" / "Application Support" / "antiphon"


def test_xdg_comes_first_when_it_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_data_folder() == tmp_path / "antiphon"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_data_folder().is_absolute()
