"""From a turn to the body of `/chat/completions`: messages, tools, and what else the server takes."""

from functools import cache
from typing import Any

from antiphon.providers.base import REWRITTEN, Turn
from antiphon.providers.chat.messages import messages
from antiphon.providers.chat.profiles import GENERIC, Profile
from antiphon.providers.parameters import find_tier, in_words
from antiphon.providers.tools import flatten
from antiphon.spec.codec import Opaque, extras
from antiphon.spec.request import NO_SAMPLING, get_sampling
from antiphon.spec.response import nearest_effort
from antiphon.spec.tools import AllowedTools, FunctionToolChoice, JsonObjectFormat, JsonSchemaFormat
from antiphon.wires.chat.requests import function_tool, json_schema, named_choice
from antiphon.wires.tools.names import NO_TOOLS, ToolNames, UpstreamFunction

_TIERS = {"standard": "default"} | {
    tier: tier for tier in ("auto", "default", "flex", "priority", "scale", "fast")
}


def prepare(
    turn: Turn, profile: Profile = GENERIC, provider: str = "chat"
) -> tuple[dict[str, Any], ToolNames]:
    """The body of a request, and its tools; what cannot be sent leaves a receipt or is refused."""
    names = flatten(turn, provider) if turn.tools else NO_TOOLS
    body: dict[str, Any] = {"model": turn.model, "messages": messages(turn, profile, provider, names)}
    if turn.stream or profile.always_streams:
        body["stream"] = True
        if profile.stream_options:
            body["stream_options"] = {"include_usage": True}
    if names.functions:
        body |= tool_fields(turn, profile, provider, names)
    body |= parameters(turn, profile, provider)
    if turn.request.text is not None:
        body |= format_fields(turn, profile, provider, body["messages"])
    return body, names


def tool_fields(turn: Turn, profile: Profile, provider: str, names: ToolNames) -> dict[str, Any]:
    fields: dict[str, Any] = {"tools": [_tool(function, profile) for function in names.functions]}
    match turn.request.tool_choice:
        case "none" | "auto" | "required" as mode:
            fields["tool_choice"] = mode
        case AllowedTools(mode=mode):
            # The whole list goes to the model; what it may call is enforced on what it says.
            fields["tool_choice"] = mode
        case FunctionToolChoice(name=name):
            fields["tool_choice"] = _choose_by_name(turn, provider, names.find(name))
        case Opaque() as choice:
            named = names.find(str(choice.fields.get("name", "")), choice.fields.get("namespace"))
            fields["tool_choice"] = _choose_by_name(turn, provider, named)
    if profile.wraps_tool_choice and "tool_choice" in fields:
        fields["tool_choice"] = {"value": fields["tool_choice"]}
    parallel = turn.request.parallel_tool_calls
    if parallel is not None and "parallel_tool_calls" in profile.takes:
        fields["parallel_tool_calls"] = parallel
    return fields


def _tool(function: UpstreamFunction, profile: Profile) -> dict[str, Any]:
    strict = function.strict and profile.strict_tools
    return function_tool(function.name, function.description, function.parameters, strict=strict)


def _choose_by_name(turn: Turn, provider: str, name: str | None) -> Any:
    if name is None:
        turn.receipt(provider, "tool_choice", "the chosen tool cannot be sent, so the model may choose")
        return "auto"
    return named_choice(name)


def parameters(turn: Turn, profile: Profile, provider: str) -> dict[str, Any]:
    """Sampling and the rest; the engine has told the client about what the profile does not take."""
    request, takes = turn.request, profile.takes
    fields: dict[str, Any] = {}
    if get_sampling(request) != NO_SAMPLING:
        for name in _in_order(profile.common):
            if (value := getattr(request, name)) is not None:
                fields[name] = value
    if request.max_output_tokens is not None:
        fields[profile.max_tokens] = request.max_output_tokens
    if "logprobs" in takes and (request.top_logprobs or "message.output_text.logprobs" in request.include):
        fields["logprobs"] = True
        if request.top_logprobs and profile.alternatives:
            fields["top_logprobs"] = request.top_logprobs
    if request.reasoning is not None and "reasoning_effort" in takes:
        if request.reasoning.effort is not None:
            fields["reasoning_effort"] = _effort(turn, profile, provider, request.reasoning.effort)
        if request.reasoning.summary is not None:
            turn.receipt(provider, "reasoning.summary", "this wire has no summaries of the reasoning")
    if request.text is not None and request.text.verbosity is not None and "verbosity" in takes:
        fields["verbosity"] = request.text.verbosity
    if "service_tier" in takes and (tier := find_tier(turn, provider, _TIERS)) is not None:
        fields["service_tier"] = tier
    if request.prompt_cache_key is not None and "prompt_cache_key" in takes:
        fields["prompt_cache_key"] = request.prompt_cache_key
    if request.safety_identifier is not None:
        for name in ("safety_identifier", "user"):
            if name in takes:
                fields[name] = request.safety_identifier
                break
    given = extras(request)
    return fields | {name: given[name] for name in sorted(profile.extra & given.keys())} if given else fields


@cache
def _in_order(names: frozenset[str]) -> list[str]:
    return sorted(names)


def _effort(turn: Turn, profile: Profile, provider: str, effort: str) -> str:
    nearest = nearest_effort(effort, profile.efforts)
    if nearest != effort:
        turn.receipt(provider, "reasoning.effort", f"{effort!r} is sent as {nearest!r} here", REWRITTEN)
    return nearest


def format_fields(
    turn: Turn, profile: Profile, provider: str, messages: list[dict[str, Any]]
) -> dict[str, Any]:
    match turn.request.text and turn.request.text.format:
        case JsonSchemaFormat() as wanted if profile.json_schema:
            return {"response_format": json_schema(wanted)}
        case JsonSchemaFormat() as wanted:
            reason = "this server has no json_schema, so it is asked for JSON, with the schema in the prompt"
            turn.receipt(provider, "text.format", reason, REWRITTEN)
            _add_instruction(messages, in_words(wanted))
        case JsonObjectFormat() as wanted if not profile.json_object:
            reason = "this server has no json_object, so it is asked for JSON in words"
            turn.receipt(provider, "text.format", reason, REWRITTEN)
            _add_instruction(messages, in_words(wanted))
        case JsonObjectFormat():
            pass
        case _:
            return {}
    return {"response_format": {"type": "json_object"}} if profile.json_object else {}


def _add_instruction(messages: list[dict[str, Any]], text: str) -> None:
    """Words for the model in the first system message."""
    if messages and messages[0]["role"] == "system":
        messages[0]["content"] += f"\n\n{text}"
    else:
        messages.insert(0, {"role": "system", "content": text})
