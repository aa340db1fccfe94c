"""From the items of a turn to the messages of `/chat/completions`: one model turn is one message."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from antiphon.providers.base import REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.chat.profiles import Profile
from antiphon.providers.errors import unsupported
from antiphon.providers.history import (
    AnyCall,
    AnyCallOutput,
    InputEntry,
    Speech,
    get_speaker,
    note_failure,
    speeches,
)
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText, InputVideo, Refusal, text_of
from antiphon.spec.items import Message, Reasoning
from antiphon.wires.chat.messages import ChatMessages, file_part, image_part, text_part, tool_call
from antiphon.wires.media import data_url
from antiphon.wires.reasoning.kept import CONTENT, put_by, words_of
from antiphon.wires.tools.names import ToolNames


class ChatContent:
    """Translates the content at one place of the input; `where` is what errors and receipts call it."""

    def __init__(self, turn: Turn, profile: Profile, provider: str, where: str) -> None:
        self._turn = turn
        self._profile = profile
        self._provider = provider
        self._where = where

    def user(self, content: list[ContentPart]) -> str | list[dict[str, Any]]:
        parts = [part for n, one in enumerate(content) for part in self._part(one, n)]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        if len(texts) == len(parts) and (len(texts) < 2 or not self._profile.text_parts):
            return "\n".join(texts)
        return parts

    def output(self, content: str | list[ContentPart]) -> tuple[str, list[dict[str, Any]]]:
        """The words of a tool's output, and its pictures and files."""
        if isinstance(content, str):
            return content, []
        parts = [part for n, one in enumerate(content) for part in self._part(one, n)]
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        return text, [part for part in parts if part["type"] != "text"]

    def _part(self, part: ContentPart, n: int) -> list[dict[str, Any]]:
        if isinstance(part, InputText):
            return [text_part(part.text)]
        where = f"{self._where}[{n}]"
        match part:
            case InputImage():
                return [self._image(part, where)]
            case InputFile():
                return [self._file(part, where)]
            case InputVideo():
                raise unsupported(self._provider, where, "this wire takes no video")
            case Opaque(type="input_audio"):
                raise unsupported(self._provider, where, "audio is not passed on to this provider")
            case Opaque():
                reason = f"a part of type {part.type!r} has no place on this wire"
                self._turn.receipt(self._provider, where, reason)
                return []
        return [text_part(text_of([part]))]

    def _image(self, image: InputImage, where: str) -> dict[str, Any]:
        if not self._profile.images:
            raise unsupported(self._provider, where, "this server takes no images")
        if not image.image_url:
            raise unsupported(
                self._provider, where, "an image needs its `image_url`, an address or a data URL"
            )
        if not self._profile.image_urls and data_url(image.image_url) is None:
            raise unsupported(self._provider, where, "this server takes images only as data URLs")
        if not image.image_url.startswith(("data:", "https://", "http://")):
            raise unsupported(self._provider, where, "it is neither a data URL nor an address of the web")
        if image.detail == "auto" or self._profile.image_details:
            return image_part(image.image_url, image.detail)
        reason = "this server does not take how closely to look at an image"
        self._turn.receipt(self._provider, f"{where}.detail", reason)
        return image_part(image.image_url)

    def _file(self, file: InputFile, where: str) -> dict[str, Any]:
        if not self._profile.files:
            raise unsupported(self._provider, where, "this server takes no files; send their text instead")
        name = file.filename or "file"
        if not file.file_data and file.file_url and self._profile.file_urls:
            return {"type": "file", "file": {"filename": name, "file_data": file.file_url}}
        if not file.file_data:
            raise unsupported(
                self._provider, where, "this server takes files only as `file_data`, not by address"
            )
        return file_part(name, file.file_data)


_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
_DETAILS = "reasoning_details"
_ANNOTATIONS = "annotations"


@dataclass(slots=True)
class _Draft:
    """The assistant message of one model turn, while its pieces are gathered."""

    texts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    details: list[Any] = field(default_factory=list)
    annotations: list[Any] = field(default_factory=list)
    calls: list[AnyCall] = field(default_factory=list)
    name: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.texts or self.refusals or self.calls)


def messages(turn: Turn, profile: Profile, provider: str, names: ToolNames) -> list[dict[str, Any]]:
    """Items in, messages out, the instructions before them."""
    items, instructions = turn.items, turn.request.instructions
    done: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    if len(items) == 1 and isinstance(first := items[0], Message) and first.role == "user":
        said = first.content
        if isinstance(said, str) and type(first) is Message:
            # How nearly every conversation begins.
            done.append({"role": "user", "content": said})
            return done
    return _Messages(turn, profile, provider, names, done).all()


class _Messages:
    """Writes the items behind what is `done`."""

    def __init__(
        self, turn: Turn, profile: Profile, provider: str, names: ToolNames, done: list[dict[str, Any]]
    ) -> None:
        self._turn = turn
        self._profile = profile
        self._provider = provider
        self._names = names
        self._chat = ChatMessages(done, joins_system=not profile.developer_role)

    def all(self) -> list[dict[str, Any]]:
        for speech in speeches(self._turn, self._provider, has_names=self._profile.names):
            if speech.role == "assistant":
                self._add_assistant(speech)
            elif speech.role == "tool":
                self._add_outputs(speech)
            else:
                for entry in speech.entries:
                    self._add_message(entry)
        return self._chat.done

    def _add_message(self, entry: InputEntry) -> None:
        message = entry.item
        assert isinstance(message, Message)
        if message.role == "user":
            said = message.content
            content = said if isinstance(said, str) else self._parts(f"{entry.where}.content").user(said)
            self._chat.user(content)
        else:
            is_developer = message.role == "developer" and self._profile.developer_role
            self._chat.system(text_of(message.content), "developer" if is_developer else "system")
        if self._profile.names and (name := get_speaker(message)):
            self._chat.done[-1]["name"] = name

    # --- what the model said ------------------------------------------------------------------------------

    def _add_assistant(self, speech: Speech) -> None:
        draft = _Draft()
        for entry in speech.entries:
            match entry.item:
                case Message() as said:
                    self._read_message(said, draft)
                case Reasoning() as thought:
                    self._read_reasoning(thought, draft)
                case call if isinstance(call, AnyCall):
                    draft.calls.append(call)
        if draft.is_empty:
            return
        fields: dict[str, Any] = {}
        if draft.refusals:
            fields["refusal"] = "\n".join(draft.refusals)
        if draft.annotations:
            fields[_ANNOTATIONS] = draft.annotations
        if draft.details:
            fields[_DETAILS] = draft.details
        elif draft.thoughts and draft.calls:
            fields[self._profile.reasoning_field or CONTENT] = "\n".join(draft.thoughts)
        if draft.name:
            fields["name"] = draft.name
        calls = [self._make_call(call) for call in draft.calls]
        self._chat.assistant("\n".join(draft.texts), calls, **fields)

    def _read_message(self, message: Message, draft: _Draft) -> None:
        parts = message.content if isinstance(message.content, list) else []
        refusals = [part.refusal for part in parts if isinstance(part, Refusal)]
        if refusals and self._profile.refusals:
            draft.refusals += refusals
            text = text_of([part for part in parts if not isinstance(part, Refusal)])
        else:
            text = message.get_text()
        if text:
            draft.texts.append(text)
        if self._profile.names:
            draft.name = get_speaker(message) or draft.name

    def _read_reasoning(self, item: Reasoning, draft: _Draft) -> None:
        profile = self._profile
        kept = put_by(item) if profile.keeps_reasoning else {}
        files, details = kept.get(_ANNOTATIONS), kept.get(_DETAILS)
        if profile.details and isinstance(files, list):
            draft.annotations += files
        if profile.details and isinstance(details, list):
            draft.details += details
        elif profile.reasoning_field is None and not (profile.returns_reasoning and CONTENT in kept):
            reason = "this server does not take the reasoning of earlier turns back"
            self._turn.receipt(self._provider, "input.reasoning", reason, SUPPRESSED)
        elif text := words_of(item):
            draft.thoughts.append(text)

    def _make_call(self, call: AnyCall) -> dict[str, Any]:
        return tool_call(self._call_id(call.call_id), *self._names.upstream_call(call))

    # --- what its tools answered --------------------------------------------------------------------------

    def _add_outputs(self, speech: Speech) -> None:
        """A result is text on this wire; pictures and files in it follow as a message of the user."""
        media: list[dict[str, Any]] = []
        for entry in speech.entries:
            output = entry.item
            assert isinstance(output, AnyCallOutput)
            where = f"{entry.where}.output"
            note_failure(self._turn, self._provider, entry, output)
            text, others = self._parts(where).output(output.output)
            self._chat.output(self._call_id(output.call_id), text)
            if others:
                reason = "pictures and files in a tool's output are sent in a user message after it"
                self._turn.receipt(self._provider, where, reason, REWRITTEN)
                media.append(text_part(f"From the output of the tool call {output.call_id}:"))
                media += others
        if media:
            self._chat.user(media)

    def _call_id(self, call_id: str) -> str:
        if not self._profile.short_call_ids or _SHORT_ID.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[:9]

    def _parts(self, where: str) -> ChatContent:
        return ChatContent(self._turn, self._profile, self._provider, where)
