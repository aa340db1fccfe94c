"""The response at its start: what it repeats of the request, with defaults for the rest."""

from collections.abc import Mapping
from operator import attrgetter

from antiphon.spec import ids
from antiphon.spec.request import SAMPLING, Request
from antiphon.spec.response import ReasoningOptions, Response
from antiphon.spec.tools import TextFormat, TextOptions

_sampling = attrgetter(*SAMPLING)
_NONE = (None,) * len(SAMPLING)


def new_response(
    request: Request, model: str, now: float, defaults: Mapping[str, float] | None = None
) -> Response:
    """`model` is what the client asked for, or the name of the default model; `defaults` are a provider's."""
    response = Response(
        id=ids.new_id(ids.RESPONSE),
        created_at=int(now),
        model=model,
        previous_response_id=request.previous_response_id,
        instructions=request.instructions,
        store=request.store,
        background=request.background,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        safety_identifier=request.safety_identifier,
        prompt_cache_key=request.prompt_cache_key,
    )
    if defaults:
        for name, value in defaults.items():
            setattr(response, name, value)
    if (sampling := _sampling(request)) != _NONE:
        for name, value in zip(SAMPLING, sampling, strict=True):
            if value is not None:
                setattr(response, name, value)
    if request.conversation:
        response.conversation = {"id": request.conversation}
    if request.tools:
        response.tools = list(request.tools)
    if request.truncation:
        response.truncation = request.truncation
    if request.top_logprobs:
        response.top_logprobs = request.top_logprobs
    text, reasoning = request.text, request.reasoning
    if request.tool_choice is not None:
        response.tool_choice = request.tool_choice
    if text is not None:
        response.text = TextOptions(text.format or TextFormat(), verbosity=text.verbosity)
    if reasoning is not None:
        response.reasoning = ReasoningOptions(reasoning.effort, reasoning.summary)
    if request.service_tier is not None and request.service_tier != "auto":
        response.service_tier = request.service_tier
    if request.metadata:
        response.metadata = dict(request.metadata)
    return response
