"""Checks an answer against the `json_schema` of its request."""

from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.spec.codec import UNREADABLE, encode
from antiphon.spec.content import OutputText, text_of
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.items import CustomToolCallOutput, FunctionCallOutput, Message
from antiphon.spec.request import Request
from antiphon.spec.response import Response
from antiphon.spec.tools import JsonObjectFormat, JsonSchemaFormat
from antiphon.stream.deltas import AnyDelta, Failure, Finish
from antiphon.stream.sinks import Sink, WrappingSink
from antiphon.wires.notes import Note
from antiphon.wires.schema.pool import SchemaPool

_LARGEST = 256 * 1024


async def check_schema(request: Request, tenant: str, pool: SchemaPool) -> None:
    """Refuse a schema that is none before the model has spent a token on it."""
    form = request.text.format if request.text else None
    if not isinstance(form, JsonSchemaFormat) or form.schema is None:
        return
    size = len(encode(form.schema))
    if size > _LARGEST:
        message = f"a schema may have {_LARGEST:,} bytes; this one has {size:,}"
        raise SpecError(invalid_param("text.format.schema", message))
    if wrong := await pool.objection_to_schema(tenant, form.schema, size):
        raise SpecError(invalid_param("text.format.schema", f"this is not a JSON schema: {wrong}"))


def needs_check(request: Request) -> bool:
    form = request.text.format if request.text else None
    return isinstance(form, JsonObjectFormat | JsonSchemaFormat)


def is_strict(request: Request) -> bool:
    form = request.text.format if request.text else None
    return isinstance(form, JsonSchemaFormat) and form.strict


async def mismatch(request: Request, response: Response, tenant: str, pool: SchemaPool) -> str | None:
    """What is wrong with the answer, in a sentence; None when it fits or when there is no text.

    Each message is an answer by itself. A comment on the way to the answer is none, and neither is what an
    agent says before it has the output of a call that it made itself.
    """
    output = response.output
    ran = [n for n, item in enumerate(output) if isinstance(item, FunctionCallOutput | CustomToolCallOutput)]
    for item in output[ran[-1] if ran else 0 :]:
        if isinstance(item, Message) and item.phase != "commentary" and (text := _answer(item)):
            wrong = await _objection(request, text, tenant, pool)
            if wrong is not None:
                return wrong
    return None


async def _objection(request: Request, text: str, tenant: str, pool: SchemaPool) -> str | None:
    try:
        value: Any = msgspec.json.decode(text)
    except UNREADABLE as error:
        return f"the answer is not JSON: {error}"
    form = request.text.format if request.text else None
    if isinstance(form, JsonObjectFormat):
        return None if isinstance(value, dict) else "the answer is not a JSON object"
    if not isinstance(form, JsonSchemaFormat):
        return None
    schema = form.schema or {}
    return await pool.objection(tenant, schema, value, len(encode(schema)) + len(text))


def _answer(message: Message) -> str:
    """Its words; a refusal is no answer, and so not held to the schema."""
    return text_of([part for part in message.content if isinstance(part, OutputText)])


class SchemaCheck(WrappingSink):
    """A sink that keeps the end of the answer back until the answer has been held to its schema.

    `answer` gives the response as it is composed so far, and `unmet` is called when that does not fit a
    schema which is not strict. `finish` is to be awaited once the whole answer was put.
    """

    def __init__(
        self,
        sink: Sink,
        request: Request,
        answer: Callable[[], Response],
        unmet: Note,
        schemas: SchemaPool,
        tenant: str = "",
    ) -> None:
        super().__init__(sink)
        self._request = request
        self._answer = answer
        self._unmet = unmet
        self._schemas = schemas
        self._tenant = tenant
        self._end: AnyDelta | None = None

    def put(self, deltas: list[AnyDelta]) -> bool:
        if self._end is not None:
            return True
        if deltas and deltas[-1] == Finish():
            self._end = deltas[-1]
            deltas = deltas[:-1]
        return self._sink.put(deltas)

    async def finish(self) -> None:
        if self._end is not None:
            self._sink.put([await self._judge(self._end)])

    async def _judge(self, end: AnyDelta) -> AnyDelta:
        request = self._request
        wrong = await mismatch(request, self._answer(), self._tenant, self._schemas)
        if wrong is None:
            return end
        if is_strict(request):
            message = f"the answer does not fit text.format: {wrong}"
            return Failure(
                ErrorPayload("model_error", message, code="output_schema_mismatch", param="text.format")
            )
        self._unmet("text.format", f"the answer does not fit: {wrong}")
        return end
