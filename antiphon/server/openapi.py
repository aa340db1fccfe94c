"""The OpenAPI 3.1 document of this server, made from its own Structs and its table of operations."""

import re
from functools import cache, reduce
from http import HTTPStatus
from operator import or_
from typing import Any

import msgspec
from msgspec import Struct, UnsetType, structs

from antiphon import __version__
from antiphon.server.objects import AnyItem, ConversationBody
from antiphon.server.operations import GROUPS, OPERATIONS, PARAMETERS, Operation
from antiphon.spec import events, request, response, tools
from antiphon.spec.complaints import alternatives
from antiphon.spec.content import ContentPart
from antiphon.spec.errors import ErrorBody
from antiphon.spec.items import KnownItem
from antiphon.spec.limits import MAX_INTEGER
from antiphon.stream.dialects import AUTO, DIALECTS

Schema = dict[str, Any]

_ABOUT = """\
An Open Responses server (specification 2026-04-24). Unknown fields and items are carried, not refused, so \
objects may have more than is listed here. Every error is JSON: `{"error": {type, message, code, param}}`."""

_REF = "#/components/schemas/{name}"
# Unions that stand in many places get a name of their own.
_UNIONS: dict[str, Any] = {
    "Item": KnownItem,
    "ContentPart": ContentPart,
    "Tool": tools.Tool,
    "ToolChoice": tools.ToolChoice,
    "TextFormatOptions": tools.Format,
    "Event": reduce(or_, events.STANDARD + events.EXTENDED),
}
# What only this server writes: every key is there unless it can be left unset.
_WRITTEN: tuple[type[Struct], ...] = (response.Response, response.Usage, response.CompactResource)

_HEADERS = [
    (
        "X-Request-Id",
        "An id for this request, repeated in the answer and in the server's log.",
        {"type": "string"},
    ),
    (
        "X-Antiphon-Dialect",
        "How the answer is spelled.",
        {"enum": [AUTO, *DIALECTS]},
    ),
    (
        "X-Antiphon-Receipts",
        "`1`: say in `antiphon:receipts` what was dropped or rewritten on the way to the provider.",
        {"enum": ["0", "1"]},
    ),
]


@cache
def document() -> bytes:
    """The document as JSON, the same for every server of this version."""
    return msgspec.json.encode(_document())


def _document() -> Schema:
    paths: dict[str, Schema] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method.lower()] = _operation(path, operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Antiphon", "version": __version__, "description": _ABOUT},
        "tags": [{"name": name, "description": about} for name, about in GROUPS.items()],
        "security": [{"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed only when the server has keys configured.",
                }
            },
            "parameters": {
                name: {"name": name, "in": "header", "description": about, "schema": schema}
                for name, about, schema in _HEADERS
            },
        },
    }


def _operation(path: str, operation: Operation) -> Schema:
    described: Schema = {
        "operationId": operation.id,
        "tags": [operation.group],
        "summary": operation.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"\{(\w+)\}", path)
            ),
            *(
                {"name": query.name, "in": "query", "description": query.about, "schema": query.schema}
                for query in operation.query
            ),
        ],
        "responses": _answers(operation),
    }
    if operation.about:
        described["description"] = operation.about
    if operation.open:
        described["security"] = []
    else:
        described["parameters"] += [{"$ref": f"#/components/parameters/{name}"} for name, *_ in _HEADERS]
    if operation.body is not None:
        content = {"application/json": {"schema": _ref(operation.body)}}
        described["requestBody"] = {"required": operation.body_required, "content": content}
    return described


def _answers(operation: Operation) -> Schema:
    content: Schema
    if isinstance(operation.answer, str):
        content = {operation.answer: {"schema": {"type": "string"}}}
    else:
        content = {"application/json": {"schema": _ref(operation.answer)}}
    if operation.streams:
        data = {"contentMediaType": "application/json", "contentSchema": {"$ref": _REF.format(name="Event")}}
        about = "The data of every event but the last, which is `[DONE]`."
        content["text/event-stream"] = {"schema": {"type": "string", "description": about, **data}}
    answers: Schema = {"200": {"description": "OK", "content": content}}
    error = {"application/json": {"schema": _ref(ErrorBody)}}
    for status in operation.errors if operation.open else sorted({*operation.errors, 401, 403}):
        answers[str(status)] = {"description": HTTPStatus(status).phrase, "content": error}
    if operation.id == "readiness":
        answers["503"] = {"description": "The store does not answer", "content": content}
    return answers


def _ref(struct: type) -> Schema:
    return {"$ref": _REF.format(name="Item" if struct is AnyItem else struct.__name__)}


def _schemas() -> Schema:
    used = [t for op in OPERATIONS.values() for t in (op.body, op.answer) if isinstance(t, type)]
    wanted = [*dict.fromkeys(used), ErrorBody, *_UNIONS.values()]
    made, schemas = msgspec.json.schema_components(wanted, ref_template=_REF)
    unions = dict(zip(_UNIONS, made[-len(_UNIONS) :], strict=True))
    del schemas[AnyItem.__name__]
    for struct in (*_WRITTEN, *events.EVENTS.values()):
        schemas[struct.__name__]["required"] = _always(struct)
    for name, about in PARAMETERS.items():
        schemas[request.Request.__name__]["properties"][name]["description"] = about
    schemas[ConversationBody.__name__]["properties"]["items"] = {"type": "array", "items": unions["Item"]}
    for name, schema in schemas.items():
        schemas[name] = _tidied(schema, unions)
    for name, schema in unions.items():
        schemas[name] = {"title": name} | {key: _tidied(value, unions) for key, value in schema.items()}
    return schemas


def _always(struct: type[Struct]) -> list[str]:
    tag = [struct.__struct_config__.tag_field] if struct.__struct_config__.tag_field else []
    return tag + [
        field.encode_name for field in structs.fields(struct) if UnsetType not in alternatives(field.type)
    ]


def _tidied(schema: Any, unions: dict[str, Schema]) -> Any:
    """Unions by their names, no closed objects, and patterns that every reader of JSON Schema knows."""
    if isinstance(schema, list):
        return [_tidied(one, unions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    members = schema.get("anyOf", [])
    for name, union in unions.items():
        parts = union["anyOf"]
        if members and all(part in members for part in parts):
            rest = [_tidied(one, unions) for one in members if one not in parts]
            named = {"$ref": _REF.format(name=name)}
            kept = {k: v for k, v in schema.items() if k not in ("anyOf", "discriminator")}
            return {**kept, "anyOf": [named, *rest]} if rest else {**kept, **named}
    tidy = {key: _tidied(value, unions) for key, value in schema.items()}
    if tidy.get("additionalProperties") is False:
        del tidy["additionalProperties"]
    if tidy.get("maximum") == MAX_INTEGER:
        del tidy["maximum"]
    if isinstance(pattern := tidy.get("pattern"), str):
        tidy["pattern"] = pattern.replace(r"\Z", "$")
    return tidy
