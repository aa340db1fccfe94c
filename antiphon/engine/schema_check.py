"""Does the answer fit the json_schema that the client asked for?"""

from typing import Any

import msgspec

from antiphon.spec.content import OutputText, text_of
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.items import Message
from antiphon.spec.opaque import UNREADABLE, encode
from antiphon.spec.request import Request
from antiphon.spec.response import Response
from antiphon.spec.tools import JsonObjectFormat, JsonSchemaFormat

_LARGEST = 256 * 1024


def check_schema(request: Request) -> None:
    """Refuse a schema that is none before the model has spent a token on it."""
    form = request.text.format if request.text else None
    if not isinstance(form, JsonSchemaFormat) or form.schema is None:
        return
    size = len(encode(form.schema))
    if size > _LARGEST:
        message = f"a schema may have {_LARGEST:,} bytes; this one has {size:,}"
        raise SpecError(invalid_param("text.format.schema", message))
    from antiphon.engine.schemas import objection_to_schema  # loaded on first use: most requests have none

    if wrong := objection_to_schema(form.schema):
        raise SpecError(invalid_param("text.format.schema", f"this is not a JSON schema: {wrong}"))


def needs_check(request: Request) -> bool:
    form = request.text.format if request.text else None
    return isinstance(form, JsonObjectFormat | JsonSchemaFormat)


def is_strict(request: Request) -> bool:
    form = request.text.format if request.text else None
    return isinstance(form, JsonSchemaFormat) and form.strict


def mismatch(request: Request, response: Response) -> str | None:
    """What is wrong with the answer, in a sentence; None when it fits or when there is no text."""
    text = "".join(_answer(item) for item in response.output if isinstance(item, Message))
    if not text:
        return None
    try:
        value: Any = msgspec.json.decode(text)
    except UNREADABLE as error:
        return f"the answer is not JSON: {error}"
    form = request.text.format if request.text else None
    if isinstance(form, JsonObjectFormat):
        return None if isinstance(value, dict) else "the answer is not a JSON object"
    if not isinstance(form, JsonSchemaFormat):
        return None
    from antiphon.engine.schemas import objection

    return objection(form.schema or {}, value)


def _answer(message: Message) -> str:
    """Its words; a refusal is no answer, and so not held to the schema."""
    return text_of([part for part in message.content if isinstance(part, OutputText)])
