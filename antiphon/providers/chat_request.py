"""From a turn to the body of `/chat/completions`: messages, tools, and what else the server takes."""

import hashlib
import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from antiphon.providers.base import REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.chat_content import Parts
from antiphon.providers.chat_profiles import COMMON, GENERIC, Profile
from antiphon.providers.tools import Function, Origin, ToolNames, flatten, wrap
from antiphon.spec.content import Refusal, text_of
from antiphon.spec.items import (
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    Message,
    Reasoning,
    type_of,
)
from antiphon.spec.opaque import Opaque, encode, extras
from antiphon.spec.tools import AllowedTools, FunctionToolChoice, JsonObjectFormat, JsonSchemaFormat

Call = FunctionCall | CustomToolCall
Output = FunctionCallOutput | CustomToolCallOutput

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
_LESS_OR_MORE = {"none": "low", "xhigh": "high"}
_TIERS = {"standard": "default"}


@dataclass(slots=True)
class Prepared:
    """A body, and what is needed to read its answer."""

    body: dict[str, Any]
    names: ToolNames

    def to_json(self) -> bytes:
        return encode(self.body)


def prepare(turn: Turn, profile: Profile = GENERIC, provider: str = "chat") -> Prepared:
    """The body of a request; what cannot be sent leaves a receipt or is refused."""
    names = flatten(turn, provider)
    body: dict[str, Any] = {
        "model": turn.model,
        "messages": messages(turn, profile, provider, names),
    }
    if turn.stream or profile.always_streams:
        body["stream"] = True
        if profile.stream_options:
            body["stream_options"] = {"include_usage": True}
    body |= tool_fields(turn, profile, provider, names)
    body |= parameters(turn, profile, provider)
    body |= format_fields(turn, profile, provider, body["messages"])
    return Prepared(body, names)


def messages(turn: Turn, profile: Profile, provider: str, names: ToolNames) -> list[dict[str, Any]]:
    return _Messages(turn, profile, provider, names).all()


def tool_fields(turn: Turn, profile: Profile, provider: str, names: ToolNames) -> dict[str, Any]:
    if not names.functions:
        return {}
    fields: dict[str, Any] = {"tools": [_tool(function) for function in names.functions]}
    match turn.request.tool_choice:
        case "none" | "auto" | "required" as mode:
            fields["tool_choice"] = mode
        case AllowedTools(mode=mode):
            # The whole list goes to the model; what it may call is enforced on what it says.
            fields["tool_choice"] = mode
        case FunctionToolChoice(name=name):
            fields["tool_choice"] = _named(turn, provider, names.find(name))
        case Opaque() as choice:
            named = names.find(str(choice.fields.get("name", "")), choice.fields.get("namespace"))
            fields["tool_choice"] = _named(turn, provider, named)
    parallel = turn.request.parallel_tool_calls
    if parallel is not None and "parallel_tool_calls" in profile.takes:
        fields["parallel_tool_calls"] = parallel
    return fields


def _tool(function: Function) -> dict[str, Any]:
    definition: dict[str, Any] = {"name": function.name}
    if function.description:
        definition["description"] = function.description
    definition["parameters"] = function.parameters
    if function.strict:
        definition["strict"] = True
    return {"type": "function", "function": definition}


def _named(turn: Turn, provider: str, name: str | None) -> Any:
    if name is None:
        turn.receipt(provider, "tool_choice", "the chosen tool cannot be sent, so the model may choose")
        return "auto"
    return {"type": "function", "function": {"name": name}}


def parameters(turn: Turn, profile: Profile, provider: str) -> dict[str, Any]:
    """Sampling and the rest; the engine has told the client about what the profile does not take."""
    request, takes = turn.request, profile.takes
    fields: dict[str, Any] = {
        name: value for name in sorted(COMMON) if (value := getattr(request, name)) is not None
    }
    if request.max_output_tokens is not None:
        fields[profile.max_tokens] = request.max_output_tokens
    if "logprobs" in takes and (request.top_logprobs or "message.output_text.logprobs" in request.include):
        fields["logprobs"] = True
        if request.top_logprobs:
            fields["top_logprobs"] = request.top_logprobs
    if request.reasoning is not None and "reasoning_effort" in takes:
        if request.reasoning.effort is not None:
            fields["reasoning_effort"] = _effort(turn, profile, provider, request.reasoning.effort)
        if request.reasoning.summary is not None:
            turn.receipt(provider, "reasoning.summary", "this wire has no summaries of the reasoning")
    if request.text is not None and request.text.verbosity is not None and "verbosity" in takes:
        fields["verbosity"] = request.text.verbosity
    if request.service_tier is not None and "service_tier" in takes:
        if request.service_tier == "batch":
            turn.receipt(provider, "service_tier", "this server has no batch tier for single requests")
        else:
            fields["service_tier"] = _TIERS.get(request.service_tier, request.service_tier)
    if request.prompt_cache_key is not None and "prompt_cache_key" in takes:
        fields["prompt_cache_key"] = request.prompt_cache_key
    if request.safety_identifier is not None:
        for name in ("safety_identifier", "user"):
            if name in takes:
                fields[name] = request.safety_identifier
                break
    given = extras(request)
    return fields | {name: given[name] for name in sorted(profile.extra & given.keys())}


def _effort(turn: Turn, profile: Profile, provider: str, effort: str) -> str:
    if effort in profile.efforts:
        return effort
    nearest = _LESS_OR_MORE.get(effort, effort)
    turn.receipt(provider, "reasoning.effort", f"{effort!r} is sent as {nearest!r} here", REWRITTEN)
    return nearest


def format_fields(
    turn: Turn, profile: Profile, provider: str, messages: list[dict[str, Any]]
) -> dict[str, Any]:
    match turn.request.text and turn.request.text.format:
        case JsonObjectFormat():
            return {"response_format": {"type": "json_object"}}
        case JsonSchemaFormat() as wanted if profile.json_schema:
            definition: dict[str, Any] = {"name": wanted.name, "schema": wanted.schema or {}}
            if wanted.description:
                definition["description"] = wanted.description
            if wanted.strict:
                definition["strict"] = True
            return {"response_format": {"type": "json_schema", "json_schema": definition}}
        case JsonSchemaFormat() as wanted:
            reason = "this server has no json_schema, so it is asked for JSON and told the schema"
            turn.receipt(provider, "text.format", reason, REWRITTEN)
            schema = encode(wanted.schema or {}).decode()
            told = f"Answer with a JSON object that fits this JSON schema:\n{schema}"
            if messages and messages[0]["role"] == "system":
                messages[0]["content"] += f"\n\n{told}"
            else:
                messages.insert(0, {"role": "system", "content": told})
            return {"response_format": {"type": "json_object"}}
    return {}


@dataclass(slots=True)
class _Draft:
    """The assistant message of one model turn, while its pieces are gathered."""

    texts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.texts or self.refusals or self.calls)


class _Messages:
    """Items in, messages out: one model turn is one message, and results follow their calls."""

    def __init__(self, turn: Turn, profile: Profile, provider: str, names: ToolNames) -> None:
        self._turn = turn
        self._profile = profile
        self._provider = provider
        self._names = names
        self._done: list[dict[str, Any]] = []
        self._draft = _Draft()
        self._outputs: defaultdict[str, deque[tuple[int, Output]]] = defaultdict(deque)
        for n, item in enumerate(turn.items):
            if isinstance(item, Output):
                self._outputs[item.call_id].append((n, item))
        given = turn.request.input
        # Items before this one come from the stored context, not from this request.
        self._first = len(turn.items) - (len(given) if isinstance(given, list) else given is not None)

    def all(self) -> list[dict[str, Any]]:
        if instructions := self._turn.request.instructions:
            self._system("system", instructions)
        for n, item in enumerate(self._turn.items):
            self._take(n, item)
        self._flush()
        return self._done

    def _where(self, n: int) -> str:
        return f"input[{n - self._first}]" if n >= self._first else "input"

    def _take(self, n: int, item: Item) -> None:
        where = self._where(n)
        match item:
            case Message(role="assistant"):
                self._assistant(item)
            case Message(role="user"):
                self._flush()
                content = self._parts(f"{where}.content").user(item.content)
                self._done.append({"role": "user", "content": content})
            case Message():
                self._flush()
                role = "developer" if item.role == "developer" and self._profile.developer_role else "system"
                self._system(role, text_of(item.content))
            case FunctionCall() | CustomToolCall():
                self._draft.calls.append(item)
            case FunctionCallOutput() | CustomToolCallOutput():
                self._flush()
                if (waiting := self._outputs[item.call_id]) and waiting[0][0] == n:
                    waiting.popleft()
                    self._drop(where, "this output has no call before it")
            case Reasoning():
                self._reasoning(item)
            case Compaction() | ItemReference() | Opaque():
                self._drop(where, f"an item of type {type_of(item)!r} has no place on this wire")

    def _drop(self, where: str, why: str) -> None:
        self._turn.receipt(self._provider, where, why)

    def _system(self, role: str, text: str) -> None:
        last = self._done[-1] if self._done else None
        if last is not None and last["role"] == role == "system" and not self._profile.developer_role:
            # Many chat templates take only one system message in a row.
            last["content"] += f"\n\n{text}"
        else:
            self._done.append({"role": role, "content": text})

    def _assistant(self, message: Message) -> None:
        parts = message.content if isinstance(message.content, list) else []
        refusals = [part.refusal for part in parts if isinstance(part, Refusal)]
        if refusals and self._profile.refusals:
            self._draft.refusals += refusals
            text = text_of([part for part in parts if not isinstance(part, Refusal)])
        else:
            text = message.get_text()
        if text:
            self._draft.texts.append(text)
        if message.phase is not None:
            reason = "this wire does not tell commentary from the final answer"
            self._turn.receipt(self._provider, "input.phase", reason, SUPPRESSED)

    def _reasoning(self, item: Reasoning) -> None:
        text = item.get_reasoning_text() or item.get_summary_text()
        if self._profile.reasoning_field is None:
            reason = "this server does not take the reasoning of earlier turns back"
            self._turn.receipt(self._provider, "input.reasoning", reason, SUPPRESSED)
        elif text:
            self._draft.reasoning.append(text)

    def _flush(self) -> None:
        draft, self._draft = self._draft, _Draft()
        if draft.is_empty:
            return
        message: dict[str, Any] = {"role": "assistant", "content": "\n".join(draft.texts) or None}
        if draft.refusals:
            message["refusal"] = "\n".join(draft.refusals)
        if draft.calls:
            message["tool_calls"] = [self._call(call) for call in draft.calls]
            if draft.reasoning and self._profile.reasoning_field is not None:
                message[self._profile.reasoning_field] = "\n".join(draft.reasoning)
        self._done.append(message)
        media: list[dict[str, Any]] = []
        for call in draft.calls:
            if outputs := self._outputs[call.call_id]:
                self._output(*outputs.popleft(), media)
        if media:
            self._done.append({"role": "user", "content": media})

    def _call(self, call: Call) -> dict[str, Any]:
        if isinstance(call, CustomToolCall):
            origin = Origin(call.name, call.namespace, "custom")
            arguments = wrap(call.input)
        else:
            origin = Origin(call.name, call.namespace)
            arguments = call.arguments or "{}"
        function = {"name": self._names.upstream(origin), "arguments": arguments}
        return {"id": self._call_id(call.call_id), "type": "function", "function": function}

    def _output(self, n: int, output: Output, media: list[dict[str, Any]]) -> None:
        """A result is text on this wire; pictures and files in it follow as a message of the user."""
        where = f"{self._where(n)}.output"
        text, others = self._parts(where).output(output.output)
        self._done.append({"role": "tool", "tool_call_id": self._call_id(output.call_id), "content": text})
        if others:
            reason = "pictures and files in a tool's output are sent in a user message after it"
            self._turn.receipt(self._provider, where, reason, REWRITTEN)
            media.append({"type": "text", "text": f"From the output of the tool call {output.call_id}:"})
            media += others

    def _call_id(self, call_id: str) -> str:
        if not self._profile.short_call_ids or _SHORT_ID.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[:9]

    def _parts(self, where: str) -> Parts:
        return Parts(self._turn, self._profile, self._provider, where)
