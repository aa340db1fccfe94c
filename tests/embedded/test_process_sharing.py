from dataclasses import replace
from pathlib import Path

from antiphon.embedded.process import Endpoint
from antiphon.embedded.process_sharing import ProcessSharing

ENDPOINT = Endpoint("http://127.0.0.1:1", "secret", 256, "tiny")


def test_there_is_one_owner_and_the_others_find_it(tmp_path: Path) -> None:
    owner, guest = ProcessSharing(tmp_path, "tiny", 4), ProcessSharing(tmp_path, "tiny", 4)
    assert owner.try_to_own()
    assert not guest.try_to_own()
    assert guest.read_endpoint() is None
    owner.write_endpoint(ENDPOINT)
    assert guest.read_endpoint() == ENDPOINT
    owner.write_endpoint(replace(ENDPOINT, key="other"))
    assert guest.read_endpoint() == replace(ENDPOINT, key="other")
    owner.release_ownership()
    assert guest.read_endpoint() is None
    assert guest.try_to_own()
    guest.release_ownership()


def test_who_is_no_owner_takes_nothing_back(tmp_path: Path) -> None:
    owner, guest = ProcessSharing(tmp_path, "tiny"), ProcessSharing(tmp_path, "tiny")
    assert owner.try_to_own()
    owner.write_endpoint(ENDPOINT)
    guest.release_ownership()
    assert guest.read_endpoint() == ENDPOINT
    owner.release_ownership()


def test_other_settings_are_another_model(tmp_path: Path) -> None:
    one, other = ProcessSharing(tmp_path, "tiny", 4), ProcessSharing(tmp_path, "tiny", 5)
    assert one.try_to_own()
    assert other.try_to_own()
    one.release_ownership()
    other.release_ownership()


def test_use_and_unloading_exclude_each_other(tmp_path: Path) -> None:
    owner, guest = ProcessSharing(tmp_path, "tiny"), ProcessSharing(tmp_path, "tiny")
    first, second = guest.use(), owner.use()
    assert first.acquire(wait=False)
    assert second.acquire(wait=False)
    first.release()
    assert not owner.begin_unloading()
    second.release()
    assert owner.begin_unloading()
    assert not first.acquire(wait=False)
    owner.end_unloading()
    with first:
        assert first.is_held


def test_use_is_seen_by_all(tmp_path: Path) -> None:
    owner, guest = ProcessSharing(tmp_path, "tiny"), ProcessSharing(tmp_path, "tiny")
    assert owner.unused_for() == 0.0
    guest.touch()
    assert owner.unused_for() < 60.0
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())
