"""From a turn to the body of `/responses`: the same wire, without what only means something here.

The whole context is sent each time and stored nowhere upstream, so items go without their ids; only a
proof of reasoning keeps the id that it was given with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

from antiphon.providers import errors
from antiphon.providers.base import DROPPED, REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.history import InputEntry, entries, note_speakers
from antiphon.providers.parameters import find_tier
from antiphon.providers.responses.quirks import OPEN_RESPONSES, Quirks
from antiphon.providers.tools import as_function_tool, express_as_functions, flatten
from antiphon.spec import items
from antiphon.spec.codec import UNREADABLE, Opaque, extras, without_extra
from antiphon.spec.content import (
    ContentPart,
    InputFile,
    InputImage,
    OutputText,
    ReasoningText,
    SummaryText,
    text_of,
)
from antiphon.spec.history_text import call_as_text, place_prompt
from antiphon.spec.request import NOT_FORWARDED, SAMPLING, ReasoningParam, without_nulls
from antiphon.spec.response import nearest_effort
from antiphon.spec.tools import (
    AllowedTools,
    CustomTool,
    FunctionTool,
    FunctionToolChoice,
    JsonObjectFormat,
    JsonSchemaFormat,
    Tool,
)
from antiphon.stream.client_calls import declared_tools
from antiphon.stream.dialects import IMAGE, SHOWN_IMAGE
from antiphon.stream.lifecycle import with_status
from antiphon.wires.messages.vendor import FIELDS, VENDOR, parts_without_own, without_own
from antiphon.wires.tools.names import ToolNames, UpstreamFunction

_PLAIN = (
    *SAMPLING,
    "top_logprobs",
    "max_output_tokens",
    "max_tool_calls",
    "truncation",
    "prompt_cache_key",
    "safety_identifier",
)
_LEAST = 16
"""Tokens of output: the specification has no smaller limit, and other wires have."""
_PROOFS = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
_COUNTED = frozenset(
    {"input", "instructions", "model", "parallel_tool_calls", "reasoning", "text", "tool_choice", "tools"}
)


class Proof(Struct, forbid_unknown_fields=True):
    """The proof of a reasoning item: the upstream's own blob, and the id that it came with."""

    id: str
    encrypted_content: str

    def to_blob(self) -> str:
        return msgspec.json.encode(self).decode()


@dataclass(slots=True)
class ResponsesRequest:
    """A body, and what is needed to read its answer."""

    body: dict[str, Any]
    names: ToolNames | None

    def message(self) -> dict[str, Any]:
        """The same as a message over a WebSocket, where everything is streamed."""
        left = {name: value for name, value in self.body.items() if name not in ("stream", "stream_options")}
        return {"type": "response.create", **left}

    def build_count_body(self) -> dict[str, Any]:
        """The fields of the body that count as input tokens."""
        return {name: value for name, value in self.body.items() if name in _COUNTED}


def prepare(turn: Turn, quirks: Quirks = OPEN_RESPONSES, provider: str = "responses") -> ResponsesRequest:
    """The body of a request; what cannot be sent leaves a receipt or is refused."""
    return _RequestBuilder(turn, quirks, provider).build()


class _RequestBuilder:
    def __init__(self, turn: Turn, quirks: Quirks, provider: str) -> None:
        self._turn = turn
        self._quirks = quirks
        self._provider = provider
        self._hosted = [tool for tool in turn.tools if _is_hosted(tool)]
        self._names: ToolNames | None = None
        if not quirks.extended:
            functions = [tool for tool in turn.tools if not _is_hosted(tool)]
            self._names = flatten(structs.replace(turn, tools=functions), provider)

    def build(self) -> ResponsesRequest:
        request = self._turn.request
        instructions, leading = place_prompt(request.instructions, self._quirks.system_prompt)
        body: dict[str, Any] = {"model": self._turn.model, "input": self._input(leading), "store": False}
        if instructions:
            body["instructions"] = instructions
        if self._turn.stream:
            body["stream"] = True
            if self._quirks.padded:
                body["stream_options"] = {"include_obfuscation": False}
        body |= self._tools()
        body |= self._parameters()
        if text := self._text():
            body["text"] = text
        for name, value in extras(request).items():
            if name == FIELDS:
                continue  # the engine has left a receipt for what is lost with it
            if name in self._quirks.refuses or (":" in name and not self._quirks.prefixed):
                self._receipt(name, "this server refuses it")
            elif name not in NOT_FORWARDED:
                body.setdefault(name, value)
        return ResponsesRequest(body, self._names)

    def _receipt(self, param: str, why: str, action: str = DROPPED) -> None:
        self._turn.receipt(self._provider, param, why, action)

    # --- items --------------------------------------------------------------------------------------------

    def _input(self, leading: list[items.Message]) -> list[items.Item]:
        given: list[items.Item] = [*leading]
        given_entries = entries(self._turn)
        note_speakers(self._turn, self._provider, given_entries)
        for entry in given_entries:
            if (item := self._item(entry)) is not None:
                given.append(item)
        return given

    def _item(self, entry: InputEntry) -> items.Item | None:
        where = entry.where
        item: items.Item | None = entry.item
        if self._names is not None and isinstance(item, Opaque):
            item = express_as_functions(self._turn, self._provider, item, where)
        match item:
            case items.Message(role="assistant") as message:
                return self._assistant(message)
            case items.Message() as message:
                self._check(message.content, f"{where}.content")
                content = parts_without_own(message.content)
                cleaned = without_extra(message, "name")
                return structs.replace(cleaned, id="", status=None, phase=None, content=content)
            case items.FunctionCall() | items.CustomToolCall() as call:
                return self._call(call, where)
            case items.FunctionCallOutput() | items.CustomToolCallOutput() as output:
                self._check(output.output, f"{where}.output")
                said = parts_without_own(output.output)
                if isinstance(output, items.CustomToolCallOutput) and not self._quirks.extended:
                    result: items.Item = items.FunctionCallOutput(call_id=output.call_id, output=said)
                else:
                    plain = without_own(without_extra(output, "is_error"))
                    result = structs.replace(plain, id="", status=None, output=said)
                return with_status(result, "incomplete") if items.is_failed(output) else result
            case items.Reasoning() as reasoning:
                return self._reasoning(reasoning, where)
            case items.Compaction() as compaction if self._quirks.hosted:
                return structs.replace(compaction, id="", created_by=None)
            case Opaque() as opaque if self._quirks.hosted and not opaque.type.startswith(VENDOR):
                return opaque.replace(type=IMAGE) if opaque.type == SHOWN_IMAGE else opaque
            case items.Compaction() | Opaque() | items.ItemReference() as other:
                self._receipt(where, f"an item of type {items.type_of(other)!r} has no place on this server")
        return None

    def _assistant(self, message: items.Message) -> items.Message:
        """A text as a string, which every server takes; other parts as they are."""
        message = without_extra(message, "name")
        content = message.content
        if isinstance(content, list):
            plain = all(isinstance(part, OutputText) for part in content)
            if plain or not self._quirks.extended:
                content = text_of(content)
            else:
                parts = [_without_logprobs(part) for part in content]
                return with_status(structs.replace(message, content=parts), "completed")
        phase = message.phase if self._quirks.extended else None
        return structs.replace(message, id="", status=None, content=content, phase=phase)

    def _call(self, call: items.FunctionCall | items.CustomToolCall, where: str) -> items.Item | None:
        mode = self._quirks.tool_history
        sent: items.Item = structs.replace(without_own(call), id="", status=None)
        if self._names is not None:
            name, arguments = self._names.upstream_call(call)
            sent = items.FunctionCall(call_id=call.call_id, name=name, arguments=arguments)
        if mode == "native":
            return sent
        if mode == "drop":
            self._receipt(where, "calls of earlier turns are left out, as configured", SUPPRESSED)
            return None
        self._receipt(where, "calls of earlier turns are sent as text, as configured", REWRITTEN)
        return items.Message(role="assistant", content=call_as_text(call, mode))

    def _reasoning(self, item: items.Reasoning, where: str) -> items.Reasoning | None:
        if not self._quirks.proofs:
            words = item.get_reasoning_text() or item.get_summary_text()
            if words:
                return items.Reasoning(id=item.id, summary=[], content=[ReasoningText(words)])
        elif (proof := _proof(item)) is not None:
            # Words of other parts of this item cannot stand here; the proof holds them.
            summary: list[ContentPart] = [part for part in item.summary if isinstance(part, SummaryText)]
            return items.Reasoning(id=proof.id, summary=summary, encrypted_content=proof.encrypted_content)
        self._receipt(where, "this reasoning has no proof that the server would take", SUPPRESSED)
        return None

    def _check(self, content: str | list[ContentPart], where: str) -> None:
        """Addresses and files that the server cannot take; the gateway has fetched what it could."""
        for n, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, InputFile) and not self._quirks.files:
                raise errors.unsupported(self._provider, f"{where}[{n}]", "this server takes no files")
            remote = isinstance(part, InputImage) and not (part.image_url or "data:").startswith("data:")
            if remote and not self._quirks.image_urls:
                why = "this server takes pictures as data URLs only"
                raise errors.unsupported(self._provider, f"{where}[{n}]", why)

    # --- tools --------------------------------------------------------------------------------------------

    def _tools(self) -> dict[str, Any]:
        request, choice = self._turn.request, self._turn.request.tool_choice
        tools = self._declare_tools()
        if not tools:
            return {}
        fields: dict[str, Any] = {"tools": tools}
        if request.parallel_tool_calls is not None:
            fields["parallel_tool_calls"] = request.parallel_tool_calls
        if choice is None:
            return fields
        if self._quirks.tool_choice:
            fields["tool_choice"] = choice if self._names is None else self._choice(self._names)
        elif choice == "none":
            return {}
        elif choice != "auto":
            self._receipt("tool_choice", "this server has no choice of tools, so the model may choose")
        return fields

    def _declare_tools(self) -> list[Any]:
        for n, tool in enumerate(self._turn.tools):
            if isinstance(tool, Opaque) and _is_hosted(tool) and not self._runs(tool):
                self._receipt(f"tools[{n}]", f"this server has no tools of type {tool.type!r}")
        if self._names is not None:
            hosted = [tool for tool in self._hosted if self._runs(tool)]
            return [*map(_function, self._names.functions), *hosted]
        keep = self._quirks.all_keys
        return [
            without_nulls(tool) if isinstance(tool, FunctionTool) and not keep else tool
            for tool in map(_plain_tool, self._own_tools())
            if not _is_hosted(tool) or self._runs(tool)
        ]

    def _own_tools(self) -> Sequence[Tool]:
        """The tools of the turn without the ones that items of the input already declare."""
        tools = self._turn.tools
        if tools is self._turn.request.tools:
            return tools
        brought = declared_tools((), self._turn.items)
        return [tool for tool in tools if tool not in brought]

    def _runs(self, tool: Tool) -> bool:
        """Is it a tool that this server may run itself?"""
        return self._quirks.hosted and isinstance(tool, Opaque) and not tool.type.startswith(VENDOR)

    def _choice(self, names: ToolNames) -> Any:
        choice = self._turn.request.tool_choice
        name: str | None
        match choice:
            case AllowedTools(mode=mode):
                # The whole list goes to the model; what it may call is enforced on what it says.
                return mode
            case FunctionToolChoice(name=wanted):
                name = names.find(wanted)
            case Opaque(type="custom") | Opaque(type="function"):
                name = names.find(str(choice.fields.get("name", "")), choice.fields.get("namespace"))
            case _:
                return choice
        if name is None:
            self._receipt("tool_choice", "the chosen tool cannot be sent, so the model may choose")
            return "auto"
        return {"type": "function", "name": name}

    # --- the rest -----------------------------------------------------------------------------------------

    def _parameters(self) -> dict[str, Any]:
        request, takes = self._turn.request, self._quirks.parameters
        fields = {
            name: value for name in _PLAIN if name in takes and (value := getattr(request, name)) is not None
        }
        if fields.get("max_output_tokens", _LEAST) < _LEAST:
            self._receipt("max_output_tokens", f"servers of this wire take {_LEAST} at least", REWRITTEN)
            fields["max_output_tokens"] = _LEAST
        name = fields.get("safety_identifier", "")
        if len(name) > self._quirks.longest_identifier:
            self._receipt(
                "safety_identifier", "servers of this wire take 64 characters: a digest is sent", REWRITTEN
            )
            fields["safety_identifier"] = sha256(name.encode()).hexdigest()
        if "service_tier" in takes:
            tier = find_tier(self._turn, self._provider, self._quirks.tiers)
            if tier is not None:
                fields["service_tier"] = tier
        if request.reasoning is not None and (reasoning := self._reasoning_options(request.reasoning)):
            fields["reasoning"] = reasoning
        include: list[str] = [*request.include] if self._quirks.extended else []
        if self._quirks.proofs:
            include.append(_PROOFS)
        if "top_logprobs" in takes and (request.top_logprobs or _LOGPROBS in request.include):
            include.append(_LOGPROBS)
        if include:
            fields["include"] = list(dict.fromkeys(include))
        return fields

    def _reasoning_options(self, asked: ReasoningParam) -> dict[str, Any]:
        options: dict[str, Any] = extras(asked) if self._quirks.extended else {}
        if (effort := asked.effort) is not None:
            nearest = nearest_effort(effort, self._quirks.efforts)
            if nearest != effort:
                self._receipt("reasoning.effort", f"{effort!r} is sent as {nearest!r} here", REWRITTEN)
            options["effort"] = nearest
        if asked.summary is not None and self._quirks.extended:
            options["summary"] = asked.summary
        elif asked.summary is not None:
            self._receipt("reasoning.summary", "this server makes no summaries of the reasoning")
        return options

    def _text(self) -> dict[str, Any]:
        asked = self._turn.request.text
        if asked is None:
            return {}
        fields: dict[str, Any] = extras(asked)
        if asked.verbosity is not None and "text.verbosity" in self._quirks.parameters:
            fields["verbosity"] = asked.verbosity
        match asked.format:
            case JsonSchemaFormat() as wanted:
                fields["format"] = without_nulls(structs.replace(wanted, schema=wanted.schema or {}))
            case JsonObjectFormat() if not self._quirks.json_object:
                reason = "this server has no json_object, so it is asked for any JSON object by a schema"
                self._receipt("text.format", reason, REWRITTEN)
                schema = {"type": "object", "additionalProperties": True}
                fields["format"] = {"type": "json_schema", "name": "object", "schema": schema}
            case None:
                pass
            case other:
                fields["format"] = other
        return fields


def _is_hosted(tool: Tool) -> bool:
    if isinstance(tool, FunctionTool | CustomTool) or tool.type == "namespace":
        return False
    return as_function_tool(tool) is None


def _plain_tool(tool: Tool) -> Tool:
    return tool if isinstance(tool, Opaque) else without_own(tool)


def _function(function: UpstreamFunction) -> dict[str, Any]:
    declared: dict[str, Any] = {"type": "function", "name": function.name}
    if function.description:
        declared["description"] = function.description
    declared["parameters"] = function.parameters
    if function.strict is not None:
        declared["strict"] = function.strict
    return declared


def _without_logprobs(part: ContentPart) -> ContentPart:
    if isinstance(part, Opaque):
        return part
    plain = without_own(part)
    return structs.replace(plain, logprobs=UNSET) if isinstance(plain, OutputText) else plain


def _proof(item: items.Reasoning) -> Proof | None:
    """What was said before in `to_blob`, or a blob that a client got from the same server by itself."""
    blob = item.encrypted_content
    if not blob:
        return None
    try:
        return msgspec.json.decode(blob, type=Proof)
    except UNREADABLE:
        # Another shape of JSON is the proof of another wire.
        return None if blob.startswith(("{", "[")) else Proof(item.id, blob)
