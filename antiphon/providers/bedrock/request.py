"""From a turn to the body of Converse: system blocks, messages that alternate, tools, and the settings."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.providers.anthropic.json_schema import StrictBudget, is_exact
from antiphon.providers.base import ADDED, REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.bedrock.content import (
    VENDOR,
    BedrockBlockBody,
    BedrockContent,
    build_citations_block,
    text_blocks,
)
from antiphon.providers.bedrock.models import OTHER, Family
from antiphon.providers.bedrock.parameters import BedrockParameters
from antiphon.providers.errors import unsupported
from antiphon.providers.exchange import PreparedBody
from antiphon.providers.history import AnyCall, AnyCallOutput, InputEntry, Speech, speeches
from antiphon.providers.tools import as_object, flatten
from antiphon.spec.codec import UNREADABLE, Opaque
from antiphon.spec.content import ContentPart, OutputText, text_of
from antiphon.spec.items import CustomToolCall, FunctionCall, Message, Reasoning, is_failed
from antiphon.spec.tools import AllowedTools, FunctionToolChoice
from antiphon.wires.tools.names import ToolNames, UpstreamFunction

_CACHE_POINT: BedrockBlockBody = {"cachePoint": {"type": "default"}}
_FIT_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_SILENCE = "(no output)"
_BEGINNING = "(The conversation began earlier.)"


def prepare(
    turn: Turn,
    family: Family = OTHER,
    provider: str = "bedrock",
    *,
    cache: bool = False,
    guardrail: Mapping[str, str] | None = None,
) -> PreparedBody:
    """The body of a request; what cannot be sent leaves a receipt or is refused."""
    names = flatten(turn, provider, VENDOR)
    conversation = _Conversation(turn, family, provider, names)
    conversation.read()
    body: dict[str, Any] = {"messages": conversation.messages}
    choice = _choice(turn, provider, names)
    tools = _tools(turn, provider, choice, names, conversation.called, family)
    is_forced = bool(tools and choice and "auto" not in choice)
    if is_forced and not family.forced_tools:
        reason = "this model cannot be made to call a tool; it may choose"
        turn.receipt(provider, "tool_choice", reason, REWRITTEN)
        is_forced = False
    if tools:
        body["toolConfig"] = {"tools": tools, "toolChoice": choice} if is_forced else {"tools": tools}
    settings = BedrockParameters(turn, family, provider)
    body |= settings.fields(conversation.system, is_forced=is_forced, may_think=not conversation.lacks_proof)
    if conversation.system:
        body["system"] = conversation.system
    if cache:
        _set_cache_points(body, family)
    if guardrail:
        body["guardrailConfig"] = dict(guardrail)
    return PreparedBody(body, names)


class _Conversation:
    """Items in, messages out: one model turn is one message, and no two of one role follow each other."""

    def __init__(self, turn: Turn, family: Family, provider: str, names: ToolNames) -> None:
        self.system: list[BedrockBlockBody] = []
        self.messages: list[dict[str, Any]] = []
        self.called: dict[str, None] = {}
        """The tools that were called, by their names upstream."""
        self.lacks_proof = False
        """The model has called tools since the user spoke, and nothing proves that it thought about them."""
        self._turn = turn
        self._provider = provider
        self._names = names
        self._is_proven = False
        self._blocks = BedrockContent(turn, provider, video=family.video)

    def read(self) -> None:
        if instructions := self._turn.request.instructions:
            self.system += text_blocks(instructions)
        for speech in speeches(self._turn, self._provider, VENDOR):
            match speech.role:
                case "system":
                    self._add_system(speech)
                case "user":
                    for entry in speech.entries:
                        self._add_user(entry)
                    self._is_proven = self.lacks_proof = False
                case "assistant":
                    self._add_assistant(speech)
                case "tool":
                    self._add("user", [self._result_block(entry) for entry in speech.entries])
        if not self.messages:
            raise unsupported(self._provider, "input", "there must be a message with some words in it")
        if self.messages[0]["role"] != "user":
            reason = "a conversation must begin with the user here, so the gateway added a message before it"
            self._turn.receipt(self._provider, "input", reason, ADDED)
            self.messages.insert(0, {"role": "user", "content": [{"text": _BEGINNING}]})

    def _add(self, role: str, blocks: list[BedrockBlockBody]) -> None:
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})

    def _add_system(self, speech: Speech) -> None:
        for entry in speech.entries:
            if self.messages:
                reason = "system messages stand at the beginning here, so this one is moved there"
                self._turn.receipt(self._provider, entry.where, reason, REWRITTEN)
            if isinstance(entry.item, Message):
                self.system += text_blocks(entry.item.get_text())

    def _add_user(self, entry: InputEntry) -> None:
        if isinstance(entry.item, Message):
            self._add("user", self._blocks.user(entry.item.content, f"{entry.where}.content"))

    def _add_assistant(self, speech: Speech) -> None:
        blocks: list[BedrockBlockBody] = []
        for entry in speech.entries:
            match entry.item:
                case Message() as message:
                    blocks += self._text_blocks(message)
                case Reasoning() as reasoning:
                    blocks += self._proof_blocks(reasoning)
                case FunctionCall() | CustomToolCall() as call:
                    blocks.append(self._call_block(call, entry.where))
                case Opaque() as item:
                    blocks += self._own_blocks(item, entry.where)
        self._is_proven |= any("reasoningContent" in block for block in blocks)
        self.lacks_proof = not self._is_proven and any("toolUse" in block for block in blocks)
        self._add("assistant", blocks)

    def _text_blocks(self, message: Message) -> list[BedrockBlockBody]:
        if isinstance(message.content, str):
            return text_blocks(message.content)
        return [block for part in message.content for block in _part(part)]

    def _own_blocks(self, item: Opaque, where: str) -> list[BedrockBlockBody]:
        """A block of Bedrock's own tools, as it came."""
        block = item.fields.get("data")
        if isinstance(block, dict) and block.keys() in ({"toolUse"}, {"toolResult"}):
            return [block]
        self._turn.receipt(self._provider, where, f"{item.type!r} has no block in its `data`")
        return []

    def _proof_blocks(self, reasoning: Reasoning) -> list[BedrockBlockBody]:
        """The block as the model once sent it. Without its proof it is no block, and is left out."""
        try:
            block = msgspec.json.decode(reasoning.encrypted_content or "null")
        except UNREADABLE:
            block = None
        if not isinstance(block, dict):
            reason = "reasoning without its signature is not taken back"
            self._turn.receipt(self._provider, "input.reasoning", reason, SUPPRESSED)
            return []
        return [{"reasoningContent": block}]

    def _call_block(self, call: AnyCall, where: str) -> BedrockBlockBody:
        name, arguments = self._names.upstream_call(call)
        given = as_object(self._turn, self._provider, where, arguments)
        self.called[name] = None
        return {"toolUse": {"toolUseId": _tool_id(call.call_id), "name": name, "input": given}}

    def _result_block(self, entry: InputEntry) -> BedrockBlockBody:
        assert isinstance(entry.item, AnyCallOutput)
        content = self._blocks.output(entry.item.output, f"{entry.where}.output")
        result: dict[str, Any] = {
            "toolUseId": _tool_id(entry.item.call_id),
            "content": content or [{"text": _SILENCE}],
        }
        if is_failed(entry.item):
            result["status"] = "error"
        return {"toolResult": result}


def _part(part: ContentPart) -> list[BedrockBlockBody]:
    if isinstance(part, OutputText) and (block := build_citations_block(part)) is not None:
        return [block]
    return text_blocks(text_of([part]))


def _tool_id(call_id: str) -> str:
    if _FIT_ID.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:32]}"


def _choice(turn: Turn, provider: str, names: ToolNames) -> dict[str, Any] | None:
    """The choice among tools; None when none may be called."""
    choice = turn.request.tool_choice
    # Of allowed tools the whole list goes to the model; what it may call is enforced on what it says.
    mode = choice.mode if isinstance(choice, AllowedTools) else choice
    name: str | None
    match mode:
        case None | "auto":
            return {"auto": {}}
        case "none":
            return None
        case "required":
            return {"any": {}}
        case FunctionToolChoice(name=wanted):
            name = names.find(wanted)
        case Opaque(fields=fields):
            name = names.find(str(fields.get("name", "")), fields.get("namespace"))
    if name is not None:
        return {"tool": {"name": name}}
    turn.receipt(provider, "tool_choice", "the chosen tool cannot be sent, so the model may choose")
    return {"auto": {}}


def _tools(
    turn: Turn,
    provider: str,
    choice: dict[str, Any] | None,
    names: ToolNames,
    called: Mapping[str, None],
    family: Family,
) -> list[BedrockBlockBody]:
    """No choice means no tools, except that a history with calls is refused without any."""
    if choice is None and not called:
        return []
    budget = StrictBudget() if family.limits_strict else None
    declared = [_tool(turn, provider, function, family, budget) for function in names.functions]
    declared += [_own_tool(tool) for tool in turn.tools if isinstance(tool, Opaque) and _is_own(tool)]
    if declared:
        return declared
    return [{"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}} for name in called]


def _is_own(tool: Opaque) -> bool:
    return tool.type.startswith(VENDOR)


def _own_tool(tool: Opaque) -> BedrockBlockBody:
    """A tool that Bedrock runs itself, under its own name."""
    return {"systemTool": {"name": tool.type.removeprefix(VENDOR)}}


def _tool(
    turn: Turn, provider: str, function: UpstreamFunction, family: Family, budget: StrictBudget | None
) -> BedrockBlockBody:
    spec: dict[str, Any] = {"name": function.name}
    if function.description and function.description.strip():
        spec["description"] = function.description
    spec["inputSchema"] = {"json": {"type": "object", **function.parameters}}
    if function.strict and family.structured:
        why = None if is_exact(function.parameters) else "Bedrock takes fewer keywords"
        if why is None and budget is not None:
            why = budget.take(function.parameters)
        if why is None:
            spec["strict"] = True
        else:
            said = f"the arguments of {function.name!r} cannot be guaranteed: {why}"
            turn.receipt(provider, "tools.strict", said, SUPPRESSED)
    return {"toolSpec": spec}


def _set_cache_points(body: dict[str, Any], family: Family) -> None:
    """After what stays the same from turn to turn; too short a beginning is not kept, and nothing breaks."""
    if family.cache_tools and "toolConfig" in body:
        body["toolConfig"]["tools"].append(_CACHE_POINT)
    if family.cache:
        if "system" in body:
            body["system"].append(_CACHE_POINT)
        if body["messages"] and body["messages"][-1]["role"] == "user":
            body["messages"][-1]["content"].append(_CACHE_POINT)
