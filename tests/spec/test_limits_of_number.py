"""How many items, fields and names a body may have; and that each limit is stated once."""

import json
from typing import get_type_hints

import msgspec
import pytest

from antiphon.config.schema import ServerSettings
from antiphon.spec import decode_request
from antiphon.spec.limits import (
    MAX_ALLOWED_TOOLS,
    MAX_BODY,
    MAX_NAME,
    MAX_UNKNOWN_FIELDS,
    MAX_UNKNOWN_NAME,
    MAX_UNKNOWN_SHAPES,
    NAME,
    NOT_IN_NAME,
    FunctionName,
)
from antiphon.spec.tools import AllowedTools
from tests.spec.refusals import Payload, accepted, refusal


@pytest.mark.parametrize(
    ("count", "tiny"),
    [
        (30_000, {"type": "message", "role": "user", "content": ""}),
        (40_000, {"role": "user", "content": ""}),
        (20_000, {"type": "a:b"}),
        (10_000, {"id": "a"}),
        (10_000, {"role": "user", "content": "", "acme:x": 1}),
        (10_000, {"type": "function_call", "id": "c", "name": "f", "arguments": {}}),
    ],
    ids=["typed", "untyped", "vendor", "references", "unknown field", "aliases"],
)
def test_many_tiny_items_are_taken(count: int, tiny: Payload) -> None:
    decoded = decode_request(msgspec.json.encode({"input": [tiny] * count}))
    assert isinstance(decoded.input, list)
    assert len(decoded.input) == count


def shapes(count: int) -> Payload:
    return {"input": [{"role": "user", "content": "", f"acme:{n}": 1} for n in range(count)]}


def test_many_different_sets_of_unknown_fields_are_refused() -> None:
    """Each set costs a class."""
    accepted(shapes(MAX_UNKNOWN_SHAPES))
    error = refusal(shapes(MAX_UNKNOWN_SHAPES + 1))
    assert error.payload.param == f"input[{MAX_UNKNOWN_SHAPES}]"
    assert "different sets of unknown fields" in error.payload.message


def test_many_unknown_fields_in_one_object_are_refused() -> None:
    many = {f"acme:{n}": n for n in range(MAX_UNKNOWN_FIELDS + 1)}
    error = refusal({"input": [{"role": "user", "content": "", **many}]})
    assert error.payload.param == "input[0]"
    assert error.payload.message == "expected at most 64 unknown fields in one object, got 65"
    # But not in an object that is all unknown.
    accepted({"input": [{"type": "acme:thing", **many}]})


def test_the_name_of_an_unknown_field_has_a_limit() -> None:
    accepted({"x" * MAX_UNKNOWN_NAME: 1})
    error = refusal({"x" * (MAX_UNKNOWN_NAME + 1): 1})
    assert "at most 256 characters, got a string of 257 characters" in error.payload.message


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\0"])
def test_a_name_that_needs_escapes_is_refused_in_known_objects_only(name: str) -> None:
    error = refusal({"tools": [{"type": "function", "name": "f", name: 1}]})
    assert error.payload.param == "tools[0]"
    assert error.payload.message.endswith(f"got {name!r}")
    accepted({"tools": [{"type": "acme:tool", name: 1}]})


def test_every_refusal_is_json_that_names_its_parts() -> None:
    error = refusal({"max_output_tokens": 1})
    assert json.loads(msgspec.json.encode(error.payload)) == {
        "type": "invalid_request",
        "message": "expected an integer of at least 16, got 1",
        "code": "invalid_value",
        "param": "max_output_tokens",
    }


def test_the_gateway_takes_bodies_as_large_as_the_decoder_does() -> None:
    assert ServerSettings().body_limit == MAX_BODY


def test_the_type_of_allowed_tools_has_the_limit_that_the_reader_has() -> None:
    """The number stands in the type too, because the reference shows it to users."""
    [meta] = get_type_hints(AllowedTools, include_extras=True)["tools"].__metadata__
    assert (meta.min_length, meta.max_length) == (1, MAX_ALLOWED_TOOLS)


@pytest.mark.parametrize("name", ["f", "F-9_", "f" * 64, "", "f" * 65, "é", "a b", "f\n", "٣"])
def test_a_name_fits_the_expression_as_it_fits_the_type(name: str) -> None:
    try:
        taken = bool(msgspec.convert(name, FunctionName))
    except msgspec.ValidationError:
        taken = False
    assert bool(NAME.fullmatch(name)) is taken
    assert not name or len(name) > MAX_NAME or (NOT_IN_NAME.search(name) is None) is taken
