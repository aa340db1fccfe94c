"""The response at its start: what it repeats of the request, with defaults for the rest."""

from collections.abc import Mapping

from msgspec import UNSET

from antiphon.spec import ids
from antiphon.spec.request import Request
from antiphon.spec.response import ReasoningOptions, Response
from antiphon.spec.tools import TextFormat, TextOptions

_SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def new_response(
    request: Request,
    model: str,
    now: float,
    defaults: Mapping[str, float] | None = None,
    bare: bool = False,
) -> Response:
    """`model` is what the client asked for, or the name of the default model; `defaults` are a provider's.

    Of a `bare` request, which sets no option, there is nothing more to repeat than what stands first here.
    """
    response = Response(
        id=ids.new_id(ids.RESPONSE),
        created_at=int(now),
        model=model,
        previous_response_id=request.previous_response_id,
        instructions=request.instructions,
        store=request.store,
        background=request.background,
        conversation={"id": request.conversation} if request.conversation else UNSET,
    )
    if defaults:
        for name, value in defaults.items():
            setattr(response, name, value)
    if bare:
        return response
    for name in _SAMPLING:
        if (value := getattr(request, name)) is not None:
            setattr(response, name, value)
    text, reasoning = request.text, request.reasoning
    response.tools = list(request.tools)
    if request.tool_choice is not None:
        response.tool_choice = request.tool_choice
    response.truncation = request.truncation or "disabled"
    response.parallel_tool_calls = request.parallel_tool_calls is not False
    if text is not None:
        response.text = TextOptions(text.format or TextFormat(), verbosity=text.verbosity)
    response.top_logprobs = request.top_logprobs or 0
    if reasoning is not None:
        response.reasoning = ReasoningOptions(reasoning.effort, reasoning.summary)
    response.max_output_tokens = request.max_output_tokens
    response.max_tool_calls = request.max_tool_calls
    if request.service_tier not in (None, "auto"):
        response.service_tier = request.service_tier
    if request.metadata:
        response.metadata = dict(request.metadata)
    response.safety_identifier = request.safety_identifier
    response.prompt_cache_key = request.prompt_cache_key
    return response
