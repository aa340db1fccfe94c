"""The body of `POST /v1/chat/completions`, made into a request."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from antiphon.bridges.chat_completions.body import (
    PASSED_ON,
    ChatCompletionBody,
    FunctionBody,
    NamedBody,
    ResponseFormatBody,
    ToolBody,
    ToolChoiceBody,
)
from antiphon.bridges.chat_completions.messages import DOOR, ChatTranslation
from antiphon.bridges.error_paths import rename_param
from antiphon.bridges.message_bodies import decode_messages_body
from antiphon.spec.codec import Opaque, encode, extend_struct, extras, with_extras
from antiphon.spec.error_paths import missing, wrong
from antiphon.spec.errors import UNSUPPORTED_PARAMETER
from antiphon.spec.items import Message
from antiphon.spec.limits import MAX_BODY
from antiphon.spec.request import ReasoningParam, Request, StreamOptions, TextParam
from antiphon.spec.response import DROPPED, REWRITTEN, Receipt
from antiphon.spec.tools import (
    AllowedTools,
    CustomTool,
    Format,
    FunctionTool,
    FunctionToolChoice,
    JsonObjectFormat,
    JsonSchemaFormat,
    TextFormat,
    Tool,
    ToolChoice,
    ToolRef,
)

_DECODER = msgspec.json.Decoder(ChatCompletionBody)
_LOGPROBS = "message.output_text.logprobs"
# Fields of a response that would be in the way of `messages`.
_STATE = frozenset({"input", "instructions", "previous_response_id", "conversation", "background"})
_OURS = frozenset(Request.__struct_encode_fields__)
# What a request calls otherwise than this API does.
_NAMES = {
    "include": "logprobs",
    "input": "messages",
    "reasoning.effort": "reasoning_effort",
    "reasoning": "reasoning_effort",
    "text.format.name": "response_format.json_schema.name",
    "text.format.description": "response_format.json_schema.description",
    "text.format.schema": "response_format.json_schema.schema",
    "text.format.strict": "response_format.json_schema.strict",
    "text.format": "response_format",
    "text.verbosity": "verbosity",
    "tool_choice.name": "tool_choice.function.name",
    "tool_choice.tools": "tool_choice.allowed_tools.tools",
}
_ITEM = re.compile(r"input\[(\d+)\](?:\.(content|output|call_id|encrypted_content)(.*))?.*")
_PARTS = frozenset({"content", "output"})


@dataclass(slots=True)
class ReadCompletion:
    """The request, what could not be kept of the body, and how its sender wants to be answered."""

    request: Request
    receipts: list[Receipt]
    places: list[str]
    """Where each item of the input was said."""
    names: dict[str, str]
    """What this body calls some parameters that a request calls otherwise."""
    parts: dict[str, Mapping[str, str]]
    """What some parts call their fields, by the place of the part."""
    is_older: bool = False
    """Does the answer call functions in the older way?"""
    has_usage: bool = False
    """Does a stream end with the usage?"""

    def param(self, ours: str) -> str:
        """What the client calls a parameter.

        >>> read_completion(b'{"messages": [{"role": "user", "content": "Hi"}]}').param("text.format.schema")
        'response_format.json_schema.schema'
        """
        if found := _ITEM.fullmatch(ours):
            place = self.places[int(found[1])] if int(found[1]) < len(self.places) else "messages"
            if found[2] in _PARTS:
                part, _, field = f"{place}.content{found[3]}".rpartition(".")
                return f"{part}.{rename_param(field, self.parts.get(part, {}))}"
            if found[2] == "encrypted_content":
                return f"{place}.reasoning_details"
            return f"{place}.{self._id_of_call(place)}" if found[2] else place
        return rename_param(ours, self.names | _NAMES)

    def _id_of_call(self, place: str) -> str:
        return "id" if "tool_calls[" in place else "tool_call_id"


def read_completion(body: bytes, *, max_bytes: int = MAX_BODY, searches: bool = False) -> ReadCompletion:
    """The body of `POST /v1/chat/completions` as a request; the first mistake in it is a `SpecError`.

    With `searches`, the options of a search ask the gateway to search; otherwise they are for the provider.
    """
    chat = decode_messages_body(_DECODER, body, max_bytes=max_bytes, is_flat=_is_flat)
    if not chat.messages:
        raise wrong("messages", "expected at least one message, got an empty list", "no_messages")
    return to_request(chat, searches=searches)


def _is_flat(chat: ChatCompletionBody) -> bool:
    """Is there one text and no field in which anything could be nested?"""
    if chat.tools or chat.functions or chat.response_format or len(chat.messages) > 1:
        return False
    only = chat.messages[0]
    if type(only.content) is not str or only.reasoning or only.reasoning_details or only.annotations:
        return False
    return not (chat.web_search_options or chat.prediction or chat.route)


def to_request(chat: ChatCompletionBody, *, searches: bool = False) -> ReadCompletion:
    """A chat completion as a request of Open Responses."""
    if chat.n or chat.audio is not None or chat.modalities:
        _check_answer(chat)
    talk = ChatTranslation(chat.messages)
    receipts = talk.receipts
    unknown = extras(chat) if type(chat) is not ChatCompletionBody else {}
    fields: dict[str, Any] = {
        "model": chat.model,
        "input": _input(talk),
        "store": chat.store is True,
        "stream": chat.stream is True,
        "metadata": chat.metadata,
        "temperature": chat.temperature,
        "top_p": chat.top_p,
        "presence_penalty": chat.presence_penalty,
        "frequency_penalty": chat.frequency_penalty,
        "max_output_tokens": chat.max_completion_tokens or chat.max_tokens,
        "top_logprobs": chat.top_logprobs,
        "service_tier": chat.service_tier,
        "prompt_cache_key": chat.prompt_cache_key,
        "safety_identifier": chat.safety_identifier or chat.user,
    }
    if chat.logprobs:
        fields["include"] = [_LOGPROBS]
    if (effort := chat.reasoning_effort) == "minimal":
        effort = "low"
        receipts.append(Receipt("reasoning_effort", REWRITTEN, "'minimal' is read as 'low'", DOOR))
    if effort is not None:
        fields["reasoning"] = ReasoningParam(effort)
    if chat.response_format is not None or chat.verbosity is not None:
        fields["text"] = TextParam(_format(chat.response_format), chat.verbosity)
    options = chat.stream_options
    if options is not None and options.include_obfuscation:
        fields["stream_options"] = StreamOptions(True)
    is_older = bool(chat.functions) and not chat.tools
    fields |= _older_tools(chat) if is_older else _tools(chat)
    names = {"max_output_tokens": "max_completion_tokens" if chat.max_completion_tokens else "max_tokens"}
    if searches and chat.web_search_options is not None:
        names[f"tools[{len(fields['tools'])}]"] = "web_search_options"
        fields["tools"].append(_search(chat.web_search_options))
        chat.web_search_options = None
    if is_older:
        names |= {"tools": "functions", "tool_choice": "function_call"}
    if chat.user and not chat.safety_identifier:
        names["safety_identifier"] = "user"
    if chat.max_tokens or chat.user or chat.functions:
        receipts += _told_twice(chat)
    passed = {name: value for name in PASSED_ON if (value := getattr(chat, name)) is not None}
    if "route" in passed:
        passed["antiphon:route"] = passed.pop("route")
    return ReadCompletion(
        _carrying(fields, passed | _pass_on(unknown, receipts)),
        receipts,
        [one.place for one in talk.said],
        names,
        talk.parts,
        is_older=is_older,
        has_usage=options is not None and options.include_usage is True,
    )


def _check_answer(chat: ChatCompletionBody) -> None:
    """Refuse to give several answers, and to speak."""
    if chat.n not in (None, 1):
        message = "a request gets one answer; leave `n` out, and send the request again for another"
        raise wrong("n", message, UNSUPPORTED_PARAMETER)
    name = "audio" if chat.audio is not None else "modalities"
    if chat.audio is not None or "audio" in (chat.modalities or ()):
        raise wrong(name, f"only text is answered; leave `{name}` out", UNSUPPORTED_PARAMETER)


def _input(talk: ChatTranslation) -> Any:
    """One text of a user is the short form of an input."""
    said = talk.said
    first = said[0].item if len(said) == 1 else None
    if type(first) is Message and first.role == "user" and isinstance(first.content, str):
        return first.content
    return [one.item for one in said]


def _carrying(fields: dict[str, Any], more: dict[str, Any]) -> Request:
    """A request that has these fields beside those of the specification."""
    if not more:
        return Request(**fields)
    names = tuple(sorted(more))
    carried = {f"extra_{n}": Raw(encode(more[name])) for n, name in enumerate(names)}
    made: Request = extend_struct(Request, names)(**fields, **carried)
    return made


def _pass_on(unknown: dict[str, Any], receipts: list[Receipt]) -> dict[str, Any]:
    """The unknown fields that a provider may know; those of another API are refused or told."""
    for name in unknown.keys() & _STATE:
        message = f"`{name}` belongs to `POST /v1/responses`; send the whole conversation as `messages`"
        raise wrong(name, message, "unsupported_parameter")
    for name in sorted(unknown.keys() & _OURS):
        reason = "this is a parameter of `POST /v1/responses`"
        receipts.append(Receipt(name, DROPPED, reason, DOOR))
    return {name: value for name, value in unknown.items() if name not in _OURS and value is not None}


def _told_twice(chat: ChatCompletionBody) -> list[Receipt]:
    """Older names of what is there under the newer one, too, with another value."""
    pairs = (("max_tokens", "max_completion_tokens"), ("user", "safety_identifier"), ("functions", "tools"))
    found = [
        (one, other) for one, other in pairs if getattr(chat, one) and getattr(chat, other) not in (None, [])
    ]
    return [
        Receipt(one, DROPPED, f"`{other}` says the same, and counts", DOOR)
        for one, other in found
        if getattr(chat, one) != getattr(chat, other)
    ]


def _format(asked: ResponseFormatBody | None) -> Format | None:
    if asked is None:
        return None
    if asked.type == "json_object":
        return JsonObjectFormat()
    if asked.type == "text":
        return TextFormat()
    if (wanted := asked.json_schema) is None:
        raise missing("response_format", "json_schema")
    return JsonSchemaFormat(wanted.name, wanted.description, wanted.schema, strict=wanted.strict is True)


# --- tools ------------------------------------------------------------------------------------------------


def _tools(chat: ChatCompletionBody) -> dict[str, Any]:
    tools = [_tool(tool, f"tools[{n}]") for n, tool in enumerate(chat.tools or ())]
    choice = "required" if chat.tool_choice == "any" else chat.tool_choice
    return {
        "tools": tools,
        "tool_choice": _choice(choice, "tool_choice") if isinstance(choice, ToolChoiceBody) else choice,
        "parallel_tool_calls": chat.parallel_tool_calls,
    }


def _older_tools(chat: ChatCompletionBody) -> dict[str, Any]:
    choice = chat.function_call
    return {
        "tools": [_function(one) for one in chat.functions or ()],
        "tool_choice": FunctionToolChoice(choice.name) if isinstance(choice, NamedBody) else choice,
        "parallel_tool_calls": False,  # an answer has room for one
    }


def _tool(tool: ToolBody, place: str) -> Tool:
    if tool.type == "function":
        if tool.function is None:
            raise missing(place, "function")
        return _function(tool.function)
    if tool.type == "custom":
        if (custom := tool.custom) is None:
            raise missing(place, "custom")
        return CustomTool(custom.name, custom.description, _grammar(custom.format))
    return Opaque(encode(tool))


def _search(options: dict[str, Any]) -> Opaque:
    """The tool that these options mean; where the user is stands one level lower in this API."""
    place = options.get("user_location")
    if isinstance(place, dict) and isinstance(inner := place.get("approximate"), dict):
        options = {**options, "user_location": {**inner, "type": place.get("type")}}
    return Opaque.make(**{**options, "type": "web_search"})


def _function(given: FunctionBody) -> FunctionTool:
    made = FunctionTool(given.name, given.description, given.parameters, given.strict)
    return with_extras(made, own) if (own := extras(given)) else made


def _grammar(format: dict[str, Any] | None) -> dict[str, Any] | None:
    """A grammar stands one level lower in this API."""
    match format:
        case {"type": "grammar", "grammar": dict(grammar)}:
            return {"type": "grammar", **grammar}
    return format


def _choice(choice: ToolChoiceBody, place: str) -> ToolChoice:
    if choice.type == "allowed_tools":
        if (allowed := choice.allowed_tools) is None:
            raise missing(place, "allowed_tools")
        where = f"{place}.allowed_tools.tools"
        return AllowedTools([_ref(one, f"{where}[{n}]") for n, one in enumerate(allowed.tools)], allowed.mode)
    return _ref(choice, place)


def _ref(choice: ToolChoiceBody, place: str) -> ToolRef:
    named = choice.function if choice.type == "function" else choice.custom
    if named is None:
        raise missing(place, "function" if choice.type == "function" else "custom")
    if choice.type == "function":
        return FunctionToolChoice(named.name)
    return Opaque.make(type="custom", name=named.name)
