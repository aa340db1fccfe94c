"""Answers as values of a type: makes the strict schema for a request, and reads the value of an answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, get_origin

import msgspec

from antiphon.client.errors import Incomplete, Mismatch, Refused, ResponseFailed, UsageError
from antiphon.client.tools import parameter_schema
from antiphon.spec.codec import to_builtins
from antiphon.spec.content import Refusal
from antiphon.spec.items import Message
from antiphon.spec.limits import MAX_NAME
from antiphon.spec.request import TextParam
from antiphon.spec.response import Response

T = TypeVar("T")

_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """A response, and what it says as a value."""

    response: Response
    output: T


def text_param(into: type[Any], given: TextParam | Mapping[str, object] | None) -> dict[str, object]:
    """The `text` parameter that asks for this type; what else was given in it stays.

    The schema is strict, every property named and required, unless the type has keys of any name.
    """
    schema = _plain_schema(into)
    strict = not parameter_schema.loose(schema)
    format = {
        "type": "json_schema",
        "name": _UNFIT.sub("_", into.__name__)[:MAX_NAME],
        "schema": parameter_schema.strictly(schema) if strict else schema,
        "strict": strict,
    }
    return {**(to_builtins(given) if given is not None else {}), "format": format}


def parse_output(response: Response, into: type[T]) -> Parsed[T]:
    """Reads the value of a response; raises `Refused`, `Incomplete` or `Mismatch` if there is none."""
    if response.status == "failed":
        raise ResponseFailed(response)
    for item in response.output:
        if isinstance(item, Message) and isinstance(item.content, list):
            for part in item.content:
                if isinstance(part, Refusal):
                    raise Refused(part.refusal, response)
    if response.status != "completed":
        reason = response.incomplete_details.reason if response.incomplete_details else response.status
        raise Incomplete(reason, response)
    text = final_text(response)
    try:
        return Parsed(response, _value(text, into))
    except (ValueError, RecursionError) as error:
        raise Mismatch(text, str(error), response) from None


def final_text(response: Response) -> str:
    """Returns the text of a response without its commentary, if it has other text."""
    messages = [item for item in response.output if isinstance(item, Message)]
    final = [item for item in messages if item.phase != "commentary"]
    return "".join(item.get_text() for item in final or messages)


def _value(text: str, into: type[T]) -> T:
    schema = _plain_schema(into)
    given = parameter_schema.without_nulls(msgspec.json.decode(text), schema, schema)
    if parameter_schema.is_pydantic(into):
        return cast(T, parameter_schema.validate(into, given))
    return msgspec.convert(given, into, dec_hook=parameter_schema.validate, str_keys=True)


def _plain_schema(into: Any) -> parameter_schema.Schema:
    if not isinstance(into, type) and get_origin(into) is None:
        raise UsageError(
            "the output is a class: a msgspec Struct, a dataclass or a Pydantic model, "
            f"and not a {type(into).__name__}"
        )
    try:
        schema = parameter_schema.schema_of(into, getattr(into, "__name__", repr(into)))
    except parameter_schema.SchemaError as error:
        raise UsageError(f"the output has no JSON Schema; {error}") from None
    if schema.get("type") != "object":
        raise UsageError(f"{into!r} is not an object with named fields; put it into one")
    return schema
