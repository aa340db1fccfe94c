"""Downloads of a file over http or https, which resume after an interruption and end with a check.

The bytes so far lie in `part`, and beside it a record of the file that they belong to. A download adds to a
part only if the file is the same: by its SHA-256, or because the server says so (`If-Range`).
"""

import hashlib
import http.client
import json
import re
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from antiphon.embedded.gguf import MAGIC, WeightsError, sha256, strip_secrets
from antiphon.embedded.progress import Progress, ProgressStep

_CHUNK: Final = 1024 * 1024
_READ_TIMEOUT: Final = 60.0
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_WHOLE = re.compile(r"bytes \*/(\d+)")
_ADVICE: Final = {
    401: " It wants a permission that Antiphon does not have.",
    403: " It wants a permission that Antiphon does not have.",
    404: " Check the address.",
}


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """What is at an address, as far as it is known beforehand."""

    url: str
    size: int | None = None
    sha256: str | None = None
    """Without it, what the hub says about its file is held to (the header `X-Linked-Etag`)."""


@dataclass(frozen=True, slots=True)
class _PartRecord:
    """The record beside a part: the file that it belongs to."""

    address: str
    """Its hash, because an address can hold a secret."""
    sha256: str | None = None
    version: str | None = None
    """What the server calls this version of the file."""

    @property
    def can_resume(self) -> bool:
        return bool(self.sha256 or self.version)


class _Interrupted(Exception):
    """The connection ended before the file did."""


def record_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    record_path(part).unlink(missing_ok=True)


def download(wanted: ExpectedFile, part: Path, progress: Progress) -> str | None:
    """Fetch the GGUF file into `part` and return the SHA-256 that it was checked against, if any.

    A broken connection is opened again as long as each connection adds to the file.
    """
    where = strip_secrets(wanted.url)
    transfer = _Transfer(wanted, part, progress)
    furthest = -1
    while True:
        try:
            transfer.read_rest()
            break
        except urllib.error.HTTPError as error:
            error.close()
            advice = _ADVICE.get(error.code, " Try again later.")
            raise WeightsError(f"{where} answered with status {error.code}.{advice}") from None
        except (
            _Interrupted,
            urllib.error.URLError,
            http.client.HTTPException,
            ConnectionError,
            TimeoutError,
        ) as error:
            if transfer.done > furthest and transfer.record.can_resume:
                furthest = transfer.done
                continue
            raise _describe_failure(transfer, where, getattr(error, "reason", None) or error) from None
    checksum = transfer.record.sha256
    if checksum:
        progress(ProgressStep(f"checking {where}"))
        if sha256(part) != checksum:
            discard(part)
            raise WeightsError(f"{where} does not have the SHA-256 {checksum}, so it was thrown away.")
    record_path(part).unlink(missing_ok=True)
    return checksum


def _describe_failure(transfer: "_Transfer", where: str, reason: object) -> WeightsError:
    if transfer.done and transfer.record.can_resume:
        kept = f"{transfer.done} of {transfer.total} bytes are kept: run the same command to resume."
        return WeightsError(f"{where} broke off ({reason}). {kept}")
    discard(transfer.part)
    if isinstance(reason, _Interrupted):
        return WeightsError(f"{where} {reason}. Try again.")
    return WeightsError(f"{where} could not be downloaded ({reason}). Check the address and the network.")


class _Transfer:
    """One file on its way, over as many connections as it takes."""

    def __init__(self, wanted: ExpectedFile, part: Path, progress: Progress) -> None:
        self.part = part
        self._wanted = wanted
        self._progress = progress
        address = hashlib.sha256(wanted.url.encode()).hexdigest()
        self.record = _PartRecord(address, wanted.sha256)
        self.done = 0
        self.total = wanted.size
        before = _read(part)
        if part.exists() and before is not None and before.can_resume and self._fits(before):
            self.record, self.done = before, part.stat().st_size

    def _fits(self, before: _PartRecord) -> bool:
        """Is the part one of this file? A checksum says so, whichever mirror it came from."""
        if self._wanted.sha256:
            return before.sha256 == self._wanted.sha256
        return before.address == self.record.address

    def read_rest(self) -> None:
        """Reads the rest of the file, or all of it, over one connection."""
        where = strip_secrets(self._wanted.url)
        headers = {"User-Agent": "antiphon", "Accept-Encoding": "identity"}
        if self.done:
            headers["Range"] = f"bytes={self.done}-"
            if not self.record.sha256 and self.record.version:
                headers["If-Range"] = self.record.version
        redirects = _Redirects(self._wanted.url)
        request = urllib.request.Request(self._wanted.url, headers=headers)
        try:
            answer = urllib.request.build_opener(redirects).open(request, timeout=_READ_TIMEOUT)
        except urllib.error.HTTPError as error:
            if error.code != 416 or not self.done:
                raise
            error.close()
            self._check_complete(error.headers.get("Content-Range") or "")
            return
        with closing(answer):
            self._begin(answer, redirects.linked)
            self._take(answer, where)

    def _check_complete(self, said: str) -> None:
        """The server has no bytes beyond the part: raise `_Interrupted` unless the part is the whole file."""
        whole = _WHOLE.fullmatch(said)
        if whole and int(whole[1]) == self.done:
            return
        discard(self.part)
        self.done = 0
        raise _Interrupted("has another file there than before")

    def _begin(self, answer: http.client.HTTPResponse, linked: str | None) -> None:
        given = _RANGE.fullmatch(answer.headers.get("Content-Range") or "") if answer.status == 206 else None
        if given and int(given[1]) == self.done:
            total: int | None = int(given[2])
        else:  # all of it, from the beginning
            self.done = 0
            length = answer.headers.get("Content-Length") or ""
            total = int(length) if length.isdigit() else None
        expected = self._wanted.size
        if expected is not None and total is not None and total != expected:
            discard(self.part)
            raise WeightsError(
                f"{strip_secrets(self._wanted.url)} has {total} bytes, and the model has {expected}. "
                "Nothing was kept of it."
            )
        self.total = expected if expected is not None else total
        version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if version and version.startswith("W/"):
            version = None
        self.record = replace(self.record, version=version, sha256=self.record.sha256 or linked)
        record_path(self.part).write_text(json.dumps(asdict(self.record)))

    def _take(self, answer: http.client.HTTPResponse, where: str) -> None:
        with self.part.open("r+b" if self.done else "wb") as file:
            if self.done:  # a part that was longer is cut back to what the server goes on from
                file.seek(self.done)
                file.truncate()
            while chunk := answer.read(_CHUNK):
                if not self.done and not MAGIC.startswith(chunk[: len(MAGIC)]):
                    discard(self.part)
                    raise WeightsError(f"What {where} sends is not a GGUF file, so nothing was kept of it.")
                file.write(chunk)
                self.done += len(chunk)
                self._progress(ProgressStep(f"downloading {where}", self.done, self.total))
        if not self.done or (self.total is not None and self.done != self.total):
            raise _Interrupted(f"ended after {self.done} of {self.total} bytes")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows the hub to where its files lie, and remembers what it said about the file on the way."""

    def __init__(self, url: str) -> None:
        self.linked: str | None = None
        self._host = urlsplit(url).netloc

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: object,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        here = urlsplit(req.full_url)
        linked = _SHA256.fullmatch(headers.get("X-Linked-Etag") or "")
        if linked and here.netloc == self._host:
            self.linked = linked[1]
        if here.scheme == "https" and urlsplit(newurl).scheme != "https":
            raise WeightsError(
                f"{strip_secrets(req.full_url)} leads to an address without encryption, "
                "so it was not followed."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _read(part: Path) -> _PartRecord | None:
    try:
        return _PartRecord(**json.loads(record_path(part).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
