"""The body that a request becomes for a /responses server."""

import json
from typing import Any

from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

from antiphon.providers.base import Turn
from antiphon.providers.responses.quirks import OPENAI, Quirks
from antiphon.providers.responses.request import prepare
from antiphon.spec.codec import encode
from tests.providers.compose import make_turn
from tests.providers.typed_dicts import mistakes

Json = dict[str, Any]


def build(request: str | Json, quirks: Quirks = OPENAI, **turn: Any) -> tuple[Json, Turn]:
    made = make_turn(request, **turn)
    body = json.loads(encode(prepare(made, quirks, "up").body))
    if quirks is OPENAI:
        shape = ResponseCreateParamsStreaming if made.stream else ResponseCreateParamsNonStreaming
        assert mistakes(body, shape) == []
    return body, made


def body(request: str | Json, quirks: Quirks = OPENAI) -> Json:
    return build(request, quirks)[0]


def sent(items: list[Json], quirks: Quirks = OPENAI) -> list[Json]:
    given: list[Json] = body({"input": items}, quirks)["input"]
    return given


def receipts(turn: Turn) -> list[tuple[str, str]]:
    return [(one.param, one.action) for one in turn.receipts]
