"""A child process that reads web pages to text, so that no foreign page is parsed inside the gateway.

Each page comes with its length before it, in four bytes, and so does each answer, as JSON.
"""

import json
import re
import sys
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser

LENGTH = 4
LONGEST = 1024 * 1024
"""Characters of a text; more of it is cut off."""

_MEMORY = 1024 * 1024 * 1024
_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "nav", "footer", "form"})
_BLOCKS = frozenset(
    {"p", "div", "br", "li", "ul", "ol", "tr", "table", "section", "article", "header", "pre", "blockquote"}
    | {f"h{n}" for n in range(1, 7)}
)
_CELLS = frozenset({"td", "th"})
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_TITLE = re.compile(r"<title[^<>]*>([^<]*)</title", re.IGNORECASE)


class PlainReader(HTMLParser):
    """The words of a page, without what is around them on most pages."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self._pieces: list[str] = []
        self._skipped: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "title":
            self._in_title = True
        elif tag in _SKIPPED:
            self._skipped.append(tag)
        elif tag in _BLOCKS:
            self._pieces.append("\n")
        elif tag in _CELLS:
            self._pieces.append("\t")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in self._skipped:
            while self._skipped.pop() != tag:
                pass
        elif tag in _BLOCKS:
            self._pieces.append("\n")
        elif tag == "body":
            self._skipped.clear()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._skipped:
            self._pieces.append(data)

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._pieces).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def read_plainly(page: str) -> tuple[str, str]:
    """The title and the text, by the standard library alone."""
    reader = PlainReader()
    reader.feed(page)
    reader.close()
    return " ".join(reader.title.split()), reader.text


def _reader() -> Callable[[str], tuple[str, str]]:
    try:
        import trafilatura
    except ImportError:
        return read_plainly

    def read(page: str) -> tuple[str, str]:
        found = trafilatura.extract(page, include_comments=False)
        if not found:
            return read_plainly(page)  # it looks for an article, and not every page is one
        title = _TITLE.search(page[:200_000])
        return " ".join(unescape(title[1]).split()) if title else "", found

    return read


def decode(page: bytes, charset: str) -> str:
    """The page as text, by what the server says, or else the page itself."""
    if not charset and (found := _CHARSET.search(page[:2048])):
        charset = found[1].decode()
    try:
        return page.decode(charset or "utf-8", "replace")
    except LookupError:
        return page.decode("utf-8", "replace")


def _bound_memory() -> None:
    try:
        from resource import RLIMIT_AS, setrlimit

        setrlimit(RLIMIT_AS, (_MEMORY, _MEMORY))
    except (ImportError, ValueError, OSError):
        return  # not everywhere; the gateway bounds the time


def main() -> None:
    _bound_memory()
    received, sent = sys.stdin.buffer, sys.stdout.buffer
    read = _reader()
    while head := received.read(LENGTH):
        message = received.read(int.from_bytes(head))
        about, _, page = message.partition(b"\n")
        asked = json.loads(about)
        title, text = "", decode(page, asked["charset"])
        if asked["is_html"]:
            try:
                title, text = read(text)
            except Exception:  # whatever a page does to the library, it is read plainly
                title, text = read_plainly(text)
        answer = json.dumps({"title": title[:300], "text": text[:LONGEST]}).encode()
        sent.write(len(answer).to_bytes(LENGTH) + answer)
        sent.flush()


if __name__ == "__main__":
    main()
