"""Containers: whose they are, how many there may be, and when they go."""

from pathlib import Path

import pytest

from antiphon.tools.base import ToolFailure
from antiphon.tools.code_interpreter.containers import Containers, can_keep, file_id, files_by_id


@pytest.fixture
def containers(tmp_path: Path) -> Containers:
    return Containers(tmp_path, idle=100, most=2, disk=1000)


def test_a_container_is_found_by_its_tenant_alone(containers: Containers) -> None:
    id = containers.new("alice", 1000)
    assert containers.find("alice", id) is not None
    assert containers.find("bob", id) is None


@pytest.mark.parametrize("id", ["", "cntr_", "cntr_../x", "../cntr_1", "cntr_a/b", "resp_1"])
def test_a_name_that_is_none_is_not_looked_for(containers: Containers, id: str) -> None:
    assert containers.find("alice", id) is None


def test_what_nobody_uses_goes(containers: Containers) -> None:
    id = containers.new("alice", 1000)
    containers.prune(1099)
    assert containers.find("alice", id) is not None
    containers.prune(1101)
    assert containers.find("alice", id) is None


def test_what_is_used_stays(containers: Containers) -> None:
    id = containers.new("alice", 1000)
    path = containers.find("alice", id)
    assert path is not None
    with containers.used(path, 1000):
        containers.prune(5000)
        assert containers.find("alice", id) is not None
    containers.prune(5000)
    assert containers.find("alice", id) is None


def test_one_more_than_there_may_be_takes_the_place_of_the_oldest(containers: Containers) -> None:
    first, second = containers.new("alice", 1000), containers.new("alice", 1001)
    other = containers.new("bob", 1000)
    third = containers.new("alice", 1002)
    assert [containers.find("alice", id) is not None for id in (first, second, third)] == [False, True, True]
    assert containers.find("bob", other) is not None


def test_with_all_of_them_at_work_there_is_no_other(containers: Containers) -> None:
    paths = [containers.find("alice", containers.new("alice", 1000)) for _ in range(2)]
    with (
        containers.used(paths[0] or Path(), 1000),
        containers.used(paths[1] or Path(), 1000),
        pytest.raises(ToolFailure, match="all 2 containers"),
    ):
        containers.new("alice", 1001)
    containers.new("alice", 1002)


def keep(containers: Containers, path: Path, files: dict[str, bytes], now: float) -> list[str]:
    with containers.staging_folder(path) as folder:
        staged = {name: folder / str(number) for number, name in enumerate(files)}
        for name, data in files.items():
            staged[name].write_bytes(data)
        return containers.keep(path, staged, now)


def test_files_are_kept_under_any_name(containers: Containers, tmp_path: Path) -> None:
    path = containers.find("alice", containers.new("alice", 1000))
    assert path is not None
    assert keep(containers, path, {"a/b.txt": b"1", "ä %.txt": b"2"}, 1001) == ["a/b.txt", "ä %.txt"]
    assert keep(containers, path, {"a/b.txt": b"1", "ä %.txt": b"3"}, 1002) == ["ä %.txt"]
    assert keep(containers, path, {"ä %.txt": b"3"}, 1003) == []
    containers.remove()
    assert list(path.parent.iterdir()) == [path]
    assert {id: file.read_bytes() for id, file in files_by_id(path).items()} == {file_id("ä %.txt"): b"3"}


@pytest.mark.parametrize("name", ["", ".", "a/../b", "/a", "a/", "\udce9", "ä" * 100])
def test_a_name_that_could_do_harm_is_not_kept(name: str) -> None:
    assert not can_keep(name)


def test_files_that_do_not_fit_beside_those_of_a_container_are_refused(
    containers: Containers, tmp_path: Path
) -> None:
    """A file of each turn filled a container of 64 MiB with 361 MB, and no code ran in it any more."""
    path = containers.find("alice", containers.new("alice", 1000))
    assert path is not None
    source = tmp_path / "source"
    source.write_bytes(bytes(400))
    containers.put(path, [("a", source), ("b", source)])
    containers.put(path, [("b", source), ("gone", tmp_path / "gone")])
    with pytest.raises(ToolFailure, match="may hold 1,000 bytes"):
        containers.put(path, [("c", source)])
    assert {file.name for file in path.iterdir()} == {"a", "b"}


def test_what_was_taken_out_is_removed_also_after_a_crash(containers: Containers, tmp_path: Path) -> None:
    path = containers.find("alice", containers.new("alice", 1000))
    assert path is not None
    keep(containers, path, {"a": b"1"}, 1000)
    containers.take_out([path])
    assert not path.exists()
    Containers(tmp_path, idle=100, most=2, disk=1000).prune(1000)
    assert not list(tmp_path.glob("*/*"))
