"""The last head that came on a connection, for when it comes again.

Nearly every client says the same each time, but for the length of the body, and what was found out about one
request is true of the next. Keys are compared in constant time: others may speak on the same connection.
"""

from collections.abc import Callable, Mapping
from urllib.parse import unquote

import httptools
from httptools import HttpRequestParser as Parser

from antiphon.server.exchange import Head

Fields = Mapping[bytes, bytes]
Spelling = tuple[bytes, bytes]
"""How a client writes the names of the header with its key, and of the one with the length."""

TITLE: Spelling = b"Authorization", b"Content-Length"
_LOWER: Spelling = b"authorization", b"content-length"
_ABOUT_KEEPING = frozenset({b"connection", b"proxy-connection"})
"""What the parser heeds, besides the version, to tell whether a connection is kept."""


class KnownHead(Head):
    """A head, and all that another must have in common with it to be the same."""

    __slots__ = ("ask", "keeps", "key", "others", "spelling", "url", "verb", "version")

    def __init__(
        self, parser: Parser, url: bytes, fields: Fields, others: Fields, key: bytes, spelling: Spelling
    ) -> None:
        """`key` is of the header that the spelling names, and `others` are the fields without both."""
        headers = lowered(fields)
        taken = (b"authorization" in headers) + (b"content-length" in headers)
        is_clear = len(headers) == len(fields) == len(others) + taken
        headers.pop(b"content-length", None)
        path, _, query = (url if url.startswith(b"/") else _origin_form(url)).partition(b"?")
        text = path.decode("latin-1")
        self.verb = verb = parser.get_method()
        self.version: object = parser.get_http_version()
        self.ask: Callable[[Parser], object] = Parser.get_http_version
        """How the parser tells the version."""
        is_old = self.version != "1.1"
        Head.__init__(self, verb.decode(), unquote(text) if "%" in text else text, query, headers, is_old)
        alive = parser.should_keep_alive()
        self.keeps = alive and not is_old
        """May the connection carry another request after this one?"""
        if headers.keys().isdisjoint(_ABOUT_KEEPING):
            # Then it depends on the version alone, and is a shorter question.
            self.ask, self.version = Parser.should_keep_alive, alive
        self.url = url
        self.key = key
        self.others = others if is_clear else None
        """None if no other is the same."""
        self.spelling = spelling if is_clear else _LOWER if spelling is TITLE else TITLE
        """How the next is read."""


def lowered(fields: Fields) -> dict[bytes, bytes]:
    return dict(zip(map(bytes.lower, fields), map(bytes.rstrip, fields.values()), strict=True))


def _origin_form(url: bytes) -> bytes:
    """The path and the query of a target that names its host too, as proxies send it."""
    try:
        parts = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return b"/" + url
    return b"%b?%b" % (parts.path or b"/", parts.query or b"")
