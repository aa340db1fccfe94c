"""What a body of the Messages API must hold beyond the types of its fields, as JSON Schema."""

from antiphon.server.api.schema_parts import (
    NAMED,
    OBJECT,
    STRING,
    TEXT,
    Schema,
    any_of,
    has,
    list_of,
    nullable,
    optional,
    ref,
    typed,
    untyped,
)
from antiphon.spec.limits import MAX_INTEGER

_MAYBE = nullable(STRING)


def _block(type: str, /, **fields: Schema) -> Schema:
    """A content block, which may be marked for the cache."""
    return optional(typed(type, **fields), cache_control=nullable(OBJECT))


_TEXT = _block("text", text=TEXT)
_BASE64 = typed("base64", media_type=STRING, data=STRING)
_URL, _FILE = typed("url", url=STRING), typed("file", file_id=STRING)
_IMAGE = _block("image", source=any_of(_BASE64, _URL, _FILE))
_WORDS = any_of(STRING, list_of(_TEXT))
_DOCUMENT = optional(
    _block(
        "document",
        source=any_of(
            _BASE64,
            _URL,
            _FILE,
            typed("text", media_type=STRING, data=STRING),
            typed("content", content=_WORDS),
        ),
    ),
    title=_MAYBE,
    context=_MAYBE,
    citations=nullable(OBJECT),
)
_FOUND = optional(_block("search_result", content=_WORDS), title=_MAYBE, source=_MAYBE)
_TOOL_NAMED = _block("tool_reference", tool_name=STRING)
_PARTS = (_TEXT, _IMAGE, _DOCUMENT, _FOUND, _TOOL_NAMED)
_KNOWN = (
    "text",
    "image",
    "document",
    "search_result",
    "tool_reference",
    "tool_result",
    "tool_use",
    "server_tool_use",
    "web_search_tool_result",
    "thinking",
    "redacted_thinking",
    "compaction",
    "tool_addition",
    "tool_removal",
)
_OWN = optional(untyped(_KNOWN), cache_control=nullable(OBJECT))
_OWN["properties"]["type"] = _OWN["properties"]["type"] | {"pattern": "^[A-Za-z0-9_]+$"}
_RESULT = optional(
    _block("tool_result", tool_use_id=NAMED),
    content=nullable(TEXT, list_of(*_PARTS)),
    is_error=nullable({"type": "boolean"}),
)
_CALL = _block(
    "tool_use", id=NAMED, name={"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}, input=OBJECT
)
_THINKING = optional(_block("thinking", thinking=TEXT), signature=_MAYBE)
_REDACTED = _block("redacted_thinking", data=STRING)

_TOOL = any_of(
    optional(
        OBJECT | has(name={"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,128}$"}, input_schema=OBJECT),
        type={"enum": [None, "custom"]},
        description=_MAYBE,
        strict=nullable({"type": "boolean"}),
        cache_control=nullable(OBJECT),
    ),
    untyped(["custom"]),
)
_CREATES = typed("create")
_CONTINUES = typed("continue", previous_message_id=STRING)
_SUMMARIZE = optional(typed("summarize"), instructions=_MAYBE)

MESSAGES_BLOCKS: dict[str, Schema] = {
    "UserBlock": {"title": "UserBlock", **any_of(*_PARTS, _RESULT, _OWN)},
    "AssistantBlock": {"title": "AssistantBlock", **any_of(_TEXT, _CALL, _THINKING, _REDACTED, _OWN)},
}
"""The content blocks of each side."""

MESSAGES_SCHEMAS: dict[str, Schema] = {
    "MessageParam": any_of(
        has(role={"const": "user"}, content=any_of(TEXT, list_of(ref("UserBlock")))),
        has(role={"const": "assistant"}, content=any_of(TEXT, list_of(ref("AssistantBlock")))),
        has(role={"const": "system"}, content=any_of(TEXT, list_of(_TEXT))),
    ),
    "MessagesBody": any_of(
        {"properties": {"messages": {"minItems": 1}, "thread": nullable(_CREATES)}},
        optional(has(thread=_CONTINUES), system={"enum": [None, ""]}, tools={"maxItems": 0}),
    )
    | {
        "not": any_of(
            has(compaction=OBJECT, messages={"items": {"properties": {"role": {"const": "system"}}}}),
            has(compaction=OBJECT, context_management=OBJECT),
            has(thread=OBJECT, store={"const": False}),
        ),
        "properties": {
            "max_tokens": nullable({"type": "integer", "minimum": 1, "maximum": MAX_INTEGER}),
            "system": nullable(TEXT, list_of(_TEXT)),
            "tools": list_of(_TOOL),
            "tool_choice": nullable(
                optional(
                    OBJECT | has(type={"enum": ["auto", "any", "none"]}),
                    disable_parallel_tool_use=nullable({"type": "boolean"}),
                ),
                typed("tool", name=STRING),
            ),
            "thinking": nullable(
                optional(
                    OBJECT | has(type={"enum": ["enabled", "adaptive", "disabled"]}),
                    budget_tokens=nullable({"type": "integer", "minimum": 1}),
                    display=_MAYBE,
                )
            ),
            "output_config": nullable(
                optional(OBJECT, effort=_MAYBE, format=nullable(typed("json_schema", schema=OBJECT)))
            ),
            "metadata": nullable(optional(OBJECT, user_id=_MAYBE)),
            "thread": nullable(_CREATES, _CONTINUES),
            "compaction": nullable(_SUMMARIZE),
        },
    },
}
