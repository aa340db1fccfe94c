"""Changes the files of clients for `antiphon setup`, with a diff, a backup, a record, and an undo."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from antiphon.cli.common import CommandFailed
from antiphon.cli.setup.edits import Conflict, EditableFile, FileChange, Setting, has_all, take_out, write
from antiphon.cli.setup.json_text import BrokenFile
from antiphon.cli.setup.masked_diff import masked_diff
from antiphon.cli.setup.safe_files import check_size, make_folders, read_regular_file, write_whole_file
from antiphon.spec.codec import UNREADABLE
from antiphon.wires.data_folder import default_data_folder

_BOM: Final = "\ufeff"
_MAX_RECORD: Final = 8 * 1024 * 1024
"""Bytes of a record; it has the text of each value that was replaced."""


class _Record(msgspec.Struct, frozen=True):
    """The record of the changes to one file."""

    file: str
    existed: bool
    after: str
    """The digest of the file as it was left."""
    changes: list[FileChange]
    folders: list[str] = []
    """Folders that were made for it."""
    extras: list[str] = []
    """Files of the program's own beside it."""


@dataclass(frozen=True, slots=True)
class Edited:
    """The text that a set-up makes of a file."""

    before: str
    base: str
    """The text without what an earlier set-up wrote: what the backup keeps."""
    after: str
    changes: list[FileChange]


class ClientFile:
    """One file of a client: read, changed, and put back."""

    def __init__(self, client: str, file: Path, document: EditableFile) -> None:
        self.shown = file
        try:
            self.file = file.resolve()
        except (OSError, RuntimeError) as error:
            raise CommandFailed(f"antiphon: {file} is a link that leads nowhere: {error}") from None
        self._document = document
        digest = hashlib.sha256(os.fsencode(self.file)).hexdigest()[:12]
        self._folder = default_data_folder() / "setup"
        self._record = self._folder / f"{client}-{digest}.json"
        self.backup = self._folder / f"{client}-{digest}.backup"

    def record(self) -> _Record | None:
        """Reads the record of an earlier set-up."""
        try:
            return msgspec.json.decode(read_regular_file(self._record, _MAX_RECORD), type=_Record)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            raise CommandFailed(
                f"antiphon: cannot read {self._record}, which knows the way back: {error}"
            ) from None

    def edit(self, settings: Sequence[Setting]) -> Edited | None:
        """Returns the file with the settings in it, or None if it has them already."""
        text = self._read() or ""
        record = self.record()
        try:
            if has_all(self._document, text.removeprefix(_BOM), settings):
                return None
            base = text
            if record is not None:
                kept = self._original_text(text, record)
                base = self._take_out(text, record)[0] if kept is None else kept
            after, changes = write(self._document, base.removeprefix(_BOM), settings)
            after = _mark(base) + after
        except BrokenFile as error:
            raise CommandFailed(
                f"antiphon: {self.shown} cannot be changed: {error}; nothing was written. "
                "Mend the file, or use --print with an empty one and copy what you need"
            ) from None
        except Conflict as taken:
            raise CommandFailed(
                f"antiphon: {self.shown} has {taken} already, which this command did not write; "
                "nothing was changed. Rename or remove it first"
            ) from None
        return Edited(text, base, after, changes)

    def diff(self, edited: Edited, key: str = "") -> str:
        """Returns the diff with all secrets masked; `key` is the key that the set-up writes."""
        before = self._document.side(edited.before.removeprefix(_BOM), ())
        own = [change.steps() for change in edited.changes]
        return masked_diff(
            str(self.shown), before, self._document.side(edited.after.removeprefix(_BOM), own), key
        )

    def save(self, edited: Edited, extras: dict[Path, bytes]) -> None:
        """Writes the file, after its backup and its record."""
        before = self.record()
        existed = self.file.exists()
        if before is not None and not before.existed:
            existed = existed and bool(edited.base.strip("{}[] \r\n"))
        self.check_writable()
        folders = (
            [str(one) for one in self.file.parents if not one.exists()] if before is None else before.folders
        )
        mode = stat.S_IMODE(self.file.stat().st_mode) if self.file.exists() else 0o600
        try:
            make_folders(self._folder, 0o700)
            if existed:
                write_whole_file(self.backup, edited.base.encode(), mode)
            for extra, content in extras.items():
                write_whole_file(extra, content, 0o600)
            data = edited.after.encode()
            record = _Record(
                str(self.file), existed, _digest(data), edited.changes, folders, [str(one) for one in extras]
            )
            write_whole_file(self._record, msgspec.json.encode(record), 0o600)
            make_folders(self.file.parent)
            write_whole_file(self.file, data, mode)
        except OSError as error:
            raise CommandFailed(
                f"antiphon: cannot write {error.filename or self.shown}: {error.strerror}"
            ) from None

    def refresh(self, extras: dict[Path, bytes]) -> None:
        """Writes the program's own files again if a set-up has written them before."""
        if self.record() is not None:
            for extra, content in extras.items():
                write_whole_file(extra, content, 0o600)

    def undo(self) -> list[str]:
        """Restores the file, or removes what a set-up wrote, and returns a description of what it did."""
        record = self.record()
        if record is None:
            raise CommandFailed(
                f"antiphon: there is nothing to undo: {self.shown} was not written by this command"
            )
        text = self._read()
        said = []
        if text is None:
            said.append(f"{self.shown} is gone, so there is nothing to take out of it")
        else:
            self.check_writable()
            said += self._restore(text, record)
        for name in (*record.extras, str(self.backup), str(self._record)):
            Path(name).unlink(missing_ok=True)
        return said

    def _restore(self, text: str, record: _Record) -> list[str]:
        kept = self._original_text(text, record)
        mode = stat.S_IMODE(self.file.stat().st_mode)
        if kept is not None and not record.existed:
            self.file.unlink()
            for folder in record.folders:
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            return [f"removed {self.shown}, which was not there before"]
        if kept is not None:
            write_whole_file(self.file, kept.encode(), mode)
            return [f"{self.shown} is as it was before, byte for byte"]
        try:
            after, left = self._take_out(text, record)
        except BrokenFile as error:
            raise CommandFailed(
                f"antiphon: {self.shown} cannot be changed: {error}; as it was before, it is in {self.backup}"
            ) from None
        write_whole_file(self.file, after.encode(), mode)
        return [
            f"{self.shown} was changed since: what this command wrote was taken out, and no more",
            *(f"{name} was changed since, so it stays as it is now" for name in left),
        ]

    def check_writable(self) -> None:
        if self.file.exists() and not (os.access(self.file, os.W_OK) and self.file.stat().st_mode & 0o222):
            raise CommandFailed(
                f"antiphon: {self.shown} is read-only; nothing was written. "
                "Make it writable (chmod u+w), or use --print"
            )

    def _take_out(self, text: str, record: _Record) -> tuple[str, list[str]]:
        after, left = take_out(self._document, text.removeprefix(_BOM), record.changes)
        return _mark(text) + after, left

    def _original_text(self, text: str, record: _Record) -> str | None:
        """Returns the text before the set-up, if the file is unchanged since then."""
        if _digest(text.encode()) != record.after:
            return None
        if not record.existed:
            return ""
        try:
            return read_regular_file(self.backup).decode()
        except (OSError, UnicodeDecodeError):
            return None

    def _read(self) -> str | None:
        try:
            text = read_regular_file(self.file).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise CommandFailed(f"antiphon: {self.shown} is not UTF-8 text; nothing was changed") from None
        except OSError as error:
            raise CommandFailed(f"antiphon: cannot read {self.shown}: {error.strerror}") from None
        if why := check_size(text):
            raise CommandFailed(f"antiphon: {self.shown} is too large to be changed: {why}")
        return text


def _mark(text: str) -> str:
    """Returns the byte order mark that some editors put first."""
    return _BOM if text.startswith(_BOM) else ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
