"""The items of a turn as the system prompt and the messages of the Messages API.

Blocks go back as they came, one for one and in order: newer models compare what stands before their own
thinking with what stood there when they thought it.
"""

import hashlib
import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.providers.anthropic.content import AnthropicContent, BlockBody, is_blank, own_block, text_block
from antiphon.providers.anthropic.models import ClaudeModel
from antiphon.providers.anthropic.wire import AnthropicCaller, Container, decode_kept
from antiphon.providers.base import DROPPED, REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.history import AnyCall, AnyCallOutput, InputEntry, Speech, speeches
from antiphon.providers.tools import as_object
from antiphon.spec.codec import UNREADABLE, Opaque, encode
from antiphon.spec.content import OutputText, text_of
from antiphon.spec.items import CustomToolCall, FunctionCall, Message, Reasoning, is_failed
from antiphon.wires.messages.citations import citation
from antiphon.wires.messages.vendor import VENDOR, block_of, fields_of
from antiphon.wires.tools.names import ToolNames

THINKING = frozenset({"thinking", "redacted_thinking"})

_FIT_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OPENING = "Go on."
_UNANSWERED = "This call was never answered."


class _Typed(Struct):
    type: str


_kind = msgspec.json.Decoder(_Typed).decode


class MessagesBuilder:
    """A turn's context as this API wants it.

    `thoughts` says whether the model takes its earlier thinking back.
    """

    def __init__(
        self, turn: Turn, model: ClaudeModel, provider: str, names: ToolNames, *, thoughts: bool
    ) -> None:
        self.system: list[BlockBody] = []
        self.messages: list[dict[str, Any]] = []
        self.has_thinking = False
        self.called: set[str] = set()
        """The tools that the model has called so far, by their names upstream."""
        self.container: Container | None = None
        """Where its programs ran last."""
        self._callers: dict[str, dict[str, Any]] = {}  # the programs that made calls, by the calls' ids
        self._turn = turn
        self._model = model
        self._provider = provider
        self._names = names
        self._thoughts = thoughts
        self._pending_system: list[
            BlockBody
        ] = []  # system messages that wait for the end of the user's words
        self._system_fields: BlockBody = {}  # what they have beside their content
        self._ids: dict[str, str] = {}  # the id upstream of the last call with an id of ours
        self._taken: set[str] = set()
        self._open: dict[str, None] = {}  # calls of the last message that have no result yet
        self._begins_thinking = False  # as it did when the user had last spoken
        self._build()

    @property
    def is_loop_without_thinking(self) -> bool:
        """Do results follow calls, the first of which the model made without having thought?"""
        return self._ends_with_results() and not self._begins_thinking

    def _ends_with_results(self) -> bool:
        if not self.messages or self.messages[-1]["role"] != "user":
            return False
        return all(block["type"] == "tool_result" for block in self.messages[-1]["content"])

    def _build(self) -> None:
        if instructions := self._turn.request.instructions:
            self.system.append({"type": "text", "text": instructions})
        for speech in speeches(self._turn, self._provider, VENDOR):
            if speech.role == "tool":
                self._add_user([self._result_block(entry) for entry in speech.entries])
            self._answer_the_rest()
            match speech.role:
                case "system":
                    self._instruct(speech)
                case "user":
                    self._add_user([block for entry in speech.entries for block in self._user_blocks(entry)])
                case "assistant":
                    self._add_assistant(speech)
        self._answer_the_rest()
        self._trim_end()
        self._place_system()
        if self._pending_system:
            self._receipt("input", "a system message after the model's words is sent as the user's")
            self._add_user(self._pending_system)

    def _receipt(self, where: str, why: str, action: str = REWRITTEN) -> None:
        self._turn.receipt(self._provider, where, why, action)

    # --- instructions -------------------------------------------------------------------------------------

    def _instruct(self, speech: Speech) -> None:
        for entry in speech.entries:
            blocks = self._user_blocks(entry)
            if not blocks:
                continue
            own = fields_of(entry.item) if isinstance(entry.item, Message) else {}
            if self.messages and self._model.system_messages:
                self._pending_system += blocks
                self._system_fields |= own
                continue
            if self.messages:
                why = "this model takes system messages only at the beginning, so it was moved there"
                self._receipt(entry.where, why)
            for name in own:
                why = "only a system message after the beginning has this field"
                self._receipt(f"{entry.where}.{name}", why, DROPPED)
            self.system += blocks

    def _place_system(self) -> None:
        """Place the system messages that wait: this API takes one only between the user and the answer."""
        if self._pending_system and self.messages and self.messages[-1]["role"] == "user":
            self.messages.append({"role": "system", "content": self._pending_system, **self._system_fields})
            self._pending_system, self._system_fields = [], {}

    # --- the user and the tools ---------------------------------------------------------------------------

    def _add_user(self, blocks: list[BlockBody]) -> None:
        if blocks and self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"] += blocks
        elif blocks:
            self.messages.append({"role": "user", "content": blocks})

    def _user_blocks(self, entry: InputEntry) -> list[BlockBody]:
        if not isinstance(entry.item, Message):
            return []
        return AnthropicContent(self._turn, self._provider, f"{entry.where}.content").of(entry.item.content)

    def _result_block(self, entry: InputEntry) -> BlockBody:
        output = entry.item
        assert isinstance(output, AnyCallOutput)
        id = self._ids[output.call_id]
        self._open.pop(id, None)
        block: BlockBody = {"type": "tool_result", "tool_use_id": id}
        content = AnthropicContent(self._turn, self._provider, f"{entry.where}.output").of(output.output)
        if content:
            block["content"] = output.output if isinstance(output.output, str) else content
        if is_failed(output):
            block["is_error"] = True
        return block | fields_of(output)

    def _answer_the_rest(self) -> None:
        """Add an error as the result of each call that has none: this API wants a result for every call."""
        results: list[BlockBody] = [
            {"type": "tool_result", "tool_use_id": id, "content": _UNANSWERED, "is_error": True}
            for id in self._open
        ]
        self._open.clear()
        if results:
            self._receipt("input", "a call without an output was sent with an error in its place")
            self._add_user(results)

    # --- the model ----------------------------------------------------------------------------------------

    def _add_assistant(self, speech: Speech) -> None:
        blocks = [block for entry in speech.entries for block in self._translate(entry)]
        if all(kind in THINKING or is_blank(block) for kind, block in blocks):
            blocks = [(kind, block) for kind, block in blocks if not is_blank(block)]
        if not blocks:
            return
        self._place_system()
        if not self.messages:
            self._receipt(
                "input", f"a conversation must begin with the user, so the gateway added {_OPENING!r}"
            )
            self._add_user(text_block(_OPENING))
        if self.messages[-1]["role"] == "assistant":
            self.messages[-1]["content"] += [block for _, block in blocks]
        else:
            if not self._ends_with_results():
                self._begins_thinking = blocks[0][0] in THINKING
            self.messages.append({"role": "assistant", "content": [block for _, block in blocks]})

    def _trim_end(self) -> None:
        """A last message of the model, which it is to go on with, may not end with white space alone."""
        last = self.messages[-1] if self.messages else None
        while last and last["role"] == "assistant" and last["content"] and is_blank(last["content"][-1]):
            last["content"].pop()

    def _translate(self, entry: InputEntry) -> list[tuple[str, Any]]:
        """Translate an item of the model to blocks, each with its type; a proof is JSON already."""
        match entry.item:
            case Message() as message:
                return [("text", block) for block in self._text_blocks(message)]
            case FunctionCall() | CustomToolCall() as call:
                return [("tool_use", self._call_block(call, entry.where))]
            case Reasoning() as reasoning:
                return self._thinking_blocks(reasoning)
            case Opaque() as item:
                return self._own_blocks(item, entry.where)
        return []

    def _text_blocks(self, message: Message) -> list[BlockBody]:
        """Keep white space as the model wrote it: it may stand before a block that the model has signed."""
        if isinstance(message.content, str):
            return [{"type": "text", "text": message.content}] if message.content else []
        blocks: list[BlockBody] = []
        for part in message.content:
            if not (text := text_of([part])):
                continue
            block: BlockBody = {"type": "text", "text": text}
            if isinstance(part, OutputText) and part.annotations:
                cited = [citation(one, text) for one in part.annotations]
                block["citations"] = [one for one in cited if one is not None]
            blocks.append(block if isinstance(part, Opaque) else block | fields_of(part))
        return blocks

    def _call_block(self, call: AnyCall, where: str) -> BlockBody:
        name, arguments = self._names.upstream_call(call)
        given = as_object(self._turn, self._provider, where, arguments)
        id = self._make_id(call.call_id)
        self.called.add(name)
        self._open[id] = None
        block: BlockBody = {"type": "tool_use", "id": id, "name": name, "input": given}
        if (caller := self._callers.get(call.call_id)) is not None:
            block["caller"] = caller
        return block | fields_of(call)

    def _make_id(self, call_id: str) -> str:
        """An id that this API takes, and no two the same; the same again in every later request."""
        id = call_id
        if not _FIT_ID.fullmatch(id):
            id = f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"
        n = 1
        while id in self._taken:
            n += 1
            id = f"{id[:56]}_{n}"
        self._taken.add(id)
        self._ids[call_id] = id
        return id

    def _thinking_blocks(self, reasoning: Reasoning) -> list[tuple[str, Any]]:
        blob = (reasoning.encrypted_content or "").encode()
        if not blob and (signed := block_of(reasoning)) is not None:
            blob = encode(signed)  # of a conversation that began with the provider itself
        kind = _type_of(blob)
        if (kept := _decode_kept(blob)) is not None:
            if isinstance(kept, AnthropicCaller):
                self._callers[kept.id] = kept.caller
            else:
                self.container = kept
            return []
        if kind not in THINKING:
            why = "only thinking that this provider has signed can be sent back"
            self._receipt("input.reasoning", why, SUPPRESSED)
            return []
        if not self._thoughts:
            why = "earlier thinking is left out when thinking is off"
            self._receipt("input.reasoning", why, SUPPRESSED)
            return []
        self.has_thinking = True
        return [(kind, Raw(blob))]

    def _own_blocks(self, item: Opaque, where: str) -> list[tuple[str, Any]]:
        """A block of the provider's own tools, which only it can read."""
        block = own_block(item)
        if block is None:
            self._turn.receipt(self._provider, where, f"{item.type!r} has no block in its `data`")
            return []
        return [(block["type"], block)]


def _decode_kept(blob: bytes) -> AnthropicCaller | Container | None:
    try:
        kept: AnthropicCaller | Container = decode_kept(blob)
    except UNREADABLE:
        return None
    return kept


def _type_of(blob: bytes) -> str:
    try:
        return _kind(blob).type
    except UNREADABLE:
        return ""
