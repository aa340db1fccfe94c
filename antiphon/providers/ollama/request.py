"""From a turn to the body of Ollama's `/api/chat`."""

import re
from collections.abc import Mapping
from typing import Any

from antiphon.providers.base import REWRITTEN, Capabilities, Turn
from antiphon.providers.errors import unsupported
from antiphon.providers.history import AnyCall, AnyCallOutput, InputEntry, Speech, note_failure, speeches
from antiphon.providers.tools import as_object, flatten
from antiphon.spec.codec import Opaque, extras
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputVideo, text_of
from antiphon.spec.items import CustomToolCall, FunctionCall, Message, Reasoning
from antiphon.spec.tools import AllowedTools, FunctionToolChoice, JsonObjectFormat, JsonSchemaFormat
from antiphon.wires.chat.requests import function_tool
from antiphon.wires.media import data_url
from antiphon.wires.reasoning.kept import words_of
from antiphon.wires.tools.names import ToolNames, UpstreamFunction

# What the specification and its clients call it, and what Ollama does.
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "max_output_tokens": "num_predict",
}
_EXTRA_OPTIONS = {
    "seed": "seed",
    "stop": "stop",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
}
_EFFORTS: dict[str, bool | str] = {"none": False, "low": "low", "medium": "medium", "high": "high"}

CAPABILITIES = Capabilities(
    prefill=re.compile(""),
    parameters=frozenset({*_OPTIONS, *_EXTRA_OPTIONS, "reasoning", "top_logprobs"}),
    images=True,
    custom_tools=True,
    forced_tools=False,
    logprobs=True,
    reasoning=True,
    proofs=True,
)


def prepare(
    turn: Turn,
    provider: str = "ollama",
    *,
    options: Mapping[str, Any] | None = None,
    keep_alive: str | None = None,
) -> tuple[dict[str, Any], ToolNames]:
    """The body, and the names of its tools; `options` are the configuration's, which a request overrides."""
    names = flatten(turn, provider)
    body: dict[str, Any] = {
        "model": turn.model,
        "messages": _Messages(turn, provider, names).all(),
        "stream": turn.stream,
    }
    if tools := _tools(turn, provider, names):
        body["tools"] = tools
    body |= _thinking(turn, provider) | _format(turn)
    request = turn.request
    if request.top_logprobs or "message.output_text.logprobs" in request.include:
        body["logprobs"] = True
        if request.top_logprobs:
            body["top_logprobs"] = request.top_logprobs
    if chosen := {**(options or {}), **_options(turn)}:
        body["options"] = chosen
    if keep_alive is not None:
        # Ollama reads a bare number as seconds only where it is no text.
        body["keep_alive"] = int(keep_alive) if keep_alive.lstrip("-").isdigit() else keep_alive
    return body, names


def _options(turn: Turn) -> dict[str, Any]:
    given = extras(turn.request)
    found = {theirs: getattr(turn.request, ours) for ours, theirs in _OPTIONS.items()}
    found |= {theirs: given.get(ours) for ours, theirs in _EXTRA_OPTIONS.items()}
    if isinstance(found["stop"], str):
        found["stop"] = [found["stop"]]
    return {name: value for name, value in found.items() if value is not None}


def _thinking(turn: Turn, provider: str) -> dict[str, Any]:
    reasoning = turn.request.reasoning
    if reasoning is None:
        return {}
    if reasoning.summary is not None:
        turn.receipt(provider, "reasoning.summary", "this wire has no summaries of the reasoning")
    if reasoning.effort is None:
        return {}
    if reasoning.effort not in _EFFORTS:
        turn.receipt(provider, "reasoning.effort", f"{reasoning.effort!r} is sent as 'high' here", REWRITTEN)
    return {"think": _EFFORTS.get(reasoning.effort, "high")}


def _format(turn: Turn) -> dict[str, Any]:
    match turn.request.text and turn.request.text.format:
        case JsonSchemaFormat(schema=schema):
            return {"format": schema or "json"}
        case JsonObjectFormat():
            return {"format": "json"}
    return {}


# --- tools ------------------------------------------------------------------------------------------------


def _tools(turn: Turn, provider: str, names: ToolNames) -> list[dict[str, Any]]:
    """This wire has no choice of tools, so the choice is made by what is offered, as far as that goes."""
    if not names.functions:
        return []
    offered = list(names.functions)
    match turn.request.tool_choice:
        case "none":
            return []
        case "required" | AllowedTools(mode="required"):
            turn.receipt(provider, "tool_choice", "this server cannot be made to call a tool")
        case FunctionToolChoice(name=name):
            offered = _only(turn, provider, names, names.find(name))
        case Opaque() as choice:
            named = names.find(str(choice.fields.get("name", "")), choice.fields.get("namespace"))
            offered = _only(turn, provider, names, named)
    return [_tool(function) for function in offered]


def _only(turn: Turn, provider: str, names: ToolNames, name: str | None) -> list[UpstreamFunction]:
    if name is None:
        turn.receipt(provider, "tool_choice", "the chosen tool cannot be sent, so the model may choose")
        return list(names.functions)
    reason = "only the chosen tool is offered, but this server cannot be made to call it"
    turn.receipt(provider, "tool_choice", reason, REWRITTEN)
    return [function for function in names.functions if function.name == name]


def _tool(function: UpstreamFunction) -> dict[str, Any]:
    return function_tool(function.name, function.description, function.parameters, strict=None)


# --- messages ---------------------------------------------------------------------------------------------


class _Messages:
    def __init__(self, turn: Turn, provider: str, names: ToolNames) -> None:
        self._turn = turn
        self._provider = provider
        self._names = names
        self._done: list[dict[str, Any]] = []
        self._called: dict[str, str] = {}

    def all(self) -> list[dict[str, Any]]:
        if instructions := self._turn.request.instructions:
            self._add_system(instructions)
        for speech in speeches(self._turn, self._provider):
            match speech.role:
                case "assistant":
                    self._add_assistant(speech)
                case "tool":
                    self._add_outputs(speech)
                case _:
                    for entry in speech.entries:
                        self._add_message(entry)
        return self._done

    def _add_message(self, entry: InputEntry) -> None:
        message = entry.item
        assert isinstance(message, Message)
        if message.role != "user":
            self._add_system(text_of(message.content))
            return
        text, images = self._content(message.content, f"{entry.where}.content")
        self._done.append({"role": "user", "content": text} | ({"images": images} if images else {}))

    def _add_system(self, text: str) -> None:
        if self._done and self._done[-1]["role"] == "system":
            self._done[-1]["content"] += f"\n\n{text}"
        else:
            self._done.append({"role": "system", "content": text})

    def _add_assistant(self, speech: Speech) -> None:
        texts, thoughts, calls = [], [], []
        for entry in speech.entries:
            match entry.item:
                case Message() as said:
                    texts.append(said.get_text())
                case Reasoning() as thought:
                    thoughts.append(words_of(thought))
                case FunctionCall() | CustomToolCall() as call:
                    calls.append(self._make_call(call, entry.where))
        if not (any(texts) or calls):
            return
        message: dict[str, Any] = {"role": "assistant", "content": "\n".join(filter(None, texts))}
        if any(thoughts):
            message["thinking"] = "\n".join(filter(None, thoughts))
        if calls:
            message["tool_calls"] = calls
        self._done.append(message)

    def _make_call(self, call: AnyCall, where: str) -> dict[str, Any]:
        name, arguments = self._names.upstream_call(call)
        self._called[call.call_id] = name
        given = as_object(self._turn, self._provider, where, arguments)
        return {"function": {"name": name, "arguments": given}}

    def _add_outputs(self, speech: Speech) -> None:
        """A result names its tool, for there are no ids; pictures in it follow in a message of the user."""
        for entry in speech.entries:
            output = entry.item
            assert isinstance(output, AnyCallOutput)
            where = f"{entry.where}.output"
            note_failure(self._turn, self._provider, entry, output)
            text, images = self._content(output.output, where)
            self._done.append({"role": "tool", "tool_name": self._called[output.call_id], "content": text})
            if images:
                reason = "pictures in a tool's output are sent in a user message after it"
                self._turn.receipt(self._provider, where, reason, REWRITTEN)
                told = f"From the output of the tool {self._called[output.call_id]}:"
                self._done.append({"role": "user", "content": told, "images": images})

    def _content(self, content: str | list[ContentPart], where: str) -> tuple[str, list[str]]:
        """The words, and the pictures in base64."""
        if isinstance(content, str):
            return content, []
        texts, images = [], []
        for n, part in enumerate(content):
            match part:
                case InputImage():
                    images.append(self._image(part, f"{where}[{n}]"))
                case InputFile():
                    reason = "this server takes no files; send their text instead"
                    raise unsupported(self._provider, f"{where}[{n}]", reason)
                case InputVideo() | Opaque(type="input_audio"):
                    raise unsupported(
                        self._provider, f"{where}[{n}]", "this server takes text and images only"
                    )
                case Opaque():
                    reason = f"a part of type {part.type!r} has no place on this wire"
                    self._turn.receipt(self._provider, f"{where}[{n}]", reason)
                case _:
                    texts.append(text_of([part]))
        return "\n".join(texts), images

    def _image(self, image: InputImage, where: str) -> str:
        inline = data_url(image.image_url or "")
        if inline is None:
            raise unsupported(self._provider, where, "this server takes images only as data URLs in base64")
        if image.detail != "auto":
            reason = "this server does not take how closely to look at an image"
            self._turn.receipt(self._provider, f"{where}.detail", reason)
        return inline.data
