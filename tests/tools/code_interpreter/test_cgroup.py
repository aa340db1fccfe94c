"""Where a gateway makes the cgroups of its sandboxes, and what it does with them."""

import os
import subprocess
from pathlib import Path

import pytest

from antiphon.tools.code_interpreter import cgroup
from antiphon.tools.code_interpreter.cgroup import Cgroup, find_parent

PARENT = find_parent()
needs_cgroups = pytest.mark.skipif(PARENT is None, reason="no cgroup can be made here")


@pytest.fixture
def second_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of folders as version 2 has them, with the gateway in a cgroup of its unit."""
    (tmp_path / "own").write_text("0::/unit/gateway\n")
    (tmp_path / "tree" / "unit" / "gateway").mkdir(parents=True)
    (tmp_path / "tree" / "cgroup.controllers").touch()
    monkeypatch.setattr(cgroup, "_OWN", tmp_path / "own")
    monkeypatch.setattr(cgroup, "_V2", tmp_path / "tree")
    return tmp_path / "tree" / "unit"


def test_the_cgroup_above_is_used_only_where_it_is_delegated(second_version: Path) -> None:
    assert list(cgroup._candidates()) == [second_version / "gateway"]
    try:
        os.setxattr(second_version, "user.delegate", b"1")
    except OSError:
        pytest.skip("the file system of the test keeps no attributes")
    assert list(cgroup._candidates()) == [second_version / "gateway", second_version]
    assert (second_version / "cgroup.subtree_control").read_text() == "+memory"


def test_a_folder_that_is_no_cgroup_is_not_taken_for_one(second_version: Path) -> None:
    assert find_parent() is None
    assert list((second_version / "gateway").iterdir()) == []


@needs_cgroups
def test_a_process_in_a_cgroup_ends_when_it_takes_more_than_its_limit() -> None:
    assert PARENT is not None
    made = Cgroup(PARENT, 64 << 20)
    try:
        assert not made.was_exceeded()
        command = made.joining(["/usr/bin/env", "python3", "-c", "held = bytes([1]) * 200_000_000"])
        assert subprocess.run(command).returncode != 0
        assert made.was_exceeded()
    finally:
        made.remove()
    assert not made.path.exists()


@needs_cgroups
def test_cgroups_of_gateways_that_are_gone_are_removed() -> None:
    assert PARENT is not None
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    left = PARENT / f"antiphon-{ended.pid}-0"
    left.mkdir()
    mine = Cgroup(PARENT, 64 << 20)
    try:
        assert find_parent() == PARENT
        assert not left.exists()
        assert mine.path.exists()
    finally:
        mine.remove()
