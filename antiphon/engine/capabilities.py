"""Compares a request with what its provider can do: what it cannot is dropped with a receipt, or refused."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

from antiphon.catalogue import ModelInfo
from antiphon.engine.truncation import known_window
from antiphon.providers.base import DROPPED, UNMET, Capabilities, Provider, Turn
from antiphon.spec.codec import Opaque, encode, extras
from antiphon.spec.content import PARTS, ContentPart, InputFile, InputImage, InputVideo, Part
from antiphon.spec.errors import UNSUPPORTED_PARAMETER, SpecError, invalid_param
from antiphon.spec.items import Item, Message, has_media, parts_of, text_size
from antiphon.spec.request import NOT_FORWARDED, PROVIDER_PARAMETERS, ReasoningParam, Request
from antiphon.spec.tools import AllowedTools, CustomTool, FunctionTool, FunctionToolChoice, JsonSchemaFormat
from antiphon.wires.messages import thinking
from antiphon.wires.messages.vendor import BETAS, FIELDS, MESSAGE_FIELDS, block_of, fields_of
from antiphon.wires.usage import tokens_in

# Those that are a field of the request; `text.verbosity` is not.
_FIELDS = tuple(name for name in PROVIDER_PARAMETERS if name in Request.__struct_fields__)
# Values that ask for nothing which a provider could fail to give.
_UNDEMANDING = {
    "service_tier": ("auto", "default", "on_demand"),
    "top_logprobs": (0,),
    "reasoning": (ReasoningParam(),),
}
# What can be included: logprobs if the provider has them, and reasoning that is sealed always is.
_INCLUDED = frozenset({"message.output_text.logprobs", "reasoning.encrypted_content"})

REFUSED = "refused"
"""What happens to a request of which a provider cannot take a part: it fails."""

_MOST_CHARACTERS = 8
"""A token of a long text has no more characters than this on the average."""
_MOST_TOKENS = 4
"""A character is no more tokens than it has bytes."""
_PER_ITEM = 32
_CERTAIN = ("configuration", "provider")

# Parameters outside the specification without which the answer would be to something else, and what to do.
_CARRYING = {
    "prompt": "it keeps no prompts; send the words as `instructions` and `input`",
    "messages": "the conversation is read from `input`",
    "system": "a system message is read from `instructions`",
    "moderation": "it moderates nothing",
}

# The same of the Messages API, for a provider of another one.
_CARRYING_MESSAGES = {
    "mcp_servers": "only the Messages API asks them; name each as a tool of type `mcp` on `/v1/responses`",
    "inference_geo": "it cannot promise where the model runs; leave it out, or choose another model",
    "billing_policy": "this provider bills only its own account; leave it out, or choose another model",
    "container.skills": "it has no skills; leave them out, or choose another model",
}

# Parameters of the Messages API that a request of the specification says in its own words, too.
_TOLD_OTHERWISE = frozenset({BETAS, "metadata"})

# Classes of parts that have no fields of a vendor.
_PLAIN_PARTS = frozenset(PARTS.values())
# Fields of a tool without which it is the same tool: how soon it is offered, and what is cached or streamed.
_HARMLESS_OF_TOOLS = frozenset({"cache_control", "defer_loading", "eager_input_streaming"})
_USUAL_TRANSFORMATIONS = {"oversized_image": "downsize"}
_DIRECT = "direct"
"""Among the callers that a tool allows: the model itself."""

_Kind = Literal["image", "file", "audio", "video"]


class Loss(NamedTuple):
    """Something in a request that a target would not do as it was asked."""

    param: str
    reason: str
    action: str = DROPPED
    """`dropped`, `unmet` or `refused`."""


@cache
def _missing(parameters: frozenset[str]) -> list[str]:
    return [name for name in _FIELDS if name not in parameters]


def report_unsupported(turn: Turn, provider: Provider) -> None:
    """Leave a receipt for each parameter that this provider does not have; refuse one that carries words."""
    for loss in _list_unsupported(turn, provider.capabilities):
        if loss.action == REFUSED:
            refusal = invalid_param(
                loss.param, f"{provider.name} cannot be sent `{loss.param}`: {loss.reason}"
            )
            raise SpecError(refusal.with_code(UNSUPPORTED_PARAMETER))
        turn.receipt(provider.name, *loss)


def losses(turn: Turn, provider: Provider, info: ModelInfo) -> list[Loss]:
    """What this provider and this model would refuse of the turn, or lose of it; empty when they take it all.

    The items of the turn have to be known. Nothing is sent, and no receipt is left.
    """
    takes, request = provider.capabilities, turn.request
    found = list(_list_unsupported(turn, takes))
    for kind, param in _media(turn.items).items():
        if not _takes(takes, kind):
            found.append(Loss(param, f"this provider takes no {_plural(kind)}", REFUSED))
        elif info.input_modalities is not None and kind not in info.input_modalities:
            found.append(Loss(param, f"this model takes no {_plural(kind)}", REFUSED))
    if turn.tools:
        found += _tools(turn, takes, info)
    form = request.text.format if request.text is not None else None
    if isinstance(form, JsonSchemaFormat) and (not takes.json_schema or info.json_schema is False):
        reason = "the schema is only part of the prompt, which a model may ignore"
        found.append(Loss("text.format", reason, UNMET))
    if request.reasoning is not None and info.reasoning_levels is not None:
        found += _reasoning(turn, takes, info)
    if (asked := request.max_output_tokens) and info.output_limit and asked > info.output_limit:
        reason = f"this model writes {info.output_limit:,} tokens at most"
        found.append(Loss("max_output_tokens", reason, UNMET))
    if info.context_window is not None and fits(turn, info) is not True and _seems_too_long(turn, info):
        if truncates(request, takes):
            found.append(Loss("input", f"what does not fit {info.context_window:,} tokens is left out"))
        else:
            found.append(Loss("input", f"it may not fit {info.context_window:,} tokens", REFUSED))
    return found


def truncates(request: Request, takes: Capabilities) -> bool:
    """Is a context that is too long shortened for this provider, because the request asks for that?"""
    return request.truncation == "auto" and (
        known_window(takes) is not None or "truncation" in takes.parameters
    )


def fits(turn: Turn, info: ModelInfo) -> bool | None:
    """Does the prompt fit the model's window? None when that is not certain.

    A window of which only the table of prices knows makes nothing certain: models outgrow it.
    """
    window = info.context_window
    if window is None or info.sources.get("context_window") not in _CERTAIN:
        return None
    size = _characters(turn)
    if size // _MOST_CHARACTERS > window:
        return False
    most = size * _MOST_TOKENS + len(turn.items) * _PER_ITEM + (turn.request.max_output_tokens or 0)
    return True if most <= window and not _media(turn.items) else None


def estimated_tokens(turn: Turn) -> int:
    """How many tokens the prompt may have, at four characters a token; pictures and files are not counted."""
    return tokens_in(_characters(turn))


def _list_unsupported(turn: Turn, takes: Capabilities) -> Iterator[Loss]:
    """The parameters of the request that a provider does not have."""
    request = turn.request
    for name in _missing(takes.parameters):
        value = getattr(request, name)
        if value is not None and value not in _UNDEMANDING.get(name, ()):
            yield Loss(name, "this provider has no such parameter")
    if request.text and request.text.verbosity and "text.verbosity" not in takes.parameters:
        yield Loss("text.verbosity", "this provider has no such parameter")
    if request.truncation == "auto" and not truncates(request, takes):
        yield Loss("truncation", "this provider cannot count tokens, so a context that is too long fails")
    for name in request.include:
        if name == "message.output_text.logprobs" and not takes.logprobs:
            yield Loss("include", "this provider gives no logprobs")
        elif name == "reasoning.encrypted_content" and not takes.proofs:
            yield Loss("include", "this provider gives no proof of its reasoning", UNMET)
        elif name not in _INCLUDED and "include" not in takes.parameters:
            yield Loss("include", f"nothing here gives {name!r}")
    for name, value in extras(request).items():
        if name in NOT_FORWARDED or name in takes.parameters:
            continue
        if name == FIELDS:
            for own, given in value.items() if isinstance(value, dict) else ():
                if (carrying := _carrying(own, given)) is not None:
                    yield Loss(carrying, _CARRYING_MESSAGES[carrying], REFUSED)
                elif not _is_told_otherwise(own, given):
                    yield Loss(own, "only the Messages API has this parameter")
        elif name in _CARRYING:
            yield Loss(name, _CARRYING[name], REFUSED)
        elif not takes.extras:
            yield Loss(name, "this parameter is not part of the specification")
    for n, tool in enumerate(request.tools):
        if isinstance(tool, FunctionTool | CustomTool):
            for name in _lost_fields(tool, takes):
                yield Loss(f"tools[{n}].{name}", "this provider's tools have no such field")
    if isinstance(request.input, list) and FIELDS not in takes.parameters:
        yield from _messages_fields(request.input)
    if not takes.extras and (request.reasoning or request.text or request.stream_options):
        yield from _nested_extras(request)


def _messages_fields(items: list[Item]) -> Iterator[Loss]:
    """What only the Messages API has in a message or in one of its parts, and what means something."""
    for n, item in enumerate(items):
        if isinstance(item, Message) and type(item) is not Message:  # it has fields of its own
            own = fields_of(item)
            for name in MESSAGE_FIELDS:
                if own.get(name) not in (None, {}, "never"):
                    yield Loss(f"input[{n}].{name}", "only the Messages API has this field of a message")
        field, parts = parts_of(item)
        for m, part in enumerate(parts):
            for name in () if type(part) in _PLAIN_PARTS or isinstance(part, Opaque) else _lost_of_part(part):
                where = f"input[{n}].{field}[{m}].{name}"
                yield Loss(where, "only the Messages API has this field of a content block")


def _lost_of_part(part: Part) -> Iterator[str]:
    own = fields_of(part) or block_of(part) or {}
    if isinstance(cited := own.get("citations"), dict) and cited.get("enabled"):
        yield "citations"
    if own.get("context") and isinstance(part, InputFile):
        yield "context"  # a document of words has it among them
    if own.get("transformations") not in (None, {}, _USUAL_TRANSFORMATIONS):
        yield "transformations"


def _nested_extras(request: Request) -> Iterator[Loss]:
    for name in ("reasoning", "text", "stream_options"):
        if (given := getattr(request, name)) is not None:
            for own in extras(given):
                yield Loss(f"{name}.{own}", "this parameter is not part of the specification")


def _carrying(name: str, given: Any) -> str | None:
    """The parameter of the Messages API without which the answer would be to something else, if it is one."""
    match name, given:
        case (_, None | []) | ("billing_policy", {"bill_to": "self"}):
            return None
        case ("container", {"skills": [_, *_]}):
            return "container.skills"
    return name if name in _CARRYING_MESSAGES else None


def _is_told_otherwise(name: str, given: Any) -> bool:
    """Is it said in words of the specification, too? Kinds of thinking and efforts to come have none."""
    match name, given:
        case ("thinking", None):
            return True
        case ("thinking", {"type": str(kind)}):
            return kind in thinking.KINDS
        case ("output_config", {"effort": str(effort)}):
            return len(given) == 1 and effort in thinking.EFFORTS
    return name in _TOLD_OTHERWISE


def _tools(turn: Turn, takes: Capabilities, info: ModelInfo) -> Iterator[Loss]:
    if not takes.tools or info.tools is False:
        yield Loss("tools", f"this {'model' if takes.tools else 'provider'} calls no tools", REFUSED)
    elif not takes.custom_tools and any(isinstance(tool, CustomTool) for tool in turn.tools):
        yield Loss("tools", "this provider has no custom tools")
    choice = turn.request.tool_choice
    forced = choice == "required" or isinstance(choice, FunctionToolChoice)
    if isinstance(choice, AllowedTools):
        forced = choice.mode == "required"
    if forced and not takes.forced_tools:
        yield Loss("tool_choice", "this provider cannot be made to call a tool", UNMET)


def _lost_fields(tool: FunctionTool | CustomTool, takes: Capabilities) -> Iterator[str]:
    """The fields of a tool outside the specification that mean something, and that no provider gets."""
    given = extras(tool)
    if not given:
        return
    own = given.get(FIELDS)
    lost = {} if takes.extras else {name: value for name, value in given.items() if name != FIELDS}
    if FIELDS not in takes.parameters and isinstance(own, dict):
        lost |= own
    for name, value in lost.items():
        is_usual = name == "allowed_callers" and isinstance(value, list) and _DIRECT in value
        if name not in _HARMLESS_OF_TOOLS and value is not None and not is_usual:
            yield name


def _reasoning(turn: Turn, takes: Capabilities, info: ModelInfo) -> Iterator[Loss]:
    """An effort that the model does not have; without the parameter, a receipt names that already."""
    asked, levels = turn.request.reasoning, info.reasoning_levels
    if asked is None or asked.effort is None or levels is None or "reasoning" not in takes.parameters:
        return
    if asked.effort not in levels and asked.effort != "none":
        there = ", ".join(levels) or "none"
        yield Loss("reasoning.effort", f"this model has no such effort; it has: {there}", UNMET)


def _media(items: list[Item]) -> dict[_Kind, str]:
    """Each kind of content beside text, and where it first stands."""
    found: dict[_Kind, str] = {}
    if not has_media(items):
        return found
    for n, item in enumerate(items):
        name, parts = parts_of(item)
        for m, part in enumerate(parts):
            if (kind := _kind(part)) is not None:
                found.setdefault(kind, f"input[{n}].{name}[{m}]")
    return found


def _kind(part: ContentPart) -> _Kind | None:
    match part:
        case InputImage():
            return "image"
        case InputFile():
            return "file"
        case InputVideo():
            return "video"
        case Opaque(type="input_audio"):
            return "audio"
    return None


def _takes(takes: Capabilities, kind: _Kind) -> bool:
    """Which providers take video stands in no table, so that is left to them."""
    return {"image": takes.images, "file": takes.files, "audio": takes.audio, "video": True}[kind]


def _plural(kind: _Kind) -> str:
    return kind if kind in ("audio", "video") else f"{kind}s"


def _characters(turn: Turn) -> int:
    said = sum(map(text_size, turn.items)) + len(turn.request.instructions or "")
    return said + len(encode(turn.tools)) if turn.tools else said


def _seems_too_long(turn: Turn, info: ModelInfo) -> bool:
    return info.context_window is not None and estimated_tokens(turn) > info.context_window
