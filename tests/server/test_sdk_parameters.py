"""What `docs/parameters.md` says of the parameters of the SDKs, held against the packages and the gateway."""

import re
from pathlib import Path
from typing import Any

import pytest
from anthropic.types.beta.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.beta.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.embedding_create_params import EmbeddingCreateParams
from openai.types.responses.response_compact_params import ResponseCompactParams
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import Json
from tests.server.servers import Serving

PAGE = (Path(__file__).parents[2] / "docs" / "parameters.md").read_text(encoding="utf-8")
TYPES: dict[str, tuple[Any, ...]] = {
    "The Messages API": (
        MessageCreateParamsNonStreaming,
        MessageCreateParamsStreaming,
        MessageCountTokensParams,
    ),
    "Chat completions": (CompletionCreateParamsNonStreaming, CompletionCreateParamsStreaming),
    "Responses": (ResponseCreateParamsNonStreaming, ResponseCreateParamsStreaming),
    "Compaction": (ResponseCompactParams,),
    "Embeddings": (EmbeddingCreateParams,),
}
HI = [{"role": "user", "content": "Hi"}]
DOORS: dict[str, tuple[str, Json]] = {
    "The Messages API": ("/v1/messages", {"max_tokens": 99, "messages": HI}),
    "Chat completions": ("/v1/chat/completions", {"messages": HI}),
    "Responses": ("/v1/responses", {"input": "Hi"}),
    "Compaction": ("/v1/responses/compact", {"input": "Hi"}),
}
# A value of each parameter that is refused, or harmless to lose.
VALUES: dict[str, Json] = {
    "The Messages API": {
        "billing_policy": {"type": "billing_policy", "bill_to": "user_profile"},
        "cache_control": {"type": "ephemeral"},
        "container": "container_1",
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "diagnostics": {"previous_message_id": "msg_1"},
        "fallback_credit_token": "token",
        "fallbacks": "default",
        "inference_geo": "eu",
        "mcp_servers": [{"type": "url", "name": "docs", "url": "https://mcp.example"}],
        "speed": "fast",
    },
    "Chat completions": {
        "audio": {"voice": "alloy", "format": "wav"},
        "moderation": {"model": "omni"},
        "n": 2,
        "prediction": {"type": "content", "content": "x"},
        "prompt_cache_key": "key",
        "prompt_cache_options": {"mode": "explicit"},
        "prompt_cache_retention": "24h",
        "service_tier": "flex",
        "verbosity": "low",
        "web_search_options": {},
    },
    "Responses": {
        "access_programs": {},
        "context_management": [{"type": "compaction"}],
        "image": {},
        "moderation": {"model": "omni"},
        "prompt": {"id": "pmpt_1"},
        "prompt_cache_key": "key",
        "prompt_cache_options": {"mode": "explicit"},
        "prompt_cache_retention": "24h",
        "service_tier": "flex",
        "truncation": "auto",
    },
    "Compaction": {
        "image": {},
        "prompt_cache_key": "key",
        "prompt_cache_options": {"mode": "explicit"},
        "prompt_cache_retention": "24h",
        "service_tier": "flex",
    },
}
_HEADERS = {"betas", "user_profile_id", "workspace_id"}
_ROW = re.compile(r"^\| `(\w+)` \| (honoured|refused|harmless) \| (.*) ?\|$", re.MULTILINE)


def rows(door: str) -> dict[str, tuple[str, str]]:
    """Each parameter of a door: what it is, and what becomes of it."""
    section = PAGE.split(f"\n### {door}\n", 1)[1].split("\n#", 1)[0]
    return {name: (kind, text) for name, kind, text in _ROW.findall(section)}


@pytest.mark.parametrize("door", TYPES)
def test_the_page_has_every_parameter_of_the_installed_sdk(door: str) -> None:
    known = {name for one in TYPES[door] for name in one.__required_keys__ | one.__optional_keys__}
    assert set(rows(door)) == known


@pytest.mark.parametrize("door", DOORS)
def test_whatever_is_not_honoured_is_tried(door: str) -> None:
    lost = {name for name, (kind, _) in rows(door).items() if kind != "honoured"}
    assert lost - _HEADERS == set(VALUES[door])


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.mark.parametrize(
    ("door", "name"), [(door, name) for door, values in VALUES.items() for name in values]
)
def test_a_parameter_is_refused_or_leaves_a_receipt(server: Serving, door: str, name: str) -> None:
    """On a chat upstream, which has no place for it: nothing is dropped without a word."""
    path, body = DOORS[door]
    answer = server.client().post(path, json={"model": "model", **body, name: VALUES[door][name]})
    kind, text = rows(door)[name]
    if kind == "refused":
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert (error["code"], error["param"]) == ("unsupported_parameter", name)
        return
    assert answer.status_code == 200, answer.text
    assert ("x-antiphon-receipts" in answer.headers) is ("without a receipt" not in text), name


def test_skills_of_a_container_are_refused_and_billing_oneself_is_not(server: Serving) -> None:
    path, body = DOORS["The Messages API"]
    client = server.client()
    skills = {"skills": [{"type": "anthropic", "skill_id": "pdf"}]}
    error = client.refused(400, "POST", path, json={"model": "model", **body, "container": skills})
    assert (error["code"], error["param"]) == ("unsupported_parameter", "container.skills")
    own = {"type": "billing_policy", "bill_to": "self"}
    client.ok("POST", path, json={"model": "model", **body, "billing_policy": own, "mcp_servers": []})


SCHEMA: Json = {"type": "object", "properties": {}}
TOOLS: list[tuple[str, Json, bool]] = [
    ("Responses", {"output_schema": SCHEMA}, True),
    ("Responses", {"allowed_callers": ["programmatic"]}, True),
    ("Responses", {"allowed_callers": ["direct", "programmatic"]}, False),
    ("Responses", {"defer_loading": True}, False),
    ("The Messages API", {"input_examples": [{"city": "Paris"}]}, True),
    ("The Messages API", {"cache_control": {"type": "ephemeral"}, "eager_input_streaming": True}, False),
    ("Chat completions", {"output_schema": SCHEMA}, True),
]


@pytest.mark.parametrize(("door", "more", "is_told"), TOOLS, ids=str)
def test_a_field_of_a_tool_that_means_something_leaves_a_receipt(
    server: Serving, door: str, more: Json, is_told: bool
) -> None:
    """They were dropped in silence."""
    path, body = DOORS[door]
    tool: Json = {"type": "function", "name": "f", "parameters": SCHEMA, **more}
    if door == "The Messages API":
        tool = {"name": "f", "input_schema": SCHEMA, **more}
    elif door == "Chat completions":
        tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA, **more}}
    client = server.client(X_Antiphon_Receipts="1")
    answer = client.ok("POST", path, json={"model": "model", **body, "tools": [tool]})
    told = [(one["param"], one["action"]) for one in answer.get("antiphon:receipts", [])]
    assert told == ([(f"tools[0].{next(iter(more))}", "dropped")] if is_told else [])
