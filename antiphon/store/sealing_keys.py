"""The sealing keys, 32 bytes each: the first one seals, and each of them opens what it has sealed."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from antiphon.store.base import StoreError
from antiphon.store.folder import make_folder

FILE = "sealing.keys"
LENGTH = 32


@dataclass(frozen=True, slots=True)
class SealingKeys:
    """`current` seals; the `older` keys only open what they have sealed. No `repr` shows a key."""

    current: bytes = field(repr=False)
    older: tuple[bytes, ...] = field(default=(), repr=False)


def parse_key(text: str, where: str) -> bytes:
    """Reads a key written as base64 (either alphabet) or as 64 hexadecimal digits."""
    text = text.strip()
    try:
        if len(text) == 2 * LENGTH:
            key = bytes.fromhex(text)
        else:
            plain = text.rstrip("=").replace("-", "+").replace("_", "/")
            key = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != LENGTH:
        raise StoreError(
            f"{where}: a sealing key is {LENGTH} random bytes in base64 or hexadecimal "
            "(make one with `openssl rand -base64 32`)."
        )
    return key


def load_keys(folder: Path, configured: Sequence[str] = ()) -> SealingKeys:
    """Returns the configured keys, or those of the data folder, where the first start makes one.

    To rotate keys, put a new one before the others, in the configuration or as the first line of the file.
    """
    if configured:
        keys = [
            parse_key(key, f"Sealing key {n} of the configuration") for n, key in enumerate(configured, 1)
        ]
    else:
        path = folder / FILE
        lines = [line for line in _read_or_make(path).splitlines() if line.strip()]
        keys = [parse_key(line, f"{path}, key {n}") for n, line in enumerate(lines, 1)]
        if not keys:
            raise StoreError(f"{path} holds no key. Restore it, or remove it so that a new key is made.")
    return SealingKeys(keys[0], tuple(keys[1:]))


def _read_or_make(path: Path) -> str:
    make_folder(path.parent)
    try:
        if not path.exists():
            _make(path)
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StoreError(
            f"The sealing keys in {path} cannot be read or made ({reason}). "
            "Check the permissions of its folder, or put the keys into the configuration."
        ) from None


def _make(path: Path) -> None:
    """Makes the file with a first key.

    Several processes may do this at the same time: each writes a file of its own, and one of them gets the
    name.
    """
    own = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(base64.b64encode(secrets.token_bytes(LENGTH)) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(own, path)
        except FileExistsError:
            return
    finally:
        own.unlink()
