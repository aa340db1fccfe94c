"""Two opinions that are not ours on what is valid: the JSON Schema of the specification, and the Pydantic
models that somebody else generated from it."""

import json
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any

import jsonschema_rs
from jsonschema import Draft202012Validator
from openresponses_types import types as models
from pydantic import TypeAdapter, ValidationError

SCHEMAS: dict[str, Any] = json.loads(Path(__file__).with_name("schema-2026-04-24.json").read_text())[
    "components"
]["schemas"]
EVENT_SCHEMAS: dict[str, str] = {
    schema["properties"]["type"]["enum"][0]: name
    for name, schema in SCHEMAS.items()
    if name.endswith("StreamingEvent")
}


def _whole(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(_whole(name))


@cache
def _judge(name: str) -> jsonschema_rs.Draft202012Validator:
    """Says only yes or no, many times as fast as the one that says why not."""
    return jsonschema_rs.Draft202012Validator(_whole(name))


@cache
def _model(name: str) -> TypeAdapter[Any]:
    """The model of that name; the generator gave none to three unions, whose members it has."""
    if hasattr(models, name):
        return TypeAdapter(getattr(models, name))
    members = [getattr(models, one["$ref"].rpartition("/")[2]) for one in SCHEMAS[name]["oneOf"]]
    return TypeAdapter(reduce(or_, members))


def objections(name: str, payload: Any) -> list[str]:
    """What the two have against `payload` as the schema `name`."""
    found: list[str] = []
    if not _judge(name).is_valid(payload):
        found = [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(payload)]
        assert found, f"two readings of the schema {name} differ on {json.dumps(payload)[:2000]}"
    try:
        _model(name).validate_json(json.dumps(payload), strict=True)
    except ValidationError as error:
        found += [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    return found


def assert_valid(name: str, payload: Any) -> None:
    found = objections(name, payload)
    assert not found, f"not a valid {name}: {found}\n{json.dumps(payload)[:2000]}"


def assert_valid_event(payload: dict[str, Any]) -> None:
    assert payload["type"] in EVENT_SCHEMAS, f"no event of the specification: {payload['type']!r}"
    assert_valid(EVENT_SCHEMAS[payload["type"]], payload)


def assert_valid_response(payload: dict[str, Any]) -> None:
    assert_valid("ResponseResource", payload)


def assert_valid_output_item(payload: dict[str, Any]) -> None:
    assert_valid("ItemField", payload)


def assert_valid_input_item(payload: dict[str, Any]) -> None:
    assert_valid("ItemParam", payload)


def assert_valid_request(payload: dict[str, Any]) -> None:
    assert_valid("CreateResponseBody", payload)
