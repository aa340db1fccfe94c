from dataclasses import replace
from pathlib import Path

from antiphon.embedded.process_sharing import Sharing
from antiphon.embedded.spawn import Endpoint

ENDPOINT = Endpoint("http://127.0.0.1:1", "secret", 256, "tiny")


def test_there_is_one_owner_and_the_others_find_it(tmp_path: Path) -> None:
    owner, guest = Sharing(tmp_path, "tiny", 4), Sharing(tmp_path, "tiny", 4)
    assert owner.own()
    assert not guest.own()
    assert guest.published() is None
    owner.publish(ENDPOINT)
    assert guest.published() == ENDPOINT
    owner.publish(replace(ENDPOINT, key="other"))
    assert guest.published() == replace(ENDPOINT, key="other")
    owner.disown()
    assert guest.published() is None
    assert guest.own()
    guest.disown()


def test_who_is_no_owner_takes_nothing_back(tmp_path: Path) -> None:
    owner, guest = Sharing(tmp_path, "tiny"), Sharing(tmp_path, "tiny")
    assert owner.own()
    owner.publish(ENDPOINT)
    guest.disown()
    assert guest.published() == ENDPOINT
    owner.disown()


def test_other_settings_are_another_model(tmp_path: Path) -> None:
    one, other = Sharing(tmp_path, "tiny", 4), Sharing(tmp_path, "tiny", 5)
    assert one.own()
    assert other.own()
    one.disown()
    other.disown()


def test_use_and_unloading_exclude_each_other(tmp_path: Path) -> None:
    owner, guest = Sharing(tmp_path, "tiny"), Sharing(tmp_path, "tiny")
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
        assert first.held


def test_use_is_seen_by_all(tmp_path: Path) -> None:
    owner, guest = Sharing(tmp_path, "tiny"), Sharing(tmp_path, "tiny")
    assert owner.unused_for() == 0.0
    guest.touch()
    assert owner.unused_for() < 60.0
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())
