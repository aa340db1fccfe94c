"""What the bodies of the bridges must hold beyond the types of their fields, as JSON Schema."""

from antiphon.bridges.ai_sdk.request import TRIGGERS
from antiphon.server.api.schema_parts import (
    FIELD_NAMES,
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
)
from antiphon.spec.limits import MAX_CALL_ID

_CALL_ID = NAMED | {"maxLength": MAX_CALL_ID}
_NAME = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}
_SAID = STRING | {"pattern": r"\S"}
_UI_TEXT, _UI_WORDS = typed("text", text=TEXT), typed("text", text=_SAID)
_UI_FILE = typed("file", url={"type": "string", "pattern": "^https?://"})
_UI_TOOL = optional(
    {
        "type": "object",
        **has(
            type={
                "type": "string",
                "pattern": "^tool-[a-zA-Z0-9_-]{1,64}$",
                "not": {"const": "tool-invocation"},
            },
            toolCallId=_CALL_ID,
        ),
    },
    state={
        "enum": [
            "input-streaming",
            "input-available",
            "approval-requested",
            "approval-responded",
            "output-available",
            "output-error",
            "output-denied",
        ]
    },
    input={},
    output={},
)
_UI_SILENT = {
    "type": "object",
    **has(type={"type": "string", "pattern": "^(data-.*|source-url|step-start)$"}),
}


def _ui_message(roles: list[str], *parts: Schema) -> Schema:
    """A message with parts, or with a text; in one of them it says something."""
    return {
        "type": "object",
        **optional(has(role={"enum": roles}), id=nullable(STRING)),
        **any_of(
            has(parts=list_of(*parts, _UI_SILENT) | {"contains": _UI_WORDS}),
            optional(has(content=_SAID), parts=nullable({"type": "array", "maxItems": 0})),
        ),
    }


_UI_MESSAGE = any_of(
    _ui_message(["user"], _UI_TEXT, _UI_FILE),
    _ui_message(["system", "developer"], _UI_TEXT),
    _ui_message(["assistant"], _UI_TEXT, typed("reasoning", text=TEXT), _UI_TOOL),
)
_SHOWN = list_of(_UI_MESSAGE, least=1)

# --- VS Code ----------------------------------------------------------------------------------------------

_BASE64 = STRING | {"pattern": "^([A-Za-z0-9+/]{4})*$"}
_BYTES = list_of({"type": "integer", "minimum": 0, "maximum": 255})
# A part is known by its type, or by its fields.
_TEXT_PART = any_of(typed("text", value=_SAID), OBJECT | has(value=_SAID) | {"additionalProperties": False})
_CALL_PART = optional(OBJECT | has(callId=_CALL_ID, name=_NAME), input=nullable(OBJECT))
_RESULT_PART = OBJECT | has(callId=_CALL_ID, content=list_of(_TEXT_PART))
_DATA_PART = OBJECT | has(
    mimeType=STRING, data=any_of(_BASE64, _BYTES, typed("Buffer", data=any_of(_BASE64, _BYTES)))
)
_THINKING_PART = typed("thinking", value=STRING)

_ASKS = has(role={"enum": [1, 2]})

BRIDGE_SCHEMAS: dict[str, Schema] = {
    "ChatBody": any_of(
        has(messages=_SHOWN),
        optional(has(message=_UI_MESSAGE), messages={"type": "null"}),
        optional(
            has(trigger={"enum": ["regenerate-message", "regenerate-assistant-message"]}, id=NAMED),
            messages={"type": "null"},
            message={"type": "null"},
        ),
    )
    | {
        "propertyNames": None,
        "not": optional(
            has(resumable={"const": True}), id={"enum": [None, ""]}, session_id={"enum": [None, ""]}
        ),
        "properties": {
            "id": nullable(STRING | {"maxLength": 512}),
            "session_id": nullable(STRING | {"maxLength": 512}),
            "trigger": {"enum": [None, *TRIGGERS]},
        },
    },
    "VsCodeRequest": {
        "properties": {
            "messages": list_of(ref("VsCodeMessage")) | {"contains": _ASKS},
            "modelOptions": nullable(OBJECT | {"propertyNames": FIELD_NAMES}),
        }
    },
    "VsCodeMessage": any_of(
        has(role={"const": 1}, content=any_of(_SAID, list_of(_TEXT_PART, _RESULT_PART, _DATA_PART, least=1))),
        has(
            role={"const": 2},
            content=any_of(_SAID, list_of(_TEXT_PART, _CALL_PART, _DATA_PART, _THINKING_PART, least=1)),
        ),
        has(role={"const": 3}, content=any_of(_SAID, list_of(_TEXT_PART, _DATA_PART, least=1))),
    ),
    "VsCodeOptions": {"additionalProperties": False},
}
