"""Structured output."""

import json
from typing import Final

from antiphon.compliance.catalog import check
from antiphon.compliance.checks.inputs import ENOUGH, ROOM
from antiphon.compliance.http_exchange import Json, RecordedExchange, text_of
from antiphon.compliance.probe import Failed, Probe, expect, response_unless_model_failed

_TEXT: Final = "Schema of TextParam"
_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}


def _format(schema: Json = _SCHEMA, *, strict: bool = True) -> Json:
    return {"format": {"type": "json_schema", "name": "weather", "schema": schema, "strict": strict}}


def _fits(words: str) -> str | None:
    """Returns why an answer does not fit the schema above, or None."""
    try:
        answer = json.loads(words)
    except ValueError:
        return "the text is no JSON"
    if not isinstance(answer, dict) or set(answer) != {"city", "degrees"}:
        return f"the text has not the keys of the schema: {words[:100]}"
    if not isinstance(answer["city"], str) or type(answer["degrees"]) is not int:
        return f"the values are not of the schema's types: {words[:100]}"
    return None


@check("format.strict", "MUST", _TEXT, "json", model=True)
async def strict(probe: Probe) -> None:
    """A completed answer fits a strict `json_schema`; one that does not fit is an error."""
    exchange = await probe.ask(
        input="It is 21 degrees in Paris. Give the city and the degrees as JSON.",
        text=_format(),
        max_output_tokens=ROOM,
    )
    _fits_or_failed(exchange)


@check("format.streamed", "MUST", _TEXT, "sse", model=True)
async def strict_in_stream(probe: Probe) -> None:
    """The same holds for a stream."""
    exchange = await probe.ask(
        input="It is 21 degrees in Paris. Give the city and the degrees as JSON.",
        text=_format(),
        max_output_tokens=ROOM,
        stream=True,
    )
    _fits_or_failed(exchange)


def _fits_or_failed(exchange: RecordedExchange) -> None:
    response = response_unless_model_failed(exchange, "`json_schema`")
    if response is not None and response.get("status") == "completed" and (wrong := _fits(text_of(response))):
        raise Failed(f"the response is completed, but {wrong}")


@check("format.bad_schema", "SHOULD", _TEXT)
async def bad_schema(probe: Probe) -> None:
    """A schema that is none is refused."""
    await probe.require_refusal(input="Hello", text=_format({"type": "nonsense", "required": 7}))


@check("format.no_name", "SHOULD", "Schema of JsonSchemaResponseFormatParam")
async def no_name(probe: Probe) -> None:
    """A `json_schema` format needs no name: the schema of a request requires none."""
    shape = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}
    wanted = {"type": "json_schema", "name": "shape", "schema": shape}
    asked: Json = {"input": "Say {}.", "text": {"format": wanted}, "max_output_tokens": ENOUGH}
    await probe.create_if_supported("`json_schema`", **asked)
    del wanted["name"]
    response = await probe.create(**asked)
    found = ((response.get("text") or {}).get("format") or {}).get("name")
    expect(isinstance(found, str), f"the response, where a name is required, says {found!r}")


@check("format.text", "MUST", _TEXT)
async def plain(probe: Probe) -> None:
    """`text.format` of the type `text` is plain text."""
    response = await probe.create(
        input="Say hello.", text={"format": {"type": "text"}}, max_output_tokens=ROOM
    )
    expect(text_of(response), "the response has no text")
