"""What real clients send: the head and the body of a request, and what changes from one to the next.

Written after recordings on loopback of `openai` 3.49 for Python, `openai` 6.49 for Node, and `ai` 6.0 with
`@ai-sdk/openai` 3.0 and `@ai-sdk/open-responses` 1.0: the order, spelling and number of the headers and the
shape of the body are theirs; the words are not. On a kept connection the body and its length change each
time, and the retry count where an attempt failed. Where an application is traced with OpenTelemetry,
`traceparent` is new each time.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

Body = dict[str, Any]
VARIANTS = 16
"""So many requests are rendered for a client; then they come again."""
_LONG = 100_000
_SYSTEM = "Answer in plain words, and say so where you are not sure."
_ASIDES = ("", "Be brief.", "Name a source.", "Give an example that a child would understand.", "Why?")
_BROWSER = "accept-language: *\r\nsec-fetch-mode: cors\r\naccept-encoding: gzip, deflate\r\n"


@dataclass(frozen=True, slots=True)
class Client:
    """`head` has the headers between the request line and the length, with places for what differs."""

    name: str
    head: str
    shape: Callable[[Body], Body]
    """The body of this client for one that has only a model, a text as input, and flags."""
    length: str = "content-length"


def _as_it_is(body: Body) -> Body:
    return body


def _instructed(body: Body) -> Body:
    return body | ({"instructions": _SYSTEM, "temperature": 0.2} if "input" in body else {"temperature": 0.2})


def _in_parts(body: Body) -> Body:
    """The AI SDK's provider for OpenAI: a system message, and content in parts."""
    if "input" not in body:
        return body
    asked = {"role": "user", "content": [{"type": "input_text", "text": body["input"]}]}
    return body | {"input": [{"role": "system", "content": _SYSTEM}, asked]}


def _in_items(body: Body) -> Body:
    """The AI SDK's provider for Open Responses: items, and instructions beside them."""
    if "input" not in body:
        return body
    part = {"type": "input_text", "text": body["input"]}
    asked = {"type": "message", "role": "user", "content": [part]}
    return body | {"input": [asked], "instructions": _SYSTEM}


def _python(more: str = "") -> str:
    return (
        "Host: 127.0.0.1:{port}\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
        "authorization: Bearer {key}\r\naccept: application/json\r\ncontent-type: application/json\r\n"
        "user-agent: OpenAI/Python 3.49.0\r\nx-stainless-lang: python\r\n"
        "x-stainless-package-version: 3.49.0\r\nx-stainless-os: Linux\r\nx-stainless-arch: x64\r\n"
        "x-stainless-runtime: CPython\r\nx-stainless-runtime-version: 3.11.7\r\nx-stainless-async: false\r\n"
        f"x-stainless-retry-count: {{retries}}\r\nx-stainless-read-timeout: 600\r\n{more}"
    )


def _ai_sdk(package: str) -> str:
    return (
        "host: 127.0.0.1:{port}\r\nconnection: keep-alive\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\nuser-agent: {package} ai-sdk/provider-utils/4.0.65 "
        f"runtime/node.js/v20.20.2\r\naccept: */*\r\n{_BROWSER}"
    )


_NODE = (
    "host: 127.0.0.1:{port}\r\nconnection: keep-alive\r\naccept: application/json\r\n"
    "user-agent: OpenAI/JS 6.49.0\r\nx-stainless-retry-count: {retries}\r\nx-stainless-lang: js\r\n"
    "x-stainless-package-version: 6.49.0\r\nx-stainless-os: Linux\r\nx-stainless-arch: x64\r\n"
    "x-stainless-runtime: node\r\nx-stainless-runtime-version: v20.20.2\r\n"
    f"authorization: Bearer {{key}}\r\ncontent-type: application/json\r\n{_BROWSER}"
)

PYTHON = Client("openai for Python", _python(), _as_it_is, "Content-Length")
NODE = Client("openai for Node", _NODE, _as_it_is)
AI_SDK = Client("AI SDK, openai", _ai_sdk("ai/6.0.326"), _in_parts)
TRACED = Client(
    "openai for Python, traced", _python("traceparent: {trace}\r\n"), _instructed, "Content-Length"
)
AI_SDK_OPEN = Client("AI SDK, open-responses", _ai_sdk("ai-sdk/open-responses/1.0.39"), _in_items)

CLIENTS = (PYTHON, NODE, AI_SDK, TRACED, AI_SDK_OPEN)
"""Connections take them in turn."""


def requests(client: Client, path: str, port: int, key: str, body: Body) -> Iterator[bytes]:
    """One request after the other, as this client writes them on one connection."""
    size = len(str(body))
    count = VARIANTS if size < _LONG else 2
    return cycle([_rendered(client, path, port, key, body, n) for n in range(count)])


def _rendered(client: Client, path: str, port: int, key: str, body: Body, n: int) -> bytes:
    asked = client.shape(_varied(body, _ASIDES[n % len(_ASIDES)]))
    content = json.dumps(asked, ensure_ascii=False, separators=(",", ":")).encode()
    trace = f"00-{n * 7919 + 1:032x}-{n * 104729 + 1:016x}-01"
    head = client.head.format(port=port, key=key, retries=int(n == VARIANTS - 1), trace=trace)
    start = f"POST {path} HTTP/1.1\r\n{head}{client.length}: {len(content)}\r\n\r\n"
    return start.encode() + content


def _varied(body: Body, aside: str) -> Body:
    if "messages" in body:
        *before, last = body["messages"]
        return body | {"messages": [*before, last | {"content": f"{last['content']} {aside}"}]}
    return body | {"input": f"{body['input']} {aside}"}
