"""The response at its start: what it repeats of the request, with defaults for the rest."""

from collections.abc import Mapping

from msgspec import UNSET

from antiphon.spec import ids
from antiphon.spec.request import Request
from antiphon.spec.response import ReasoningOptions, Response
from antiphon.spec.tools import TextFormat, TextOptions

_SAMPLING: Mapping[str, float] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


def new_response(
    request: Request, *, model: str, now: float, defaults: Mapping[str, float] | None = None
) -> Response:
    """`model` is what the client asked for, or the name of the default model; `defaults` are a provider's."""
    sampling = {**_SAMPLING, **defaults} if defaults else _SAMPLING
    temperature, top_p = request.temperature, request.top_p
    presence, frequency = request.presence_penalty, request.frequency_penalty
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
        parallel_tool_calls=request.parallel_tool_calls is not False,
        text=TextOptions((text and text.format) or TextFormat(), verbosity=text.verbosity if text else None),
        top_p=sampling["top_p"] if top_p is None else top_p,
        presence_penalty=sampling["presence_penalty"] if presence is None else presence,
        frequency_penalty=sampling["frequency_penalty"] if frequency is None else frequency,
        top_logprobs=request.top_logprobs or 0,
        temperature=sampling["temperature"] if temperature is None else temperature,
        reasoning=ReasoningOptions(reasoning.effort, reasoning.summary) if reasoning else None,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        store=request.store,
        background=request.background,
        service_tier=request.service_tier or "default",
        metadata=dict(request.metadata) if request.metadata else {},
        safety_identifier=request.safety_identifier,
        prompt_cache_key=request.prompt_cache_key,
        conversation={"id": request.conversation} if request.conversation else UNSET,
    )
    if response.service_tier == "auto":
        response.service_tier = "default"
    return response
