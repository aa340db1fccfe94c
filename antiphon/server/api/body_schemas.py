"""What bodies must hold beyond the types of their fields, as JSON Schema, by the name of the schema."""

from typing import get_args

from antiphon.server.api.bridge_schemas import BRIDGE_SCHEMAS
from antiphon.server.api.messages_schemas import MESSAGES_BLOCKS, MESSAGES_SCHEMAS
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
    untyped,
)
from antiphon.spec.content import PARTS, ImageDetail
from antiphon.spec.limits import MAX_IDENTIFIER, MAX_INTEGER
from antiphon.spec.request import USUAL_TIERS
from antiphon.spec.response import EFFORTS
from antiphon.tools.file_search.search_options import (
    CHUNK_SIZES,
    MAX_ATTRIBUTE,
    MAX_ATTRIBUTE_NAME,
    MAX_ATTRIBUTES,
    MAX_QUERIES,
    MAX_QUERY,
    RANKERS,
)

# --- items ------------------------------------------------------------------------------------------------


def _content(*parts: str) -> Schema:
    """A text, or a list of these parts and of those whose types are not known."""
    return any_of(TEXT, _parts(*parts))


def _parts(*parts: str) -> Schema:
    return list_of(*map(ref, parts), untyped([*PARTS]))


_INPUTS = ("InputText", "InputImage", "InputFile")
_OUTPUT: Schema = {"properties": {"output": _content(*_INPUTS, "InputVideo")}}
_ITEMS: dict[str, Schema] = {
    "Message": any_of(
        has(role={"const": "user"}, content=_content(*_INPUTS)),
        has(role={"enum": ["system", "developer"]}, content=_content("InputText")),
        has(role={"const": "assistant"}, content=_content("OutputText", "Refusal")),
    ),
    "InputImage": {"properties": {"detail": nullable({"enum": [*get_args(ImageDetail)]})}},
    "FunctionCallOutput": _OUTPUT,
    "CustomToolCallOutput": _OUTPUT,
    "Reasoning": {
        "properties": {"summary": _parts("SummaryText"), "content": nullable(_parts("ReasoningText"))}
    },
    "ItemReference": has(id=NAMED),
    "FunctionToolChoice": has(name=NAMED),
}

# --- responses --------------------------------------------------------------------------------------------

_SAID = {"type": ["string", "array"]}
_ITEMS_GIVEN = list_of(ref("InputItem"))
_TOKENS = list_of({"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}, least=1)
_PREVIOUS = has(previous_response_id=STRING)
ASKS: Schema = any_of(
    has(input=_SAID), has(instructions=STRING), _PREVIOUS, has(conversation=STRING), has(prompt=OBJECT)
) | {
    "not": any_of(
        has(previous_response_id=STRING, conversation=STRING),
        has(background={"const": True}, store={"const": False}),
        optional(has(tool_choice={"const": "required"}), tools={"maxItems": 0}),
    )
}
"""There has to be something to answer, and some values of fields do not go together."""
_REQUESTS: dict[str, Schema] = {
    "CompactRequest": {
        "properties": {"input": nullable(TEXT, _ITEMS_GIVEN)},
        **any_of(has(input=_SAID), _PREVIOUS),
    },
    "Request": {
        "properties": {
            "input": nullable(TEXT, _ITEMS_GIVEN),
            # More of these are taken in the dialects of clients that send them.
            "service_tier": {"enum": [None, *USUAL_TIERS]},
            "safety_identifier": nullable(STRING | {"maxLength": MAX_IDENTIFIER}),
        }
    },
    "EmbeddingBody": {
        "properties": {
            "input": any_of(
                TEXT, list_of(TEXT, least=1), _TOKENS, list_of(_TOKENS, least=1) | {"maxItems": 2048}
            )
        }
    },
    "ReasoningParam": {"properties": {"effort": {"enum": [None, *EFFORTS]}}},
    "ConversationBody": {"properties": {"items": nullable(list_of(ref("NewItem")))}},
}

# --- chat completions -------------------------------------------------------------------------------------

_CHAT_TEXT = typed("text", text=TEXT) | {"propertyNames": FIELD_NAMES}
_CHAT_IMAGE = typed("image_url", image_url=any_of(STRING, {"type": "object", **has(url=STRING)})) | {
    "propertyNames": FIELD_NAMES
}
_CHAT_FILE = typed("file", file=OBJECT) | {"propertyNames": FIELD_NAMES}
_CHAT_PARTS = ("text", "image_url", "file", *PARTS)
_CALLED = any_of(
    has(tool_calls=list_of(ref("ToolCallBody"), least=1)), has(function_call=ref("FunctionCallBody"))
)
_ANSWERED = has(role={"enum": ["tool", "function"]})


def _chat_content(*parts: Schema) -> Schema:
    return any_of(TEXT, list_of(*parts, untyped(_CHAT_PARTS)))


_CHAT_INPUT = _chat_content(_CHAT_TEXT, _CHAT_IMAGE, _CHAT_FILE, *map(ref, _INPUTS))
_CHATS: dict[str, Schema] = {
    "ChatMessage": any_of(
        has(role={"const": "user"}, content=_CHAT_INPUT),
        has(role={"enum": ["system", "developer"]}, content=_chat_content(_CHAT_TEXT, ref("InputText"))),
        has(
            role={"const": "assistant"},
            content=_chat_content(_CHAT_TEXT, typed("output_text", text=TEXT), ref("Refusal")),
        ),
        has(role={"const": "assistant"}) | _CALLED,
        optional(has(role={"const": "tool"}, tool_call_id=NAMED), content=nullable(_CHAT_INPUT)),
        optional(has(role={"const": "function"}, name=STRING), content=nullable(TEXT)),
    ),
    "ToolCallBody": any_of(has(function=ref("FunctionCallBody")), has(custom=ref("CustomCallBody"))),
    "ToolBody": any_of(
        optional(has(function=ref("FunctionBody")), type={"enum": [None, "function"]}),
        has(type={"const": "custom"}, custom=ref("CustomBody")),
        has(type=NAMED | {"not": {"enum": ["function", "custom"]}}),
    ),
    "ToolChoiceBody": {"propertyNames": None}
    | any_of(
        optional(has(function=ref("NamedBody")), type={"enum": [None, "function"]}),
        has(type={"const": "custom"}, custom=ref("NamedBody")),
        has(type={"const": "allowed_tools"}, allowed_tools=ref("AllowedToolsBody")),
    ),
    "ResponseFormatBody": any_of(
        has(type={"enum": ["text", "json_object"]}),
        has(type={"const": "json_schema"}, json_schema=ref("JsonSchemaBody")),
    ),
    "NamedBody": {"propertyNames": None},
    "AllowedToolsBody": {"propertyNames": None},
    # Each call has its output after it, and each output its call: by its id, or its name in the older form.
    "ChatCompletionBody": any_of(
        {"properties": {"messages": {"items": {"not": any_of(_CALLED, _ANSWERED)}}}},
        {"properties": {"messages": {"allOf": [{"contains": _CALLED}, {"contains": _ANSWERED}]}}},
    )
    | {
        "properties": {
            "n": {"enum": [1, None]},
            "modalities": nullable(list_of({"const": "text"})),
            "audio": {"type": "null"},
        }
    },
}

# --- files ------------------------------------------------------------------------------------------------

_CHUNKING = nullable(
    typed("auto"),
    typed(
        "static",
        static=OBJECT
        | has(
            max_chunk_size_tokens={
                "type": "integer",
                "minimum": CHUNK_SIZES.start,
                "maximum": CHUNK_SIZES.stop - 1,
            },
            chunk_overlap_tokens={
                "description": "At most half of the size.",
                "type": "integer",
                "minimum": 0,
                "maximum": CHUNK_SIZES.start // 2,
            },
        ),
    ),
)
_PLAIN = {"type": ["string", "number", "boolean"]}
_COMPARED = {"enum": ["eq", "ne", "gt", "gte", "lt", "lte"]}
_FILTER = any_of(
    OBJECT | has(type=_COMPARED, key=STRING, value=_PLAIN),
    OBJECT | has(type={"enum": ["in", "nin"]}, key=STRING, value=list_of(_PLAIN)),
    OBJECT | has(type={"enum": ["and", "or"]}, filters=list_of(ref("AttributeFilter"), least=1)),
)
_QUERY = NAMED | {"maxLength": MAX_QUERY}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_WEIGHT = {"type": "number", "minimum": 0, "maximum": 1_000_000}
_WEIGHED = any_of(
    *({"properties": {f"{name}_weight": {"exclusiveMinimum": 0}}} for name in ("embedding", "text"))
)
_RANKING = optional(
    OBJECT,
    ranker={"enum": [None, *RANKERS]},
    score_threshold=nullable(_SHARE),
    hybrid_search=nullable(OBJECT | has(embedding_weight=_WEIGHT, text_weight=_WEIGHT) | _WEIGHED),
)
_FILES: dict[str, Schema] = {
    "FileForm": {"propertyNames": {"minLength": 1}},
    "VectorStoreBody": {"properties": {"chunking_strategy": _CHUNKING}},
    "VectorStoreFileBody": {
        "properties": {
            "chunking_strategy": _CHUNKING,
            "attributes": nullable(
                {
                    "type": "object",
                    "maxProperties": MAX_ATTRIBUTES,
                    "propertyNames": {"maxLength": MAX_ATTRIBUTE_NAME},
                    "additionalProperties": _PLAIN | {"maxLength": MAX_ATTRIBUTE},
                }
            ),
        }
    },
    "VectorStoreSearchBody": {
        "properties": {
            "query": any_of(_QUERY, list_of(_QUERY, least=1) | {"maxItems": MAX_QUERIES}),
            "filters": nullable(ref("AttributeFilter")),
            "ranking_options": nullable(_RANKING),
        }
    },
}

INPUT_SCHEMAS: dict[str, Schema] = {
    "InputFunctionCall": {"properties": {"arguments": {"type": ["string", "object", "array"]}}},
    "InputReasoning": {
        "properties": {
            "summary": nullable(TEXT, _parts("SummaryText")),
            "content": nullable(TEXT, _parts("ReasoningText")),
        }
    },
}
"""The same for items on their way in, which may be written in more ways than on their way out."""
BODY_SCHEMAS = _ITEMS | _REQUESTS | _CHATS | _FILES | BRIDGE_SCHEMAS | MESSAGES_SCHEMAS
"""What is added to a schema."""
MORE_SCHEMAS: dict[str, Schema] = {
    "AttributeFilter": {"title": "AttributeFilter", **_FILTER},
    **MESSAGES_BLOCKS,
}
"""Schemas that no Struct has."""
