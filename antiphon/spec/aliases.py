"""Converts other spellings of requests and items to those of the specification.

Every function takes the fields of one JSON object, still undecoded, and changes them in place.
"""

import re
from collections.abc import Callable, Container
from typing import Any

from msgspec import Raw, Struct, json

from antiphon.spec import items
from antiphon.spec.codec import BRACE, BRACKET, NULL, QUOTE, first_byte
from antiphon.spec.errors import ERROR_TYPE_ALIASES, ErrorPayload, ResponseError
from antiphon.spec.limits import LARGE, MAX_IDENTIFIER, MAX_UNKNOWN_NAME
from antiphon.spec.long_json import quote_json
from antiphon.spec.request import ReasoningParam, Request
from antiphon.spec.response import Response, Usage
from antiphon.spec.tools import FunctionTool, FunctionToolChoice, JsonSchemaFormat

Fields = dict[str, Raw]

_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")

# Where a part stands: the text type that belongs there, and what else such a text is called.
TEXT_TYPES: dict[str, tuple[str, frozenset[str]]] = {
    "user": ("input_text", frozenset({"text"})),
    "system": ("input_text", frozenset({"text"})),
    "developer": ("input_text", frozenset({"text"})),
    "assistant": ("output_text", frozenset({"text", "input_text"})),
    "output": ("input_text", frozenset({"text", "output_text"})),
    "summary": ("summary_text", frozenset({"text", "output_text", "reasoning_text"})),
    "reasoning": ("reasoning_text", frozenset({"text", "output_text", "summary_text"})),
}


def string(fields: Fields, name: str) -> str | None:
    """The value of a field that is a string, and no long one; None when it is absent or something else."""
    if name not in fields or first_byte(fields[name]) != QUOTE or len(fields[name]) > LARGE:
        return None
    return json.decode(fields[name], type=str)


def _decode_nested(fields: Fields, name: str) -> Fields | None:
    if name not in fields or first_byte(fields[name]) != BRACE:
        return None
    return json.decode(fields[name], type=dict[str, Raw])


def _raw(value: object) -> Raw:
    return Raw(json.encode(value))


def snake_case(fields: Fields, known: Container[str]) -> None:
    """`callId` → `call_id`, when that is a field we know and it is not there already."""
    for name in [n for n in fields if n not in known and len(n) <= MAX_UNKNOWN_NAME and not n.islower()]:
        snake = _CAMEL.sub(r"_\1", name).lower()
        if snake in known and snake not in fields:
            fields[snake] = fields.pop(name)


def _unwrap(fields: Fields, name: str, *keys: str) -> None:
    """An object where a string belongs: the string is under one of these keys."""
    nested = _decode_nested(fields, name) or {}
    for key in keys:
        if key in nested:
            fields[name] = nested[key]
            return


def _lift(fields: Fields, name: str) -> None:
    """What is one level down, under `name`, belongs here."""
    nested = _decode_nested(fields, name)
    if nested is not None:
        del fields[name]
        for key, value in nested.items():
            fields.setdefault(key, value)


def request(fields: Fields) -> None:
    """Objects where a string belongs, the format of the answer at the top, and the older name of the user."""
    _unwrap(fields, "truncation", "type", "strategy")
    _unwrap(fields, "conversation", "id")
    if "safety_identifier" not in fields and len(string(fields, "user") or "") in range(
        1, MAX_IDENTIFIER + 1
    ):
        fields["safety_identifier"] = fields.pop("user")
    if "response_format" in fields:
        wanted = fields.pop("response_format")
        text = _decode_nested(fields, "text") if fields.get("text", NULL) != NULL else {}
        if text is not None and text.get("format", NULL) == NULL:
            fields["text"] = _raw({**text, "format": wanted})


def reasoning_options(fields: Fields) -> None:
    """The older name of the summary, and the least effort."""
    if "summary" not in fields and "generate_summary" in fields:
        fields["summary"] = fields.pop("generate_summary")
    if string(fields, "effort") == "minimal":
        fields["effort"] = Raw(b'"low"')


def text_format(fields: Fields) -> None:
    """Chat-style `json_schema: {name, schema, strict}` becomes flat."""
    _lift(fields, "json_schema")


def tool(fields: Fields) -> None:
    """A chat-style tool or choice keeps its definition one level down, under `function`."""
    _lift(fields, "function")


def status(fields: Fields) -> None:
    """A core item cannot fail on the wire."""
    if string(fields, "status") == "failed":
        fields["status"] = Raw(b'"incomplete"')


def message(fields: Fields) -> None:
    """A message on its way in may carry any status; only the three that mean something are kept."""
    status(fields)
    if string(fields, "status") not in ("in_progress", "completed", "incomplete"):
        fields.pop("status", None)


def function_call(fields: Fields) -> None:
    """Arguments as an object, and the item's id where the call's should be."""
    status(fields)
    if "arguments" in fields and first_byte(fields["arguments"]) in (BRACE, BRACKET):
        fields["arguments"] = quote_json(fields["arguments"])
    if fields.get("call_id", NULL) == NULL and "id" in fields:
        fields["call_id"] = fields["id"]


def reasoning(fields: Fields) -> None:
    """Summary and content as plain strings become lists of parts."""
    status(fields)
    for name, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        raw = fields.get(name, NULL)
        if first_byte(raw) == QUOTE:
            part = b'{"type":"%b","text":%b}' % (kind.encode(), bytes(raw))
            fields[name] = Raw(b"[%b]" % (part if len(raw) > len(b'""') else b""))
    if fields.get("summary", NULL) == NULL:
        fields["summary"] = Raw(b"[]")


def part(fields: Fields, place: str) -> None:
    """Chat-style parts, and texts named after another side of the conversation."""
    kind = string(fields, "type")
    if place in TEXT_TYPES:
        text_type, others = TEXT_TYPES[place]
        if kind in others:
            fields["type"] = _raw(text_type)
    if kind == "image_url":
        fields["type"] = Raw(b'"input_image"')
    if kind == "file":
        fields["type"] = Raw(b'"input_file"')
        _lift(fields, "file")
    if kind in ("image_url", "input_image"):
        image = _decode_nested(fields, "image_url") or {}
        fields.setdefault("detail", image.get("detail", NULL))
        _unwrap(fields, "image_url", "url")
        if string(fields, "detail") == "original":
            fields["detail"] = Raw(b'"high"')


def usage(fields: Fields) -> None:
    """Without a total, the total is the sum."""
    if "total_tokens" not in fields:
        counts = [json.decode(fields[n], type=int) for n in ("input_tokens", "output_tokens") if n in fields]
        fields["total_tokens"] = _raw(sum(counts))


def error(fields: Fields) -> None:
    """Other names of the error types."""
    kind = string(fields, "type")
    if kind in ERROR_TYPE_ALIASES:
        fields["type"] = _raw(ERROR_TYPE_ALIASES[kind])


def response(fields: Fields) -> None:
    """An error that is only a sentence."""
    message = string(fields, "error")
    if message is not None:
        fields["error"] = _raw(ResponseError("server_error", message))


def response_error(fields: Fields) -> None:
    """Some servers give the error of a failed response a type instead of a code."""
    if fields.get("code", NULL) == NULL:
        fields["code"] = fields.get("type", Raw(b'"server_error"'))


ALIASES: dict[type[Struct], Callable[[Fields], Any]] = {
    Request: request,
    ReasoningParam: reasoning_options,
    JsonSchemaFormat: text_format,
    FunctionTool: tool,
    FunctionToolChoice: tool,
    items.Message: message,
    items.FunctionCall: function_call,
    items.FunctionCallOutput: status,
    items.CustomToolCall: status,
    items.CustomToolCallOutput: status,
    items.Reasoning: reasoning,
    Response: response,
    Usage: usage,
    ErrorPayload: error,
    ResponseError: response_error,
}
