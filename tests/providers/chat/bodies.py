"""Bodies for chat servers, each checked against the official SDK's own request types."""

from typing import Any

from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from antiphon.providers.base import Turn
from antiphon.providers.chat.profiles import OPENAI, Profile
from antiphon.providers.chat.request import prepare
from antiphon.wires.reasoning.kept import CONTENT
from tests.providers.compose import make_turn
from tests.providers.typed_dicts import mistakes


def build(request: dict[str, Any], profile: Profile = OPENAI) -> tuple[dict[str, Any], Turn]:
    turn = make_turn(request)
    body, _ = prepare(turn, profile, "up")
    if profile.name in ("openai", "generic"):
        # What a server gave as `reasoning_content` goes back there, for which the SDK has no field.
        plain = [{key: said[key] for key in said if key != CONTENT} for said in body["messages"]]
        assert mistakes({**body, "messages": plain}, CompletionCreateParamsStreaming) == []
    return body, turn


def body(request: dict[str, Any], profile: Profile = OPENAI) -> dict[str, Any]:
    return build(request, profile)[0]
