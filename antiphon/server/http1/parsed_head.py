"""The head of a request, as the parser has it."""

from urllib.parse import unquote

import httptools
from httptools import HttpRequestParser as Parser

from antiphon.server.exchange import Head, given_id, two_hosts_error
from antiphon.spec.errors import SpecError

_Fields = dict[bytes, bytes]

_MANY = 1000
_SHORT = 64


class _Lowered(dict[bytes, bytes]):
    def __missing__(self, name: bytes) -> bytes:
        lower = name.lower()
        if len(self) < _MANY and len(name) <= _SHORT:
            self[name] = lower
        return lower


LOWERED = _Lowered()
"""Names of headers as clients write them, in lower case: there are few, and each is worked out once."""


class ParsedHead(Head, eq=False):
    """A head, and what the connection has to know about it."""

    url: bytes = b""
    keeps: bool = False
    """May the connection carry another request after this one?"""


def parsed_head(parser: Parser, url: bytes, fields: _Fields) -> ParsedHead:
    """The head that the parser has come to the end of; the names of its fields are in lower case."""
    refusal = None
    path, _, query = url.partition(b"?")
    if not url.startswith(b"/"):
        path, query, refusal = _taken_apart(url, fields)
    text = path.decode("latin-1")
    if "%" in text:
        text = unquote(text)
    is_old = parser.get_http_version() != "1.1"
    head = ParsedHead(
        parser.get_method().decode(),
        text,
        query,
        fields,
        is_old,
        refusal=refusal,
        url=url,
        keeps=parser.should_keep_alive() and not is_old,
    )
    if b"x-request-id" in fields:
        head.request_id = given_id(fields)
    return head


def _taken_apart(url: bytes, fields: _Fields) -> tuple[bytes, bytes, SpecError | None]:
    """The path and the query of a target that names its host too, as proxies send it.

    That host is the one that is checked, as if the header had it; a header with another one is refused.
    """
    try:
        parts = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return b"/" + url, b"", None
    refusal = None
    if parts.host is not None:
        name = b"[%b]" % parts.host if b":" in parts.host else parts.host
        host = b"%b:%d" % (name, parts.port) if parts.port else name
        given = fields.get(b"host", host).lower()
        if given not in (name.lower(), host.lower()) and given.rpartition(b":")[0] != name.lower():
            refusal = two_hosts_error()
        fields[b"host"] = host
    return parts.path or b"/", parts.query or b"", refusal
