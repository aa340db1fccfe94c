"""Decodes an HTTP answer to a response or an error, under all common names of its fields."""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from antiphon.client.errors import StatusError, StreamBroken, UnexpectedAnswer
from antiphon.client.transport.body_formats import Payloads
from antiphon.spec.aliases import string
from antiphon.spec.codec import NULL, UNREADABLE, extras
from antiphon.spec.errors import ERROR_TYPE_ALIASES
from antiphon.spec.response import Response
from antiphon.stream.reader import Reader
from antiphon.wires.retry_after import retry_after

VIA = "antiphon:via"
CHAT: Literal["chat_completions"] = "chat_completions"

_LONGEST = 2000
# What to do when the server gives no reason.
_ADVICE = {
    401: "it wants a valid key: `api_key=`, or the environment variable that goes with the address",
    403: "the key is not allowed to do this",
    404: "not found; check the address, the model's name and the ids",
    413: "the request is too large",
    429: "too many requests; wait a moment, or ask the server's owner for a higher limit",
}
_split = msgspec.json.Decoder(dict[str, Raw]).decode
# What servers say of a further try, as the clients of OpenAI and Anthropic read it.
_ANSWERS = {"true": True, "false": False}
# At least one of these is in every response, however short a server makes it.
_MARKS = ("id", "output", "status")


class ServerRefusal(Struct):
    """The content of an error, under all common names of its fields."""

    type: str = ""
    code: str = ""
    param: str = ""
    message: str = ""

    def as_error(
        self,
        status: int,
        redact: Callable[[str], str] = str,
        *,
        request_id: str = "",
        retry_after: float | None = None,
        should_retry: bool | None = None,
    ) -> StatusError:
        return StatusError(
            status,
            redact(self.message) or _ADVICE.get(status, "it gave no reason"),
            type=redact(self.type),
            code=redact(self.code),
            param=redact(self.param),
            request_id=request_id,
            retry_after=retry_after,
            should_retry=should_retry,
        )


def response_of(body: bytes, content_type: str = "") -> Response:
    """The response in a body; a server that streams without being asked is understood too."""
    if body.lstrip()[:1] == b"{":
        return _whole(body)
    reader = Reader()
    payloads = Payloads()
    found = [reader.feed(one.data, one.event) for one in payloads.feed(body) + payloads.close()]
    if not any(found):
        kind = content_type or "no content type"
        raise UnexpectedAnswer(f"the server's answer ({kind}) is not a response; check the address")
    if not reader.finished and reader.error is None:
        raise StreamBroken("the answer ended before the response did; ask again", reader.close())
    return reader.close()


def _whole(body: bytes) -> Response:
    try:
        fields = _split(body)
    except UNREADABLE as error:
        raise UnexpectedAnswer(f"the server's answer is not JSON: {error}; check the address") from None
    if not any(name in fields for name in _MARKS):
        if fields.get("error", NULL) != NULL:
            raise refusal_in(body).as_error(200)
        raise UnexpectedAnswer("the server's answer is JSON, but not a response; check the address")
    reader = Reader()
    reader.feed(body, "response")
    return reader.response


def status_error(
    status: int, headers: Mapping[str, str], body: bytes, redact: Callable[[str], str]
) -> StatusError:
    return refusal_in(body).as_error(
        status,
        redact,
        request_id=headers.get("x-request-id", "")[:200],
        retry_after=retry_after(headers),
        should_retry=_ANSWERS.get(headers.get("x-should-retry", "")),
    )


def refusal_in(body: bytes) -> ServerRefusal:
    """An error object, a sentence in its place, or the first words of a page."""
    try:
        fields = _split(body)
    except UNREADABLE:
        text = " ".join(body[: _LONGEST * 4].decode("utf-8", "replace").split())
        return ServerRefusal(message=text[:_LONGEST])
    inner = fields
    if fields.get("error", NULL) != NULL:
        try:
            inner = _split(fields["error"])
        except UNREADABLE:
            inner = {"message": fields["error"]}
    texts = {name: _text(inner.get(name, NULL)) for name in ("type", "code", "param", "message")}
    texts["message"] = texts["message"] or _text(fields.get("detail", NULL))
    texts["type"] = ERROR_TYPE_ALIASES.get(texts["type"], texts["type"])
    return ServerRefusal(**texts)


def via(response: Response) -> Literal["responses", "chat_completions"]:
    """Returns the endpoint from which a response came: `/responses`, or the fallback to chat.

    >>> via(Response(id="resp_1", model="demo", created_at=0))
    'responses'
    """
    return CHAT if extras(response).get(VIA) == CHAT else "responses"


def _text(raw: Raw) -> str:
    """A string as it is, another value as its JSON, nothing for null."""
    if raw == NULL:
        return ""
    text = string({"": raw}, "")
    return (text if text is not None else bytes(raw).decode("utf-8", "replace"))[:_LONGEST]
