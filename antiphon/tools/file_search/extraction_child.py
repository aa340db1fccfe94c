"""A child process that reads the text of one file: plain text, HTML, PDF or DOCX.

Standard input says which, as JSON in one line. Standard output gets a line, which is null or a code and a
reason, and then the text.
"""

import json
import resource
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

_UNSUPPORTED, _INVALID = "unsupported_file", "invalid_file"
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figcaption", "figure"}
    | {"footer", "form", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section"}
    | {"table", "td", "th", "title", "tr", "ul"}
    | {f"h{n}" for n in range(1, 7)}
)
_SILENT = frozenset({"script", "style", "template", "noscript"})
_MOST_UNPACKED = 512 * 1024 * 1024


class _Failed(Exception):
    """A code, and a reason."""


def main() -> None:
    asked = json.loads(sys.stdin.buffer.readline())
    _bind(asked["memory"], asked["seconds"])
    answer: bytes = b""
    error: list[str] | None = None
    try:
        answer = _within(_texts(Path(asked["path"]), asked["filename"], asked["limit"]), asked["limit"])
    except _Failed as failed:
        error = list(failed.args)
    except MemoryError:
        error = [_INVALID, "it takes too much memory to read"]
    except Exception as problem:  # whatever a broken file makes a library raise
        error = [_INVALID, f"it could not be read ({type(problem).__name__})"]
    sys.stdout.buffer.write(json.dumps(error).encode() + b"\n" + answer)


def _bind(memory: int, seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    if sys.platform == "linux":  # elsewhere the limit is refused
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _within(texts: Iterator[str], limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    for text in texts:
        # Half of a pair, and what cannot be stored or shown.
        part = text.replace("\0", "").encode("utf-8", "replace")
        left -= len(part)
        if left < 0:
            raise _Failed(_INVALID, f"it has more than {limit:,} bytes of text")
        parts.append(part)
    whole = b"".join(parts)
    if not whole.strip():
        raise _Failed(_INVALID, "it has no text in it")
    return whole


def _texts(path: Path, filename: str, limit: int) -> Iterator[str]:
    with path.open("rb") as file:
        begin = file.read(8)
    ending = Path(filename.lower()).suffix
    if begin.startswith(b"%PDF-") or ending == ".pdf":
        return _pdf(path)
    if begin.startswith(b"PK\x03\x04") and ending in (".docx", ""):
        return _docx(path)
    text = _plain(path, limit)
    return iter([_html(text) if ending in (".html", ".htm", ".xhtml") else text])


def _plain(path: Path, limit: int) -> str:
    with path.open("rb") as file:
        raw = file.read(4 * limit + 1)
    if len(raw) > 4 * limit:
        raise _Failed(_INVALID, f"it has more than {limit:,} bytes of text")
    encoding = "utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    with suppress(UnicodeDecodeError):
        text = raw.decode(encoding)
        if "\0" not in text:
            return text
    raise _Failed(_UNSUPPORTED, "it is no text in UTF-8 or UTF-16, no HTML, no PDF and no DOCX")


def _html(page: str) -> str:
    reader = _Page()
    reader.feed(page)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.said).splitlines())
    return "\n".join(line for line in lines if line)


class _Page(HTMLParser):
    """The words of a page, a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag in _BLOCKS:
            self.said.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            self._silent.remove(tag)
        elif tag in _BLOCKS:
            self.said.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.said.append(data)


def _pdf(path: Path) -> Iterator[str]:
    try:
        from pypdf import PdfReader
    except ImportError:
        raise _Failed(_UNSUPPORTED, "to read PDF, the gateway needs: pip install 'antiphon[files]'") from None
    reader = PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        raise _Failed(_INVALID, "it is encrypted")
    for page in reader.pages:
        yield page.extract_text() + "\n\n"


def _docx(path: Path) -> Iterator[str]:
    try:
        from docx import Document
        from docx.table import Table
    except ImportError:
        raise _Failed(
            _UNSUPPORTED, "to read DOCX, the gateway needs: pip install 'antiphon[files]'"
        ) from None
    with zipfile.ZipFile(path) as archive:
        if "word/document.xml" not in archive.namelist():
            raise _Failed(_UNSUPPORTED, "it is an archive, and no DOCX")
        if sum(entry.file_size for entry in archive.infolist()) > _MOST_UNPACKED:
            raise _Failed(_INVALID, "it is too large unpacked")
    for block in Document(str(path)).iter_inner_content():
        if isinstance(block, Table):
            for row in block.rows:
                yield " | ".join(cell.text for cell in row.cells) + "\n"
        else:
            yield block.text + "\n"


if __name__ == "__main__":
    main()
