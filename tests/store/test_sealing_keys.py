"""Sealing keys: configured, made once with the right mode, rotated, and refused without being shown."""

from __future__ import annotations

import base64
import stat
import threading
from pathlib import Path

import pytest

from antiphon.store import SealingKeys, StoreError, load_keys

A, B = bytes(range(32)), bytes(range(100, 132))


def test_a_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    keys = load_keys(folder)
    assert len(keys.current) == 32
    assert keys.older == ()
    assert load_keys(folder) == keys
    assert [file.name for file in folder.iterdir()] == ["sealing.keys"]
    assert stat.S_IMODE((folder / "sealing.keys").stat().st_mode) == 0o600
    assert load_keys(tmp_path / "other") != keys


def test_racing_workers_get_the_same_key(tmp_path: Path) -> None:
    found: list[SealingKeys] = []
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        found.append(load_keys(tmp_path))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["sealing.keys"]


def test_configured_keys_come_first_to_last(tmp_path: Path) -> None:
    for one, two in ((A.hex(), B.hex()), (f" {A.hex().upper()}\n", base64.b64encode(B).decode())):
        assert load_keys(tmp_path, [one, two]) == SealingKeys(A, (B,))
    assert list(tmp_path.iterdir()) == []


def test_either_alphabet_of_base64_with_or_without_padding(tmp_path: Path) -> None:
    key = b"\xfb\xff" * 16
    plain, urlsafe = base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()
    assert plain != urlsafe
    for text in (plain, urlsafe, plain.rstrip("="), urlsafe.rstrip("=")):
        assert load_keys(tmp_path, [text]).current == key


def test_a_new_first_line_rotates(tmp_path: Path) -> None:
    old = load_keys(tmp_path).current
    file = tmp_path / "sealing.keys"
    file.write_text(base64.b64encode(A).decode() + "\n" + file.read_text())
    assert load_keys(tmp_path) == SealingKeys(A, (old,))


@pytest.mark.parametrize("bad", ["", "secret", A[:31].hex(), "g" * 64, base64.b64encode(A + b"x").decode()])
def test_a_bad_key_is_refused_and_not_shown(tmp_path: Path, bad: str) -> None:
    with pytest.raises(StoreError, match="Sealing key 2 of the configuration") as refused:
        load_keys(tmp_path, [A.hex(), bad])
    assert not bad or bad not in str(refused.value)
    assert "32 random bytes" in str(refused.value)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "sealing.keys"
    for content, message in (
        (b"", "holds no key"),
        (b"nonsense\n", "key 1"),
        (b"\xff\xfe", "it is not text"),
    ):
        file.write_bytes(content)
        with pytest.raises(StoreError, match=message) as refused:
            load_keys(tmp_path)
        assert str(file) in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "sealing.keys").mkdir()
    with pytest.raises(StoreError, match=r"sealing\.keys cannot be read or made"):
        load_keys(tmp_path)


def test_keys_are_not_printed() -> None:
    assert repr(SealingKeys(A, (B,))) == "SealingKeys()"
