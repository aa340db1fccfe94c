"""Every one of the 108 schemas of the specification has a type here, and the two agree.

The table says which type; the tests compare names, what is required, values and limits, so that a change on
either side is noticed.
"""

from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import pytest
from msgspec import NODEFAULT, UNSET, Meta, Struct, structs

from antiphon.spec import (
    SpecError,
    content,
    decode_request,
    encode,
    errors,
    events,
    items,
    limits,
    request,
    response,
    tools,
)
from antiphon.spec.error_paths import alternatives, literals
from antiphon.spec.struct_fields import READERS
from antiphon.spec.tolerant_decoder import TolerantDecoder
from tests.spec.validators import EVENT_SCHEMAS, SCHEMAS

OURS: dict[str, Any] = {
    # requests
    "CreateResponseBody": request.Request,
    "CompactResponseMethodPublicBody": request.CompactRequest,
    "WebSocketResponseCreateEvent": request.WebSocketCreate,
    "ReasoningParam": request.ReasoningParam,
    "TextParam": request.TextParam,
    "StreamOptionsParam": request.StreamOptions,
    "IncludeEnum": request.Include,
    "ServiceTierEnum": request.ServiceTier,
    "MetadataParam": limits.Metadata,
    # input items
    "ItemParam": items.Item,
    "ItemReferenceParam": items.ItemReference,
    "UserMessageItemParam": items.Message,
    "SystemMessageItemParam": items.Message,
    "DeveloperMessageItemParam": items.Message,
    "AssistantMessageItemParam": items.Message,
    "FunctionCallItemParam": items.FunctionCall,
    "FunctionCallOutputItemParam": items.FunctionCallOutput,
    "ReasoningItemParam": items.Reasoning,
    "CompactionSummaryItemParam": items.Compaction,
    # output items
    "ItemField": items.Item,
    "Message": items.Message,
    "FunctionCall": items.FunctionCall,
    "FunctionCallOutput": items.FunctionCallOutput,
    "ReasoningBody": items.Reasoning,
    "CompactionBody": items.Compaction,
    "MessageRole": items.Role,
    "MessageStatus": items.ItemStatus,
    "FunctionCallStatus": items.ItemStatus,
    "FunctionCallItemStatus": items.ItemStatus,
    "FunctionCallOutputStatusEnum": items.ItemStatus,
    # content
    "InputTextContentParam": content.InputText,
    "InputImageContentParamAutoParam": content.InputImage,
    "InputFileContentParam": content.InputFile,
    "OutputTextContentParam": content.OutputText,
    "RefusalContentParam": content.Refusal,
    "ReasoningSummaryContentParam": content.SummaryText,
    "UrlCitationParam": content.UrlCitation,
    "InputTextContent": content.InputText,
    "InputImageContent": content.InputImage,
    "InputFileContent": content.InputFile,
    "InputVideoContent": content.InputVideo,
    "OutputTextContent": content.OutputText,
    "RefusalContent": content.Refusal,
    "TextContent": content.TextContent,
    "SummaryTextContent": content.SummaryText,
    "ReasoningTextContent": content.ReasoningText,
    "Annotation": content.Annotation,
    "UrlCitationBody": content.UrlCitation,
    "LogProb": content.LogProb,
    "TopLogProb": content.TopLogProb,
    "ImageDetail": content.ImageDetail,
    "DetailEnum": content.ImageDetail,
    # tools and formats
    "ResponsesToolParam": tools.Tool,
    "FunctionToolParam": tools.FunctionTool,
    "EmptyModelParam": dict[str, Any],
    "ToolChoiceParam": tools.ToolChoice,
    "ToolChoiceValueEnum": tools.ToolChoiceMode,
    "SpecificToolChoiceParam": tools.ToolRef,
    "SpecificFunctionParam": tools.FunctionToolChoice,
    "AllowedToolsParam": tools.AllowedTools,
    "Tool": tools.Tool,
    "FunctionTool": tools.FunctionTool,
    "FunctionToolChoice": tools.FunctionToolChoice,
    "AllowedToolChoice": tools.AllowedTools,
    "TextFormatParam": tools.Format,
    "JsonSchemaResponseFormatParam": tools.JsonSchemaFormat,
    "TextResponseFormat": tools.TextFormat,
    "JsonObjectResponseFormat": tools.JsonObjectFormat,
    "JsonSchemaResponseFormat": tools.JsonSchemaFormat,
    "TextField": tools.TextOptions,
    "VerbosityEnum": tools.Verbosity,
    # responses
    "ResponseResource": response.Response,
    "CompactResource": response.CompactResource,
    "Usage": response.Usage,
    "InputTokensDetails": response.InputTokensDetails,
    "OutputTokensDetails": response.OutputTokensDetails,
    "IncompleteDetails": response.IncompleteDetails,
    "Reasoning": response.ReasoningOptions,
    "ReasoningEffortEnum": response.Effort,
    "ReasoningSummaryEnum": response.Summary,
    "TruncationEnum": response.Truncation,
    "Error": errors.ResponseError,
    # events and errors
    "ErrorPayload": errors.ErrorPayload,
    "WebSocketErrorEvent": errors.WebSocketError,
    **{name: events.EVENTS[kind] for kind, name in EVENT_SCHEMAS.items()},
}

# What we have beyond the specification, each for a client or server that really sends it.
ADDITIONS: dict[Any, set[str]] = {
    items.FunctionCall: {"namespace"},
    items.Reasoning: {"status"},
    request.Request: {"conversation", "antiphon:chat"},
    request.WebSocketCreate: {"conversation", "antiphon:chat", "generate", "stream_id"},
    response.InputTokensDetails: {"cache_write_tokens"},
    response.Response: {"conversation", "antiphon:receipts", "antiphon:receipt_count"},
}
MORE_VALUES: dict[Any, set[str]] = {
    request.ServiceTier: {"standard", "batch", "scale", "fast", "ultrafast", "on_demand"},
    response.Effort: {"max"},
    request.Include: {
        "message.input_image.image_url",
        "web_search_call.action.sources",
        "web_search_call.results",
        "file_search_call.results",
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
    },
}
WEBSOCKET = "WebSocketResponseCreateEvent"
# A limit that holds in the dialects that do not name a greater one.
IN_ITS_DIALECT = {"CreateResponseBody.safety_identifier", f"{WEBSOCKET}.safety_identifier"}
# Required on the wire out, optional in the Struct that also serves the way in: the Composer fills them.
FILLED_IN = {"id", "status"}
# Required on the wire in, with a default in the Struct that also serves the way out; the reading insists.
INSISTED_ON = {("SpecificFunctionParam", "name"), ("ItemReferenceParam", "id")}

# Any string may come in; only the three that mean something are kept.
ANY_STATUS = {f"{role}MessageItemParam.status" for role in ("User", "System", "Developer", "Assistant")}

_OUTPUT_BODIES = {"ReasoningBody", "CompactionBody", "UrlCitationBody"}
SIDE_IN = {name for name in SCHEMAS if name.endswith(("Param", "Body"))} - _OUTPUT_BODIES
OBJECTS = sorted(
    name
    for name, ours in OURS.items()
    if isinstance(ours, type) and issubclass(ours, Struct) and "oneOf" not in SCHEMAS[name]
)
ENUMS = sorted(name for name in OURS if "enum" in SCHEMAS[name])
UNIONS = sorted(name for name in OURS if "oneOf" in SCHEMAS[name])
LIMITS = {
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "maxProperties": "max_length",
    "minimum": "ge",
    "maximum": "le",
    "pattern": "pattern",
}
JSON_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    dict: "object",
}


def properties(name: str) -> dict[str, Any]:
    if name == WEBSOCKET:
        tag = SCHEMAS[name]["allOf"][0]["properties"]["type"]
        return {"type": tag, **properties("CreateResponseBody")}
    return dict(SCHEMAS[name]["properties"])


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return resolved(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    return resolved(schema["allOf"][0]) if "allOf" in schema else schema


def members(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The plain schemas that a value may meet, one of them."""
    schema = resolved(schema)
    some = schema.get("anyOf") or schema.get("oneOf")
    return [one for m in some for one in members(m)] if some else [schema]


def fields(cls: type[Struct]) -> dict[str, structs.FieldInfo]:
    return {info.encode_name: info for info in structs.fields(cls)}


def metas(type_: Any) -> list[Meta]:
    found = [m for m in get_args(type_)[1:] if isinstance(m, Meta)] if get_origin(type_) is Annotated else []
    inner = get_args(type_)[:1] if get_origin(type_) is Annotated else get_args(type_)
    return found + [meta for one in inner for meta in metas(one)]


def is_always_encoded(cls: type[Struct], info: structs.FieldInfo) -> bool:
    if info.required:
        return True
    default = info.default_factory() if info.default is NODEFAULT else info.default
    return default is not UNSET and not cls.__struct_config__.omit_defaults


def test_all_108_schemas_have_a_type() -> None:
    assert len(SCHEMAS) == 108
    assert OURS.keys() == SCHEMAS.keys()
    assert {*OBJECTS, *ENUMS, *UNIONS, "MetadataParam", "EmptyModelParam"} == SCHEMAS.keys()


@pytest.mark.parametrize("name", OBJECTS)
def test_the_fields_have_the_same_names(name: str) -> None:
    cls, theirs = OURS[name], properties(name)
    config = cls.__struct_config__
    if config.tag_field:
        [tag] = [one for one in members(theirs.pop(config.tag_field)) if "enum" in one]
        assert tag["enum"] == [config.tag]
    assert theirs.keys() <= fields(cls).keys()


def test_no_struct_has_a_field_that_is_neither_specified_nor_declared_here() -> None:
    for cls in {OURS[name] for name in OBJECTS}:
        known = {wire_name for name in OBJECTS if OURS[name] is cls for wire_name in properties(name)}
        assert fields(cls).keys() - known == ADDITIONS.get(cls, set()), cls


@pytest.mark.parametrize("name", sorted(set(OBJECTS) - SIDE_IN - {WEBSOCKET}))
def test_what_must_go_out_always_goes_out(name: str) -> None:
    cls = OURS[name]
    for required in set(SCHEMAS[name]["required"]) - {"type"}:
        info = fields(cls)[required]
        filled = issubclass(cls, items.ItemBase) and required in FILLED_IN
        assert is_always_encoded(cls, info) or filled, required


@pytest.mark.parametrize("name", sorted(set(OBJECTS) & SIDE_IN))
def test_what_must_come_in_is_required(name: str) -> None:
    for required in set(SCHEMAS[name].get("required", [])) - {"type"}:
        assert fields(OURS[name])[required].required or (name, required) in INSISTED_ON, required


@pytest.mark.parametrize("name", OBJECTS)
def test_the_values_have_the_same_types_and_limits(name: str) -> None:
    ours = fields(OURS[name])
    for wire_name in properties(name).keys() & ours.keys():
        where = f"{name}.{wire_name}"
        for schema in members(properties(name)[wire_name]):
            assert where in ANY_STATUS or accepts(ours[wire_name], schema), f"{where}: {schema}"
            if name in SIDE_IN and where not in IN_ITS_DIALECT:
                assert limits_of(schema) <= limits_in(ours[wire_name].type), f"{where}: {schema}"


def accepts(info: structs.FieldInfo, schema: dict[str, Any]) -> bool:
    """Can our field hold what this schema describes?"""
    ours = alternatives(info.type)
    match schema:
        case {"enum": values}:
            return set(values) <= set(literals(info.type)) or str in ours
        case {"type": "null"}:
            return NoneType in ours or not info.required
        case {"type": "array"}:
            return any(get_origin(one) is list for one in ours)
        case {"type": "object"}:
            return any(get_origin(one) is dict or hasattr(one, "__struct_config__") for one in ours)
        case {"type": kind}:
            return kind in {JSON_TYPES.get(one) for one in ours}
    return schema == {}


def limits_of(schema: dict[str, Any]) -> set[tuple[str, Any]]:
    return {(LIMITS[word], value) for word, value in schema.items() if word in LIMITS}


def limits_in(type_: Any) -> set[tuple[str, Any]]:
    """The limits of a field, of its entries too; our `\\Z` is the schema's `$`."""
    found = {(word, getattr(meta, word)) for meta in metas(type_) for word in LIMITS.values()}
    return {(word, value.replace(r"\Z", "$") if isinstance(value, str) else value) for word, value in found}


@pytest.mark.parametrize("name", ENUMS)
def test_the_enums_have_the_same_values(name: str) -> None:
    ours = OURS[name]
    assert get_origin(ours) is Literal
    assert set(get_args(ours)) == set(SCHEMAS[name]["enum"]) | MORE_VALUES.get(ours, set())


@pytest.mark.parametrize("name", UNIONS)
def test_the_unions_have_the_same_members(name: str) -> None:
    for one in SCHEMAS[name]["oneOf"]:
        for ours in alternatives(OURS[one["$ref"].rpartition("/")[2]]):
            assert ours in alternatives(OURS[name])


def test_metadata_has_the_limits_of_1_10() -> None:
    assert msgspec.json.schema(limits.Metadata) == {
        "type": "object",
        "maxProperties": 16,
        "propertyNames": {"maxLength": 64},
        "additionalProperties": {"type": "string", "maxLength": 512},
    }


def test_a_response_has_31_required_keys() -> None:
    required = set(SCHEMAS["ResponseResource"]["required"])
    assert len(required) == 31
    assert required == fields(response.Response).keys() - {
        "conversation",
        "antiphon:receipts",
        "antiphon:receipt_count",
    }


def test_every_reader_that_is_named_exists() -> None:
    for readers in READERS.values():
        for name in readers.values():
            assert callable(getattr(TolerantDecoder, name))


def test_nothing_is_dropped_in_silence() -> None:
    """A Struct that forbids unknown fields takes the road on which they are kept."""
    forgetful = [cls for name in OBJECTS if not (cls := OURS[name]).__struct_config__.forbid_unknown_fields]
    assert set(forgetful) == {errors.WebSocketError}, "only what we alone write may forget"


@pytest.mark.parametrize("number", [b"20.0", b"2e1", b"2.0E+1"])
def test_an_integer_may_have_a_fraction_of_zero(number: bytes) -> None:
    """To JSON Schema `20.0` is an integer."""
    note = b'{"type":"url_citation","url":"","title":"","start_index":%b,"end_index":20}' % number
    text = b'{"type":"output_text","text":"","annotations":[%b]}' % note
    item = b'{"type":"message","role":"assistant","content":[%b]}' % text
    body = b'{"max_output_tokens":%b,"top_logprobs":%b,"input":[%b]}' % (number, number, item)
    decoded = decode_request(body)
    assert (decoded.max_output_tokens, decoded.top_logprobs) == (20, 20)
    assert b'"start_index":20,"end_index":20' in encode(decoded)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (b"20.5", "expected an integer or null, got 20.5"),
        (b"15.0", "expected an integer of at least 16, got 15"),
        (
            b"1e30",
            "expected an integer of at most 9,007,199,254,740,991, got 1000000000000000019884624838656",
        ),
        (b'"20.0"', "expected an integer or null, got '20.0'"),
    ],
)
def test_a_number_that_is_no_integer_or_outside_its_limits_is_refused(number: bytes, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(b'{"max_output_tokens":%b}' % number)
    assert caught.value.payload.message == said
