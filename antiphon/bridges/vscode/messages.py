"""From VS Code's messages to items, in order; every item knows the message that it comes from."""

import mimetypes
from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.bridges.vscode.history import HistoryEntry
from antiphon.bridges.vscode.parts import (
    ASSISTANT,
    SYSTEM,
    USER,
    DataPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VsCodeMessage,
    VsCodePart,
    read_parts,
)
from antiphon.bridges.vscode.text import (
    HOST_METADATA,
    MARKER,
    data_text,
    image_type,
    is_system_prompt,
    marked_session,
    piece_text,
    result_text,
    without_citations,
    without_control_tokens,
)
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText, InputVideo, ReasoningText
from antiphon.spec.error_paths import describe, join, wrong
from antiphon.spec.items import FunctionCall, FunctionCallOutput, ItemStatus, Message, Reasoning, Role
from antiphon.spec.limits import CallId, FileData, FunctionName, ImageUrl, Text
from antiphon.spec.response import Receipt
from antiphon.wires.media import encode_base64

PROOF = "encryptedContent"
"""Where a thinking part keeps the proof of its reasoning, among its metadata."""
DROPPED, REWRITTEN = "dropped", "rewritten"
_NAME = "vscode"


class TranslationRules(Protocol):
    """The options that matter here."""

    @property
    def detect_system_prompt(self) -> bool: ...
    @property
    def strip_control_tokens(self) -> bool: ...
    @property
    def strip_citations(self) -> bool: ...
    @property
    def tool_media(self) -> bool: ...


class VsCodeTranslation:
    """One conversation: its `entries`, its `system` prompt, its `session`, and what could not be kept."""

    def __init__(self, messages: Sequence[VsCodeMessage], rules: TranslationRules) -> None:
        self.entries: list[HistoryEntry] = []
        self.system: list[str] = []
        self.session: str | None = None
        self.receipts: list[Receipt] = []
        self._rules = rules
        for n, message in enumerate(messages):
            where = f"messages[{n}]"
            if message.name:
                self._receipt(f"{where}.name", DROPPED, "messages have no names in this protocol")
            parts = self._without_metadata(read_parts(message, join(where, "content")))
            self._message(message.role, parts, where)

    def _message(self, role: int, parts: list[tuple[str, VsCodePart]], where: str) -> None:
        if role == SYSTEM or (role == ASSISTANT and not self.entries and self._is_prompt(parts)):
            text = "\n".join(text for _, part in parts if (text := self._words(part)) is not None)
            if self.entries:
                self._say("system", text, where)
            elif text:
                self.system.append(text)
        elif role == USER:
            self._user(parts, where)
        else:
            self._assistant(parts, where)

    def _is_prompt(self, parts: list[tuple[str, VsCodePart]]) -> bool:
        if not self._rules.detect_system_prompt or not all(isinstance(part, TextPart) for _, part in parts):
            return False
        return is_system_prompt("".join(part.value for _, part in parts if isinstance(part, TextPart)))

    def _without_metadata(self, parts: list[VsCodePart]) -> list[tuple[str, VsCodePart]]:
        """The parts that are meant for the model, with their places."""
        kept: list[tuple[str, VsCodePart]] = []
        for n, part in enumerate(parts):
            if isinstance(part, DataPart) and part.kind in HOST_METADATA:
                if part.kind == MARKER:
                    self.session = marked_session(part) or self.session
            else:
                kept.append((f"[{n}]", part))
        return kept

    # --- the user -----------------------------------------------------------------------------------------

    def _user(self, parts: list[tuple[str, VsCodePart]], where: str) -> None:
        content: list[ContentPart] = []
        for at, part in parts:
            if isinstance(part, ToolResultPart):
                self._flush(content, where)
                content = []
                self._output(part, f"{where}.content{at}")
            elif (words := self._words(part)) is not None:
                if words:
                    content.append(InputText(words))
            elif isinstance(part, DataPart):
                content.append(self._media(part, f"{where}.content{at}"))
        self._flush(content, where)

    def _flush(self, content: list[ContentPart], where: str) -> None:
        """Texts alone become one string."""
        texts = [part.text for part in content if isinstance(part, InputText)]
        if len(texts) == len(content):
            self._say("user", "\n".join(texts), where)
        else:
            self.entries.append(HistoryEntry(Message(role="user", content=content), where))

    def _output(self, part: ToolResultPart, where: str) -> None:
        self._check(part.call_id, CallId, f"{where}.callId")
        output: str | list[ContentPart] = result_text(part.content)
        lost = [one for one in part.content if isinstance(one, DataPart) and _is_binary(one)]
        if lost and self._rules.tool_media:
            pieces = [self._output_part(one, where) for one in part.content]
            output = [piece for piece in pieces if piece is not None]
        elif lost:
            reason = "the bytes of a tool's result are replaced by their type; ask for `toolMedia`"
            self._receipt(where, REWRITTEN, reason)
        if isinstance(output, str):
            if part.is_error and not output.lower().startswith("error"):
                output = f"Error: {output}"
            self._check(output, Text, where)
        status: ItemStatus | None = "incomplete" if part.is_error else None
        item = FunctionCallOutput(call_id=part.call_id, output=output, status=status)
        self.entries.append(HistoryEntry(item, where))

    # --- the assistant ------------------------------------------------------------------------------------

    def _assistant(self, parts: list[tuple[str, VsCodePart]], where: str) -> None:
        text = ""
        first = len(self.entries)
        thought: Reasoning | None = None
        thought_id: str | UnsetType = UNSET
        for at, part in parts:
            place = f"{where}.content{at}"
            if isinstance(part, ThinkingPart):
                if thought is None or part.id != thought_id:
                    text = self._say_text(text, where)
                    thought, thought_id = Reasoning(summary=[]), part.id
                    self.entries.append(HistoryEntry(thought, place))
                _think(thought, part)
                continue
            thought = None
            if isinstance(part, ToolCallPart):
                text = self._say_text(text, where)
                self._call(part, place)
            elif (words := self._words(part)) is not None:
                text += words
            else:
                self._receipt(
                    place, DROPPED, "a message of the assistant holds text; other data has no place there"
                )
        self._say_text(text, where)
        # Thoughts of which nothing is left.
        said = [e for e in self.entries[first:] if not isinstance(e.item, Reasoning) or _says(e.item)]
        self.entries[first:] = said

    def _say_text(self, text: str, where: str) -> str:
        if self._rules.strip_citations:
            text = without_citations(text)
        self._say("assistant", text, where)
        return ""

    def _call(self, part: ToolCallPart, where: str) -> None:
        self._check(part.call_id, CallId, f"{where}.callId")
        self._check(part.name, FunctionName, f"{where}.name")
        arguments = msgspec.json.encode(part.input).decode()
        call = FunctionCall(call_id=part.call_id, name=part.name, arguments=arguments)
        self.entries.append(HistoryEntry(call, where))

    # --- both ---------------------------------------------------------------------------------------------

    def _say(self, role: Role, text: str, where: str) -> None:
        """A message that says nothing is none."""
        if text.strip():
            self._check(text, Text, where)
            self.entries.append(HistoryEntry(Message(role=role, content=text), where))

    def _words(self, part: VsCodePart) -> str | None:
        text = part.value if isinstance(part, TextPart) else None
        if isinstance(part, DataPart):
            text = data_text(part)
        return without_control_tokens(text) if text and self._rules.strip_control_tokens else text

    def _media(self, part: DataPart, where: str) -> ContentPart:
        """A picture as such, anything else as a file."""
        encoded = encode_base64(part.data)
        if (picture := image_type(part)) is not None:
            url = f"data:{picture};base64,{encoded}"
            self._check(url, ImageUrl, where)
            return InputImage(image_url=url)
        url = f"data:{part.kind};base64,{encoded}"
        self._check(url, FileData, where)
        return InputFile(filename=f"data{mimetypes.guess_extension(part.kind) or '.bin'}", file_data=url)

    def _output_part(self, value: object, where: str) -> ContentPart | None:
        """A piece of a result as a part; only here can there be a video."""
        if isinstance(value, DataPart) and _is_binary(value):
            if value.kind.startswith("video/"):
                return InputVideo(f"data:{value.kind};base64,{encode_base64(value.data)}")
            return self._media(value, where)
        words = piece_text(value)
        return InputText(words) if words else None

    def _check(self, value: str, kind: object, where: str) -> None:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            told = str(error).replace("Expected `str`", "expected a string")
            raise wrong(where, f"{told}, got {describe(value)}") from None

    def _receipt(self, param: str, action: str, reason: str) -> None:
        self.receipts.append(Receipt(param=param, action=action, reason=reason, provider=_NAME))


def _think(thought: Reasoning, part: ThinkingPart) -> None:
    if part.value:
        thought.content = [ReasoningText(thought.get_reasoning_text() + part.value)]
    proof = part.metadata.get(PROOF) if isinstance(part.metadata, dict) else None
    if isinstance(proof, str) and proof:
        thought.encrypted_content = proof
        thought.id = part.id or ""


def _says(thought: Reasoning) -> bool:
    return bool(thought.content or thought.encrypted_content)


def _is_binary(part: DataPart) -> bool:
    return part.kind not in HOST_METADATA and data_text(part) is None
