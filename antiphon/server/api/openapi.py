"""The OpenAPI 3.1 document of this server, made from its own Structs and its table of operations."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, reduce
from http import HTTPStatus
from operator import or_
from typing import Any

import msgspec
from msgspec import Struct, UnsetType, json, structs

from antiphon import __version__
from antiphon.bridges.messages.errors import OVERLOADED
from antiphon.server.api import schema_parts
from antiphon.server.api.body_schemas import BODY_SCHEMAS, INPUT_SCHEMAS, MORE_SCHEMAS
from antiphon.server.api.objects import AnyItem, ConversationBody
from antiphon.server.endpoint import Endpoint, EndpointGroup
from antiphon.spec import content, events, request, response, tools
from antiphon.spec.error_paths import alternatives
from antiphon.spec.items import KnownItem
from antiphon.spec.routing import SpeedRequirement, TaskComplexity
from antiphon.stream.dialects import AUTO, DIALECTS

_Schema = schema_parts.Schema

_ABOUT = """\
An Open Responses server (specification 2026-04-24). Unknown fields and items are carried, not refused, so \
objects may have more than is listed here. Every error is JSON: `{"error": {type, message, code, param}}`."""

# Unions that stand in many places get a name of their own.
_UNIONS: dict[str, Any] = {
    "Item": KnownItem,
    "ContentPart": content.ContentPart,
    "Tool": tools.Tool,
    "ToolChoice": tools.ToolChoice,
    "TextFormatOptions": tools.Format,
    "Event": reduce(or_, events.STANDARD + events.EXTENDED),
}
# Those of them that also take, and give back, what has a type that is not listed.
_OPEN = ("Item", "ContentPart", "Tool", "ToolChoice", "Event")
# Where one listed type or any other may stand: a struct, and the field that is a list of them.
_OPEN_FIELDS = ((content.OutputText, "annotations"), (tools.AllowedTools, "tools"))
# Of a request, but read by msgspec alone, which takes no null for a field that has a default.
_EXACT = {"ToolChoiceBody", "AllowedToolsBody", "NamedBody"}
# Of answers, and of the answers that a client gives back, where some write null.
_GIVEN_BACK = {"LogProb", "TopLogProb"}
_REFERENCE = re.compile(r'"#/components/schemas/(\w+)"')
# What only this server writes: every key is there unless it can be left unset.
_WRITTEN: tuple[type[Struct], ...] = (response.Response, response.Usage, response.CompactResource)

_HEADERS = [
    (
        "X-Request-Id",
        "An id for this request, repeated in the answer and in the server's log.",
        {"type": "string"},
    ),
    ("X-Antiphon-Dialect", "How the answer is spelled.", {"enum": [AUTO, *DIALECTS]}),
    (
        "X-Antiphon-Receipts",
        "`1`: list in `antiphon:receipts` what was dropped or rewritten on the way to the provider.",
        {"enum": ["0", "1"]},
    ),
    (
        "X-Antiphon-Route",
        "`complexity=simple, speed=fast, without=groq`: what the task needs, and which providers to exclude.",
        {
            "type": "object",
            "properties": {
                "complexity": {"enum": [*TaskComplexity]},
                "speed": {"enum": [*SpeedRequirement]},
                "without": {"type": "string", "pattern": "^[A-Za-z0-9]+$"},
            },
            "minProperties": 1,
            "additionalProperties": False,
        },
    ),
    (
        "OpenResponses-Version",
        "`latest`, or the release of the specification that is wanted; the answer has it, too.",
        {"type": "string"},
    ),
]

_EVENTS = "text/event-stream"
_STRING = {"type": "string"}
# How an object is written in a header: `complexity=simple,speed=fast`.
_EXPLODED = {"style": "simple", "explode": True}
_KEY = "Idempotency-Key"
_KEY_ABOUT = (
    "The same key with the same body gets the response that the first such request made, for 24 hours; 409 "
    "while that is worked on, and for another body."
)
_KEY_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"}
_REPLAYED = "Idempotent-Replayed"
_REPLAYED_ABOUT = "`true`: this response was made by an earlier request with the same `Idempotency-Key`."
_ANSWER_HEADERS = {
    "X-Request-Id": ("The id of the request.", {"type": "string"}),
    "X-Antiphon-Dialect": ("The dialect of this answer.", {"enum": list(DIALECTS)}),
}
_RECEIPTS = "X-Antiphon-Receipts"
_TARGET = "X-Antiphon-Target"
_TARGET_ABOUT = "The `PROVIDER/model` that is asked, where the name in `model` has several."
_RECEIPTS_ABOUT = (
    "How many things were dropped, rewritten or suppressed, if any were; of a stream, as many as are known "
    "when it begins."
)

# What each parameter of a request does here.
PARAMETERS = {
    "model": "A configured name, or `PROVIDER/model`. Without one, the default model answers.",
    "input": "A text, or a list of items. It may be absent where there is something else to answer.",
    "instructions": "A system message for this response only; a continuation does not inherit it.",
    "previous_response_id": "Continue this response: its context and its output come before `input`.",
    "conversation": "Continue this conversation, and add to it. Not together with `previous_response_id`.",
    "tools": "The tools that the model may call. All of them go to the model, whatever `tool_choice` says.",
    "tool_choice": "`none`, `auto`, `required`, one function, or `allowed_tools`; enforced on the output.",
    "parallel_tool_calls": "With `false`, at most one call is let through.",
    "max_tool_calls": "How many calls are let through; more of them end the response as `incomplete`.",
    "text": "The form of the answer. A `json_schema` is enforced, or the answer is checked against it.",
    "reasoning": "How much the model should reason, and whether it should summarise its reasoning.",
    "include": "More in the answer: encrypted reasoning, log probabilities.",
    "max_output_tokens": "At least 16. Reaching it ends the response as `incomplete`.",
    "temperature": "Sampling temperature, if the provider takes one.",
    "top_p": "Nucleus sampling, if the provider takes it.",
    "presence_penalty": "Above 0, the model repeats words less; if the provider takes it.",
    "frequency_penalty": "The same, in proportion to how often a word occurred; if the provider takes it.",
    "top_logprobs": "0 to 20 alternatives for each token, where the provider gives them.",
    "truncation": "`auto` leaves out the oldest items of an input that does not fit; else that is an error.",
    "metadata": "Up to 16 pairs, kept with the response.",
    "service_tier": "Which of the provider's tiers is to answer, where it has some.",
    "safety_identifier": "An id of the end user, for providers that take one.",
    "prompt_cache_key": "Helps providers to find a cached prompt.",
    "store": "`false`: nothing is written, and the response cannot be read or continued over HTTP.",
    "background": "Answer at once and work on without the caller. Needs `store`.",
    "stream": "Answer with server-sent events.",
    "stream_options": "`include_obfuscation: true` hides the length of words in the size of packets.",
    "antiphon:chat": "The chat that the response joins, under the one that it continues. Needs `store`.",
}


@cache
def document(groups: Sequence[EndpointGroup]) -> bytes:
    """The document of these groups as JSON, the same for every server of this version."""
    return msgspec.json.encode(_document(groups))


def _document(groups: Sequence[EndpointGroup]) -> _Schema:
    paths: dict[str, _Schema] = {}
    described = [(group, endpoint) for group in groups for endpoint in group.endpoints if endpoint.id]
    for group, endpoint in described:
        path = endpoint.path.replace("...", "")
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(path, group, endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Antiphon", "version": __version__, "description": _ABOUT},
        "tags": [{"name": group.name, "description": group.about} for group in groups],
        "security": [{"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": _schemas([endpoint for _, endpoint in described]),
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed only when the server has keys configured.",
                }
            },
            "parameters": {
                name: {"name": name, "in": "header", "description": about, **_EXPLODED, "schema": schema}
                for name, about, schema in (*_HEADERS, (_KEY, _KEY_ABOUT, _KEY_SCHEMA))
            },
            "headers": {
                _RECEIPTS: {"description": _RECEIPTS_ABOUT, "schema": {"type": "integer", "minimum": 1}},
                _TARGET: {"description": _TARGET_ABOUT, "schema": {"type": "string"}},
                _REPLAYED: {"description": _REPLAYED_ABOUT, "schema": {"const": "true"}},
                **{
                    name: {"description": about, "required": True, "schema": schema}
                    for name, (about, schema) in _ANSWER_HEADERS.items()
                },
            },
        },
    }


def _operation(path: str, group: EndpointGroup, endpoint: Endpoint) -> _Schema:
    described: _Schema = {
        "operationId": endpoint.id,
        "tags": [group.name],
        "summary": endpoint.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"\{(\w+)\}", path)
            ),
            *(
                {
                    "name": query.name,
                    "in": "query",
                    "required": query.required,
                    "description": query.about,
                    "schema": query.schema,
                }
                for query in endpoint.query
            ),
        ],
        "responses": _answers(endpoint, group.uses_store),
    }
    if about := endpoint.description:
        described["description"] = about
    if endpoint.open:
        described["security"] = []
    else:
        described["parameters"] += [{"$ref": f"#/components/parameters/{name}"} for name, *_ in _HEADERS]
    if endpoint.idempotent:
        described["parameters"].append({"$ref": f"#/components/parameters/{_KEY}"})
    if endpoint.body is not None:
        body = {endpoint.body_type: {"schema": {**_ref(endpoint.body), **endpoint.narrows}}}
        described["requestBody"] = {"required": endpoint.body_required, "content": body}
    return described


def _answers(endpoint: Endpoint, uses_store: bool) -> _Schema:
    media: _Schema
    if isinstance(endpoint.answer, str):
        media = {endpoint.answer: {"schema": _STRING}}
    else:
        media = {"application/json": {"schema": _ref(endpoint.answer)}}
    if endpoint.streams:
        media[_EVENTS] = {"schema": _server_sent_event(endpoint.stream)}
    media |= {kind: {"schema": _STRING} for kind in endpoint.also}
    answers: _Schema = {"200": {"description": "OK", "content": media}}
    error = {"application/json": {"schema": _ref(endpoint.door.error_body)}}
    if endpoint.empty:
        answers["204"] = {"description": endpoint.empty}
    for status in _error_statuses(endpoint, uses_store):
        phrase = "Overloaded" if status == OVERLOADED else HTTPStatus(status).phrase
        answers[str(status)] = {"description": phrase, "content": error}
    if endpoint.id == "readiness":
        answers["503"] = {"description": "The store does not answer", "content": media}
    for answer in answers.values():
        answer["headers"] = _header_refs(*_ANSWER_HEADERS)
    if endpoint.has_receipts:
        answers["200"]["headers"] |= _header_refs(_RECEIPTS, _TARGET)
    if endpoint.idempotent:
        answers["200"]["headers"] |= _header_refs(_REPLAYED)
    return answers


def _error_statuses(endpoint: Endpoint, uses_store: bool) -> list[int]:
    """The statuses of the errors that follow from what an endpoint takes and does, and of its own."""
    if endpoint.open:
        return []
    found = {400, 401, 403, 500, 503, *endpoint.errors}
    if uses_store:
        found |= {507}
    if endpoint.idempotent:
        found |= {409}
    if endpoint.body is not None:
        found |= {413, 415}
    if endpoint.asks_model:
        found |= {404, 429, 502, 504}
    pages = any(query.name == "after" for query in endpoint.query)
    if pages or ("{" in endpoint.path and not endpoint.empty):
        found |= {404}
    return sorted(found)


def _header_refs(*names: str) -> _Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _server_sent_event(holds: type | str | None) -> _Schema:
    """The schema of one event; a sentence about what it holds stands for the schema of that."""
    told: _Schema = {"$ref": schema_parts.REF.format(name="Event")}
    if holds is not None:
        told = {"type": "object", "description": holds} if isinstance(holds, str) else _ref(holds)
    data: _Schema = {"type": "string", "contentMediaType": "application/json", "contentSchema": told}
    if isinstance(holds, type):
        properties = {"event": {"type": "string"}, "data": data}
        about = "One server-sent event; the answer is a sequence of them."
        return {"type": "object", "description": about, "properties": properties, "required": ["data"]}
    return {
        "type": "object",
        "description": "One server-sent event; the answer is a sequence of them, and `[DONE]` the last.",
        "properties": {"event": {"type": "string"}, "data": {"anyOf": [{"const": "[DONE]"}, data]}},
        "required": ["data"],
    }


def _ref(struct: type) -> _Schema:
    return {"$ref": schema_parts.REF.format(name="Item" if struct is AnyItem else struct.__name__)}


def _schemas(endpoints: Sequence[Endpoint]) -> _Schema:
    used = [t for each in endpoints for t in (each.body, each.answer, each.stream, each.door.error_body)]
    wanted = [*dict.fromkeys(t for t in used if isinstance(t, type)), *_UNIONS.values()]
    made, schemas = msgspec.json.schema_components(wanted, ref_template=schema_parts.REF)
    unions = dict(zip(_UNIONS, made[-len(_UNIONS) :], strict=True))
    del schemas[AnyItem.__name__]
    for struct in (*_WRITTEN, *events.EVENTS.values()):
        schemas[struct.__name__]["required"] = _always(struct)
    for name, about in PARAMETERS.items():
        schemas[request.Request.__name__]["properties"][name]["description"] = about
    schemas[ConversationBody.__name__]["properties"]["items"] = {"type": "array", "items": unions["Item"]}
    for name, schema in schemas.items():
        schemas[name] = _tidy(schema, unions)
    for name, schema in unions.items():
        schemas[name] = {"title": name} | {key: _tidy(value, unions) for key, value in schema.items()}
    for name in _OPEN:
        _open(schemas[name])
    for struct, field in _OPEN_FIELDS:
        listed = schemas[struct.__name__]["properties"][field]
        listed["items"] = {"anyOf": [listed["items"], schema_parts.untyped()]}
    bodies = {each.body for each in endpoints}
    answered = [t for t in used if t not in bodies]
    for name in _named(schemas, bodies) - _named(schemas, answered) - _EXACT | _GIVEN_BACK:
        _take_nulls(schemas[name])
    for name, more in BODY_SCHEMAS.items():
        schema_parts.add_to(schemas[name], more)
    return schemas | MORE_SCHEMAS | _input_items(schemas)


def _named(schemas: _Schema, types: Iterable[Any]) -> set[str]:
    """The names of the schemas of these Structs, and of all that they refer to."""
    found: set[str] = set()
    left = [t.__name__ for t in types if isinstance(t, type) and t.__name__ in schemas]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += _REFERENCE.findall(json.encode(schemas[name]).decode())
    return found


def _take_nulls(schema: _Schema) -> None:
    """In a request, null stands for a field that is left out."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if name not in required and field.get("default", ...) is not None:
            about = {key: field[key] for key in ("description", "default") if key in field}
            rest = {key: value for key, value in field.items() if key not in about}
            schema["properties"][name] = about | schema_parts.nullable(rest)


def _input_items(schemas: _Schema) -> _Schema:
    """Items of requests: reasoning needs no summary there, and only a response's input refers to items."""
    made: _Schema = {}
    for struct in alternatives(KnownItem):
        name = f"Input{struct.__name__}"
        schema = made[name] = schemas[struct.__name__] | {"title": name}
        schema["properties"] = schema["properties"] | {}
        schema["required"] = [one for one in schema["required"] if one != "summary"]
        _take_nulls(schema)
        schema_parts.add_to(schema, INPUT_SCHEMAS.get(name, {}))
    members = [*map(schema_parts.ref, made), schemas["Item"]["anyOf"][-1]]
    reference = schema_parts.ref("InputItemReference")
    new = [one for one in members if one != reference]
    return {**made, "InputItem": {"anyOf": members}, "NewItem": {"anyOf": new}}


def _open(union: _Schema) -> None:
    """Let it have members of any other type: what the server does not know it carries as it came."""
    known = [*_types(union)]
    union.pop("discriminator", None)
    union["anyOf"].append(schema_parts.untyped(known))


def _types(union: _Schema) -> Iterator[str]:
    yield from union.get("discriminator", {}).get("mapping", ())
    for member in union.get("anyOf", ()):
        yield from _types(member)


def _always(struct: type[Struct]) -> list[str]:
    tag = [struct.__struct_config__.tag_field] if struct.__struct_config__.tag_field else []
    return tag + [
        field.encode_name for field in structs.fields(struct) if UnsetType not in alternatives(field.type)
    ]


def _tidy(schema: Any, unions: dict[str, _Schema]) -> Any:
    """Unions by their names, no closed objects, and patterns that every reader of JSON Schema knows."""
    if isinstance(schema, list):
        return [_tidy(one, unions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    members = schema.get("anyOf", [])
    for name, union in unions.items():
        parts = union["anyOf"]
        if members and all(part in members for part in parts):
            rest = [_tidy(one, unions) for one in members if one not in parts]
            named = {"$ref": schema_parts.REF.format(name=name)}
            kept = {k: v for k, v in schema.items() if k not in ("anyOf", "discriminator")}
            return {**kept, "anyOf": [named, *rest]} if rest else {**kept, **named}
    tidy = {key: _tidy(value, unions) for key, value in schema.items()}
    if tidy.get("additionalProperties") is False:
        del tidy["additionalProperties"]
    if tidy.get("type") == "object" and isinstance(tidy.get("properties"), dict):
        tidy["propertyNames"] = schema_parts.FIELD_NAMES
    if isinstance(pattern := tidy.get("pattern"), str):
        tidy["pattern"] = pattern.replace(r"\Z", "$")
    return tidy
