"""The response at its start: what it repeats of the request, with defaults for the rest."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import UNSET

from antiphon.spec import ids
from antiphon.spec.request import Request
from antiphon.spec.response import ReasoningOptions, Response
from antiphon.spec.tools import TextFormat, TextOptions

T = TypeVar("T")


def new_response(
    request: Request, *, model: str, now: float, defaults: Mapping[str, float] | None = None
) -> Response:
    """`model` is what the client asked for, or the name of the default model; `defaults` are a provider's."""
    sampling = {"temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    sampling |= defaults or {}
    text, reasoning = request.text, request.reasoning
    response = Response(
        id=ids.new_id(ids.RESPONSE),
        created_at=int(now),
        model=model,
        previous_response_id=request.previous_response_id,
        instructions=request.instructions,
        tools=list(request.tools),
        tool_choice=request.tool_choice if request.tool_choice is not None else "auto",
        truncation=request.truncation or "disabled",
        parallel_tool_calls=_given(request.parallel_tool_calls, True),
        text=TextOptions((text and text.format) or TextFormat(), verbosity=text.verbosity if text else None),
        top_p=_given(request.top_p, sampling["top_p"]),
        presence_penalty=_given(request.presence_penalty, sampling["presence_penalty"]),
        frequency_penalty=_given(request.frequency_penalty, sampling["frequency_penalty"]),
        top_logprobs=_given(request.top_logprobs, 0),
        temperature=_given(request.temperature, sampling["temperature"]),
        reasoning=ReasoningOptions(reasoning.effort, reasoning.summary) if reasoning else None,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        store=request.store,
        background=request.background,
        service_tier=request.service_tier or "default",
        metadata=dict(request.metadata or {}),
        safety_identifier=request.safety_identifier,
        prompt_cache_key=request.prompt_cache_key,
        conversation={"id": request.conversation} if request.conversation else UNSET,
    )
    if response.service_tier == "auto":
        response.service_tier = "default"
    return response


def _given(value: T | None, default: T) -> T:
    return default if value is None else value
