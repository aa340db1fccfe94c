"""The head of a request, as the parser has it."""

from collections.abc import Mapping
from urllib.parse import unquote

import httptools
from httptools import HttpRequestParser as Parser

from antiphon.server.exchange import Head

Fields = Mapping[bytes, bytes]


class ParsedHead(Head):
    """A head, and what the connection has to know about it."""

    __slots__ = ("keeps", "url", "verb")

    def __init__(self, parser: Parser, url: bytes, fields: Fields) -> None:
        path, _, query = (url if url.startswith(b"/") else _origin_form(url)).partition(b"?")
        text = path.decode("latin-1")
        self.verb = verb = parser.get_method()
        self.url = url
        is_old = parser.get_http_version() != "1.1"
        headers = lowered(fields)
        Head.__init__(self, verb.decode(), unquote(text) if "%" in text else text, query, headers, is_old)
        self.keeps = parser.should_keep_alive() and not is_old
        """May the connection carry another request after this one?"""


def lowered(fields: Fields) -> dict[bytes, bytes]:
    return dict(zip(map(bytes.lower, fields), map(bytes.rstrip, fields.values()), strict=True))


def _origin_form(url: bytes) -> bytes:
    """The path and the query of a target that names its host too, as proxies send it."""
    try:
        parts = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return b"/" + url
    return b"%b?%b" % (parts.path or b"/", parts.query or b"")
