"""The table of markers, against the headers that each client was seen to send by itself."""

from pathlib import Path

import pytest

from antiphon.stream.client_dialects import MARKERS, UNMARKED, detect_dialect
from antiphon.stream.dialects import AI_SDK, OPEN_RESPONSES, OPENAI, Dialect

DOCS = Path(__file__).parents[2] / "docs" / "dialects.md"

# Only those of its headers that could tell a client from another, as a socket received them.
SEEN: dict[str, tuple[dict[str, str], Dialect]] = {
    "openai for Python 2.54.0": (
        {"user-agent": "OpenAI/Python 2.54.0", "x-stainless-lang": "python"},
        OPENAI,
    ),
    "openai for JavaScript 6.49.0": ({"user-agent": "OpenAI/JS 6.49.0", "x-stainless-lang": "js"}, OPENAI),
    "LangChain for Python (langchain-openai 1.7.3)": (
        {"user-agent": "OpenAI/Python 2.54.0", "x-stainless-lang": "python"},
        OPENAI,
    ),
    "LangChain for JavaScript (@langchain/openai 1.5.8)": (
        {
            "user-agent": "langchainjs-openai/1.0.0 ((node/v20.20.2; linux; x64))",
            "x-stainless-lang": "js",
        },
        OPENAI,
    ),
    "OpenAI Agents SDK for Python 0.20.0": (
        {"user-agent": "Agents/Python 0.20.0", "x-stainless-lang": "python"},
        OPENAI,
    ),
    "OpenAI Agents SDK for JavaScript 0.20.0": (
        {"user-agent": "Agents/JavaScript 0.20.0", "x-stainless-lang": "js"},
        OPENAI,
    ),
    "Pydantic AI 2.31.1": ({"user-agent": "pydantic-ai/2.31.1", "x-stainless-lang": "python"}, OPENAI),
    "LlamaIndex (llama-index-llms-openai 0.8.3)": (
        {"user-agent": "OpenAI/Python 2.54.0", "x-stainless-lang": "python"},
        OPENAI,
    ),
    "Instructor 1.17.0": ({"user-agent": "OpenAI/Python 2.54.0", "x-stainless-lang": "python"}, OPENAI),
    "Codex 0.166.0": (
        {
            "user-agent": "codex_exec/0.166.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.166.0)",
            "originator": "codex_exec",
        },
        OPENAI,
    ),
    "AI SDK, @ai-sdk/openai 3.0.139, streaming": (
        {"user-agent": "ai-sdk/openai/3.0.139 ai-sdk/provider-utils/4.0.65 runtime/node.js/v20.20.2"},
        OPENAI,
    ),
    "AI SDK, @ai-sdk/open-responses 1.0.39, streaming": (
        {"user-agent": "ai-sdk/open-responses/1.0.39 ai-sdk/provider-utils/4.0.50 runtime/node.js/v20.20.2"},
        AI_SDK,
    ),
    "AI SDK 6.0.326, `generateText`": (
        {"user-agent": "ai/6.0.326 ai-sdk/provider-utils/4.0.50 runtime/node.js/v20.20.2"},
        AI_SDK,
    ),
    "opencode 1.18.33": (
        {"user-agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.40 runtime/bun/1.3.14"},
        AI_SDK,
    ),
    "LiteLLM 1.106.2": ({"user-agent": "litellm/1.106.2"}, AI_SDK),
    "curl 7.88": ({"user-agent": "curl/7.88.1"}, OPEN_RESPONSES),
    "httpx 0.28.1": ({"user-agent": "python-httpx/0.28.1"}, OPEN_RESPONSES),
    "aiohttp 3.14.5": ({"user-agent": "Python/3.11 aiohttp/3.14.5"}, OPEN_RESPONSES),
    "requests 2.34.2": ({"user-agent": "python-requests/2.34.2"}, OPEN_RESPONSES),
    "`fetch` of Node 20": ({"user-agent": "node", "sec-fetch-mode": "cors"}, OPEN_RESPONSES),
    "DSPy 3.4.1": ({"user-agent": "lm15/stdlib"}, OPEN_RESPONSES),
    "Antiphon's own client": ({"user-agent": "antiphon/0.1.0"}, OPEN_RESPONSES),
    "`antiphon comply`": ({"user-agent": "python-httpx/0.28.1"}, OPEN_RESPONSES),
}


@pytest.mark.parametrize("client", SEEN)
def test_a_client_is_known_by_what_it_sends_by_itself(client: str) -> None:
    sent, dialect = SEEN[client]
    assert detect_dialect({name.encode(): value.encode() for name, value in sent.items()}) is dialect


def test_every_client_that_was_tried_stands_where_it_is_found() -> None:
    seen_clients = {name: marker.dialect for marker in MARKERS for name in marker.seen_clients}
    assert seen_clients | dict.fromkeys(UNMARKED, OPEN_RESPONSES) == {
        name: seen[1] for name, seen in SEEN.items()
    }


def test_the_documented_table_is_the_one_that_is_used() -> None:
    rows = ["| a request has | dialect | clients that were tried |", "|---|---|---|"]
    for marker in MARKERS:
        header = marker.header.decode().title() if b"-" in marker.header else marker.header.decode()
        told = f"`{header}` with `{marker.holds.decode()}`" if marker.holds else f"`{header}`"
        rows.append(f"| {told} | `{marker.dialect.name}` | {', '.join(marker.seen_clients)} |")
    rows.append(f"| none of these | `open_responses` | {', '.join(UNMARKED)} |")
    table = "\n".join(rows)
    told = DOCS.read_text().partition("<!-- clients -->")[2].partition("<!-- end of clients -->")[0]
    assert told.strip() == table
