"""Chooses the dialect of an answer by the client's headers, where the request names none.

Clients name themselves in headers that they send without being asked to. The first marker of the table that a
request has decides; a request without any gets the specification's own spelling.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from antiphon.stream.dialects import AI_SDK, OPEN_RESPONSES, OPENAI, Dialect


@dataclass(frozen=True, slots=True)
class Marker:
    """A header, a part of its value (any, if that is empty), and the dialect of the clients that send it."""

    header: bytes
    holds: bytes
    dialect: Dialect
    seen_clients: tuple[str, ...]
    """The clients that were seen to send it."""


MARKERS = (
    Marker(
        b"x-stainless-lang",
        b"",
        OPENAI,
        (
            "openai for Python 2.54.0",
            "openai for JavaScript 6.49.0",
            "LangChain for Python (langchain-openai 1.7.3)",
            "LangChain for JavaScript (@langchain/openai 1.5.8)",
            "OpenAI Agents SDK for Python 0.20.0",
            "OpenAI Agents SDK for JavaScript 0.20.0",
            "Pydantic AI 2.31.1",
            "LlamaIndex (llama-index-llms-openai 0.8.3)",
            "Instructor 1.17.0",
        ),
    ),
    Marker(b"originator", b"", OPENAI, ("Codex 0.166.0",)),
    Marker(b"user-agent", b"ai-sdk/openai/", OPENAI, ("AI SDK, @ai-sdk/openai 3.0.139, streaming",)),
    Marker(
        b"user-agent",
        b"ai-sdk/open-responses/",
        AI_SDK,
        ("AI SDK, @ai-sdk/open-responses 1.0.39, streaming",),
    ),
    # `generateText` puts its own name in the place of its provider's, and so do programs built on it.
    Marker(b"user-agent", b"ai-sdk/", AI_SDK, ("AI SDK 6.0.326, `generateText`", "opencode 1.18.33")),
    Marker(b"user-agent", b"litellm/", AI_SDK, ("LiteLLM 1.106.2",)),
)

_MARKED = tuple(dict.fromkeys(marker.header for marker in MARKERS))

UNMARKED = (
    "curl 7.88",
    "httpx 0.28.1",
    "aiohttp 3.14.5",
    "requests 2.34.2",
    "`fetch` of Node 20",
    "DSPy 3.4.1",
    "Antiphon's own client",
    "`antiphon comply`",
)
"""Clients that were tried and send no marker."""


def detect_dialect(headers: Mapping[bytes, bytes]) -> Dialect:
    """Find the dialect for a request with these headers, whose names are in lower case."""
    return _find_dialect(tuple(map(headers.get, _MARKED)))


@lru_cache(maxsize=64)
def _find_dialect(values: tuple[bytes | None, ...]) -> Dialect:
    """Find the dialect for these values of the headers in `_MARKED`; a client sends the same each time."""
    given = dict(zip(_MARKED, values, strict=True))
    for marker in MARKERS:
        value = given[marker.header]
        if value is not None and marker.holds in value:
            return marker.dialect
    return OPEN_RESPONSES
