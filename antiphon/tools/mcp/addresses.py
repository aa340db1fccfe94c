"""Which addresses of MCP servers a client may name."""

from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443}


def is_within(url: str, allowed: str) -> bool:
    """Has it the scheme, host and port of the allowed address, and its path or one below?

    >>> is_within("https://mcp.example.com/a/b", "https://mcp.example.com/a")
    True
    >>> is_within("https://mcp.example.com/ab", "https://mcp.example.com/a")
    False
    """
    here, there = _parts(url), _parts(allowed)
    if here is None or there is None or here[:3] != there[:3]:
        return False
    return here[3][: len(there[3])] == there[3]


def origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None if it is no address that could be asked."""
    parts = _parts(url)
    return None if parts is None else parts[:3]


def is_literal(url: str) -> bool:
    """Does it name a machine by its number, or this machine? Then no name server can lead it elsewhere."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost":
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _parts(url: str) -> tuple[str, str, int, list[str]] | None:
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        return None
    if split.scheme not in _PORTS or not split.hostname or split.username or split.password:
        return None
    segments = [unquote(segment) for segment in split.path.split("/") if segment]
    if any(segment in (".", "..") or "/" in segment or "\\" in segment for segment in segments):
        return None
    host = split.hostname.rstrip(".").lower()
    return split.scheme, host, _PORTS[split.scheme] if port is None else port, segments
