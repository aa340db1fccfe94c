"""Every endpoint of the gateway, in the groups of its description, and the search for the handler."""

import re
from difflib import get_close_matches

from antiphon.bridges.door import OPEN_RESPONSES_DOOR, Door
from antiphon.bridges.vscode import VsCodeRequest
from antiphon.bridges.vscode.door import VSCODE
from antiphon.server.api.objects import Description
from antiphon.server.api.openapi import document
from antiphon.server.doors import door_endpoint
from antiphon.server.endpoint import Endpoint, EndpointGroup
from antiphon.server.exchange import Exchange, Handler, Head
from antiphon.server.gateway import Gateway
from antiphon.server.routes import (
    ai_sdk,
    chat_completions,
    chats,
    codex_search,
    containers,
    conversations,
    files,
    hashbrown,
    info,
    messages,
    models,
    responses,
    session,
    stored_responses,
    vector_stores,
    web,
)
from antiphon.spec.errors import SpecError, invalid_request, not_found


async def describe(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(document(GROUPS))


GROUPS = (
    EndpointGroup(
        "Responses", "Create responses. The contract is Open Responses 2026-04-24.", responses.ENDPOINTS
    ),
    EndpointGroup(
        "Stored responses",
        "What was stored can be read, continued, resumed as a stream, cancelled and deleted. "
        "Everything belongs to the key's tenant; another tenant's id does not exist.",
        stored_responses.ENDPOINTS,
    ),
    EndpointGroup(
        "Conversations",
        "Lists of items that responses can continue: send `conversation` with a request.",
        conversations.ENDPOINTS,
    ),
    EndpointGroup(
        "Chats",
        "Trees of responses with a title, which can be listed and searched: send `antiphon:chat` with a "
        "request. The terminal, the web app and the AI SDK bridge all show these.",
        chats.ENDPOINTS,
    ),
    EndpointGroup(
        "Files",
        "Files that requests name by their id, in the shape of the Messages API for a client that sends "
        "`anthropic-version`; vector stores that the hosted tool `file_search` looks "
        "through, and containers in which `code_interpreter` keeps files. Everything belongs to the key's "
        "tenant.",
        files.ENDPOINTS + vector_stores.ENDPOINTS + containers.ENDPOINTS,
    ),
    EndpointGroup(
        "Messages",
        "The Messages API for clients that speak it, with any model behind it.",
        messages.ENDPOINTS,
    ),
    EndpointGroup(
        "Compatible APIs",
        "APIs of other vendors, for clients that do not speak Responses.",
        chat_completions.ENDPOINTS,
    ),
    EndpointGroup(
        "Bridges",
        "The same runs for user interfaces, each in the protocol of its own client.",
        (
            *ai_sdk.ENDPOINTS,
            *hashbrown.ENDPOINTS,
            door_endpoint(
                VSCODE,
                "chatWithVsCode",
                "Chat with an extension of VS Code",
                "Messages, parts and tools are those of VS Code's language model API. The answer is a stream "
                "of lines, each a JSON object: `start`, parts, and `finish`. An empty line keeps the "
                "connection alive.",
                body=VsCodeRequest,
                answer="application/x-ndjson",
            ),
        ),
    ),
    EndpointGroup(
        "Server",
        "Models, health, and this description.",
        (
            *codex_search.ENDPOINTS,
            *models.ENDPOINTS,
            *session.ENDPOINTS,
            *info.ENDPOINTS,
            Endpoint(
                "GET /openapi.json",
                describe,
                "describe",
                "Get this description as OpenAPI",
                answer=Description,
                open=True,
            ),
            *web.ENDPOINTS,
        ),
        uses_store=False,
    ),
)
ENDPOINTS = [endpoint for group in GROUPS for endpoint in group.endpoints]

# --- which handler a request goes to ------------------------------------------------------------------------

_Methods = dict[str, Handler]


def _compile_pattern(path: str) -> re.Pattern[str]:
    rest = re.sub(r"\{(\w+)\.\.\.\}", r"(?P<\1>.+)", path)
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", rest))


_PATHS: dict[str, _Methods] = {}
for _each in ENDPOINTS:
    _PATHS.setdefault(_each.path, {})[_each.method] = _each.bind()
_FIXED = {path: methods for path, methods in _PATHS.items() if "{" not in path}
_PATTERNS = [(_compile_pattern(path), methods) for path, methods in _PATHS.items() if "{" in path]

OPEN_PATHS = frozenset(each.path for each in ENDPOINTS if each.open and "{" not in each.path)
"""Paths without a key: what load balancers and people with a browser ask for."""
OPEN_FOLDERS = tuple(each.path.partition("{")[0] for each in ENDPOINTS if each.open and "{" in each.path)
"""The web app's own files: they hold no data, and ask for the key themselves."""


_DOORS = [*dict.fromkeys(each.door for each in ENDPOINTS if each.door is not OPEN_RESPONSES_DOOR)]


def find_door(head: Head) -> Door:
    """The door whose clients a request comes from, also one that no handler was found for."""
    found = (door for door in _DOORS if door.serves(head.path, head.headers))
    return next(found, OPEN_RESPONSES_DOOR)


def find_handler(head: Head) -> Handler:
    """The handler of this method and path; the head is given the parameters of the path."""
    path = head.path
    methods = _FIXED.get(path)
    if methods is None:
        path = path.rstrip("/") or "/"
        methods = _FIXED.get(path)
    if methods is None:
        for pattern, found in _PATTERNS:
            if match := pattern.fullmatch(path):
                head.params = match.groupdict()
                methods = found
                break
    if methods is None:
        raise SpecError(not_found(_describe_missing_path(head.path)).with_code("unknown_path"))
    method = "GET" if head.method == "HEAD" else head.method
    if method not in methods:
        allowed = ", ".join(methods)
        head.extra_headers = [*head.extra_headers, (b"allow", allowed.encode())]
        error = invalid_request(f"{head.method} is not possible here; use {allowed}")
        raise SpecError(error.with_code("method_not_allowed"), 405)
    return methods[method]


def _describe_missing_path(path: str) -> str:
    message, asked = f"there is nothing at {path[:200]}", path[:200].rstrip("/")
    near = [place for place in (f"/v1{asked}", asked.replace("/v1/v1", "/v1")) if place in _FIXED]
    near = near or get_close_matches(asked, _FIXED, 1, 0.85)
    return f"{message}; did you mean {near[0]}?" if near else message
