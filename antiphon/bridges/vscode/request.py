"""A chat as VS Code's language model API has it, made into a request."""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Raw, Struct, structs
from msgspec import field as wire

from antiphon.bridges.error_paths import place_of
from antiphon.bridges.vscode.history import (
    HistoryEntry,
    Orphans,
    compact_calls,
    merge_messages,
    pair_calls,
    retold,
    unique,
)
from antiphon.bridges.vscode.messages import VsCodeTranslation
from antiphon.bridges.vscode.parts import REQUIRED, VsCodeMessage
from antiphon.spec import ids
from antiphon.spec.codec import extras
from antiphon.spec.decode import decode_body
from antiphon.spec.error_paths import wrong
from antiphon.spec.history_text import SystemPrompt, ToolHistory, place_prompt
from antiphon.spec.limits import MAX_BODY, FunctionName
from antiphon.spec.request import Request
from antiphon.spec.response import Receipt
from antiphon.spec.strict_decoder import StrictDecoder
from antiphon.spec.tools import FunctionTool, Tool, ToolChoiceMode
from antiphon.stream.pairing import Pairing

_LONGEST_KEY = 64
_SESSION = "vscode_"
_NO_INPUT: dict[str, Any] = {"type": "object", "properties": {}}
# Parameters that a chat says in its own way, or must not have.
_OURS = {
    "model": "`model`",
    "input": "`messages`",
    "instructions": "`messages`",
    "tools": "`tools`",
    "tool_choice": "`toolMode`",
    "stream": "nothing: the answer is always a stream",
    "stream_options": "nothing: the answer has its own form",
    "background": "`POST /v1/responses`: a chat ends with its listener",
    "previous_response_id": "`messages`: the host sends the whole history, which would be doubled",
    "conversation": "`messages`: the host sends the whole history, which would be doubled",
}


class VsCodeTool(Struct, rename="camel"):
    name: FunctionName
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class VsCodeOptions(Struct, rename="camel", kw_only=True):
    """How the chat is translated."""

    tool_history: ToolHistory = "native"
    compact_tool_history: bool = False
    system_prompt: SystemPrompt = "instructions"
    detect_system_prompt: bool = False
    merge_messages: bool = False
    strip_control_tokens: bool = True
    strip_citations: bool = False
    tool_media: bool = False
    orphans: Orphans = "reject"
    marker: str = ""


class VsCodeRequest(Struct, rename="camel", kw_only=True):
    """The body of `POST /api/vscode/chat`."""

    model: str | None = None
    messages: list[VsCodeMessage]
    tools: list[VsCodeTool] = wire(default_factory=list)
    tool_mode: Literal[1, 2] = 1
    model_options: dict[str, Raw] = wire(default_factory=dict)
    session_id: str | None = None
    options: VsCodeOptions = wire(default_factory=VsCodeOptions)


@dataclass(slots=True)
class ReadChat:
    """The request, what could not be kept of the chat, and where each item of its input comes from."""

    request: Request
    receipts: list[Receipt] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    session: str | None = None
    marker: str = ""
    pairing: Pairing | None = None
    """`keep`, where calls are told in words, so that outputs stand alone."""

    def param(self, ours: str) -> str:
        """The client's name for a parameter of the request."""
        return place_of(ours, self.places, "callId") or ours


def read_chat(body: bytes, *, max_bytes: int = MAX_BODY) -> ReadChat:
    """The body of `POST /api/vscode/chat` as a request; the first mistake in it is a `SpecError`."""
    return to_request(decode_body(VsCodeRequest, body, max_bytes=max_bytes))


def to_request(chat: VsCodeRequest) -> ReadChat:
    """A chat of VS Code as a request of Open Responses."""
    options = chat.options
    for name in extras(options):
        known = ", ".join(VsCodeOptions.__struct_encode_fields__)
        raise wrong(f"options.{name}", f"there is no such option; the options are {known}", "unknown_option")
    talk = VsCodeTranslation(chat.messages, options)
    instructions, leading = place_prompt("\n\n".join(talk.system), options.system_prompt)
    entries = [
        *(HistoryEntry(message, "messages[0]") for message in leading),
        *_apply_options(talk.entries, options),
    ]
    if not entries:
        raise wrong("messages", "there is nothing to answer: every message is empty", "no_messages")
    request = _parameters(chat.model_options)
    session = chat.session_id or talk.session
    if session is None and options.marker:
        session = ids.new_id(_SESSION)
    return ReadChat(
        structs.replace(
            request,
            model=chat.model,
            input=[entry.item for entry in entries],
            instructions=instructions,
            tools=_tools(chat.tools),
            tool_choice=_tool_choice(chat),
            prompt_cache_key=request.prompt_cache_key or _cache_key(session),
            stream=True,
        ),
        talk.receipts,
        [entry.where for entry in entries],
        session,
        options.marker,
        "keep" if options.tool_history in ("text", "comment") else None,
    )


def _apply_options(entries: list[HistoryEntry], options: VsCodeOptions) -> list[HistoryEntry]:
    entries = unique(entries)
    if options.tool_history == "native":
        entries = pair_calls(entries, options.orphans)
    if options.compact_tool_history:
        entries = compact_calls(entries)
    entries = retold(entries, options.tool_history)
    return merge_messages(entries) if options.merge_messages else entries


def _parameters(given: dict[str, Raw]) -> Request:
    """The host's model options are parameters of a request, spelled either way. Nothing is stored unasked."""
    fields = {"store": Raw(b"false"), **given}
    request = StrictDecoder().fields(Request, fields, "modelOptions")
    for name, instead in _OURS.items():
        if getattr(request, name) != getattr(Request(), name):
            raise wrong(f"modelOptions.{name}", f"a chat has no such option; use {instead}")
    return request


def _tools(tools: list[VsCodeTool]) -> list[Tool]:
    return [
        FunctionTool(tool.name, tool.description, tool.input_schema or _NO_INPUT, strict=False)
        for tool in tools
    ]


def _tool_choice(chat: VsCodeRequest) -> ToolChoiceMode:
    if not chat.tools:
        return "none"
    return "required" if chat.tool_mode == REQUIRED else "auto"


def _cache_key(session: str | None) -> str | None:
    """A session as a cache key, which is of limited length."""
    if not session or len(session) <= _LONGEST_KEY:
        return session or None
    return hashlib.sha256(session.encode(errors="surrogatepass")).hexdigest()
