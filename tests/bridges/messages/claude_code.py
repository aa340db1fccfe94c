"""Bodies as Claude Code 2.1.325 sends them: fields and shapes, written down by hand, without its prompts."""

from typing import Any

Json = dict[str, Any]

BETAS = ",".join(
    [
        "claude-code-20250219",
        "interleaved-thinking-2025-05-14",
        "context-management-2025-06-27",
        "mid-conversation-tool-changes-2026-07-01",
        "thinking-token-count-2026-05-13",
        "advanced-tool-use-2025-11-20",
        "effort-2025-11-24",
    ]
)
HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": BETAS,
    "x-app": "cli",
    "x-claude-code-session-id": "0d7f0c3e-0000-4000-8000-000000000000",
    "user-agent": "claude-cli/2.1.325 (external, cli)",
    "x-stainless-lang": "js",
}
PATH = "/v1/messages?beta=true"
MARK: Json = {"type": "ephemeral"}


def tool(name: str, *required: str, **more: Any) -> Json:
    properties = {one: {"type": "string", "description": one} for one in required}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"name": name, "description": f"{name}.", "input_schema": schema, **more}


TOOLS = [
    tool("Bash", "command"),
    tool("Edit", "file_path", "old_string", "new_string"),
    tool("Write", "file_path", "content"),
    tool("mcp__docs__look_up", "query", defer_loading=True),
]


def turn(*messages: Json, **more: Any) -> Json:
    """A turn of the main loop."""
    return {
        "model": "claude-opus-5-5",
        "messages": list(messages),
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.325; cc_entrypoint=cli;"},
            {"type": "text", "text": "You are an agent.", "cache_control": MARK},
            {"type": "text", "text": "Work in this folder.", "cache_control": MARK},
        ],
        "tools": TOOLS,
        "metadata": {"user_id": '{"device_id":"' + "0" * 64 + '","account_uuid":"","session_id":"0d7f"}'},
        "max_tokens": 64000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": True,
        **more,
    }


def user(text: str, *, mark: bool = False) -> Json:
    block: Json = {"type": "text", "text": text}
    return {"role": "user", "content": [{**block, "cache_control": MARK} if mark else block]}


REMINDER: Json = {"role": "system", "content": [{"type": "text", "text": "The date has changed."}]}

TITLE: Json = {
    "model": "claude-haiku-5-5",
    "messages": [user("Write a title for: fix the tests")],
    "system": [{"type": "text", "text": "You write titles."}],
    "tools": [],
    "metadata": {"user_id": "u"},
    "max_tokens": 32000,
    "temperature": 1,
    "output_config": {
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {"title": {"type": "string"}},
                "required": ["title"],
                "additionalProperties": False,
            },
        }
    },
    "stream": True,
}
QUOTA: Json = {
    "model": "claude-haiku-5-5",
    "max_tokens": 1,
    "messages": [{"role": "user", "content": "quota"}],
}
SEARCH: Json = {
    "model": "claude-opus-5-5",
    "messages": [user("Perform a web search for the query: antiphons")],
    "system": [{"type": "text", "text": "You search."}],
    "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
    "tool_choice": {"type": "tool", "name": "web_search"},
    "max_tokens": 64000,
    "stream": True,
}
