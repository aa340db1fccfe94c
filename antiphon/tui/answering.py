"""Turns the events of a response into entries of a transcript."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import msgspec

import antiphon
from antiphon.tui.chats import Node
from antiphon.tui.entries import (
    AnswerEntry,
    CallEntry,
    Entry,
    ItemEntry,
    ReasoningEntry,
    SourcesEntry,
    UserEntry,
)
from antiphon.tui.notices import ended_early, failure_notice, of_status

Add = Callable[[Entry], None]

_HOSTED = {
    "web_search_call": "Web search",
    "file_search_call": "File search",
    "code_interpreter_call": "Code",
    "image_generation_call": "Image",
    "mcp_list_tools": "Tools of an MCP server",
    "mcp_approval_request": "Approval",
    "mcp_approval_response": "Approval",
    "compaction": "Compaction",
}


class RunEntries:
    """Builds the entries of one run; calls `add` with each new entry and `redraw` with each that grew."""

    def __init__(self, add: Add, redraw: Add, clock: Callable[[], float] = perf_counter) -> None:
        self._add = add
        self._redraw = redraw
        self._clock = clock
        self._begun = clock()
        self._items: dict[tuple[str, int], Entry] = {}
        self._calls: dict[str, CallEntry] = {}
        self._thinking: dict[int, float] = {}
        self._sources: SourcesEntry | None = None
        self.response_id: str | None = None
        self.first: float | None = None
        """Seconds until the first token."""
        self.last: float | None = None

    # --- a stream -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins the next response of the same run."""
        self._items.clear()
        self._thinking.clear()
        self._sources = None
        self._begun = self._clock()
        self.first = self.last = None

    def take(self, event: antiphon.AnyEvent | antiphon.ToolStarted | antiphon.ToolEnded) -> None:
        match event:
            case antiphon.OutputTextDeltaEvent():
                self._words(event.output_index, event.delta, refusal=False)
            case antiphon.RefusalDeltaEvent():
                self._words(event.output_index, event.delta, refusal=True)
            case antiphon.ReasoningDeltaEvent() | antiphon.ReasoningSummaryTextDeltaEvent():
                self._thought(event.output_index, event.delta)
            case antiphon.FunctionCallArgumentsDeltaEvent() | antiphon.CustomToolCallInputDeltaEvent():
                entry = self._items.get(("call", event.output_index))
                if isinstance(entry, CallEntry):
                    self._tick()
                    entry.feed(event.delta)
                    self._redraw(entry)
            case antiphon.OutputItemAddedEvent() if event.item is not None:
                self._item_added(event.output_index, event.item)
            case antiphon.OutputItemDoneEvent() if event.item is not None:
                self._item_done(event.output_index, event.item)
            case antiphon.OutputTextAnnotationAddedEvent() if isinstance(
                event.annotation, antiphon.UrlCitation
            ):
                self._cite(event.annotation)
            case antiphon.ToolStarted():
                self._call_state(event.call.call_id, "running")
            case antiphon.ToolEnded():
                self._call_ended(event)
            case (
                antiphon.ResponseCompletedEvent()
                | antiphon.ResponseFailedEvent()
                | antiphon.ResponseIncompleteEvent()
            ):
                self._add_notices(event.response)
            case antiphon.OtherEvent():
                self._other(event)
        if self.response_id is None and event.__class__.__name__ == "ResponseCreatedEvent":
            self.response_id = getattr(event, "response_id", None)

    def asking(self, call_id: str, *, waits: bool) -> None:
        """Marks whether a call waits for the user."""
        self._call_state(call_id, "asking" if waits else "running")

    def close(self) -> None:
        """Closes the open entries when the run ends for any reason."""
        for entry in self._items.values():
            if isinstance(entry, AnswerEntry):
                entry.close()
            elif isinstance(entry, ReasoningEntry) and entry.running:
                entry.close(None)
            self._redraw(entry)

    def _tick(self) -> None:
        now = self._clock() - self._begun
        if self.first is None:
            self.first = now
        self.last = now

    def _words(self, index: int, text: str, *, refusal: bool) -> None:
        self._tick()
        self._end_thinking()
        key = ("refusal" if refusal else "text", index)
        entry = self._items.get(key)
        if entry is None:
            entry = self._new(key, AnswerEntry(refusal=refusal))
        assert isinstance(entry, AnswerEntry)
        entry.feed(text)
        self._redraw(entry)

    def _thought(self, index: int, text: str) -> None:
        self._tick()
        entry = self._items.get(("reasoning", index))
        if not isinstance(entry, ReasoningEntry):
            entry = ReasoningEntry()
            self._thinking[index] = self._clock()
            self._new(("reasoning", index), entry)
        entry.feed(text)
        self._redraw(entry)

    def _end_thinking(self) -> None:
        for index, begun in list(self._thinking.items()):
            entry = self._items.get(("reasoning", index))
            if isinstance(entry, ReasoningEntry):
                entry.close(self._clock() - begun)
                self._redraw(entry)
            del self._thinking[index]

    def _item_added(self, index: int, item: antiphon.Item) -> None:
        if isinstance(item, antiphon.FunctionCall | antiphon.CustomToolCall):
            self._end_thinking()
            self._call(index, item)
        elif isinstance(item, antiphon.Reasoning):
            self._thinking[index] = self._clock()
            self._new(("reasoning", index), ReasoningEntry())
        elif not isinstance(
            item, antiphon.Message | antiphon.FunctionCallOutput | antiphon.CustomToolCallOutput
        ):
            self._end_thinking()
            self._new(("item", index), hosted_entry(item))

    def _item_done(self, index: int, item: antiphon.Item) -> None:
        if isinstance(item, antiphon.Reasoning):
            self._end_thinking()
        elif isinstance(item, antiphon.Message):
            for kind in ("text", "refusal"):
                if isinstance(entry := self._items.get((kind, index)), AnswerEntry):
                    entry.close()
                    self._redraw(entry)
        elif isinstance(item, antiphon.FunctionCallOutput | antiphon.CustomToolCallOutput):
            self._output(item)
        else:
            self._hosted_done(index, hosted_entry(item))

    def _hosted_done(self, index: int, whole: Entry) -> None:
        """Completes the entry of an item that the server has announced before."""
        entry = self._items.get(("item", index))
        if isinstance(entry, CallEntry) and isinstance(whole, CallEntry):
            entry.finish(whole.result, failed=whole.state == "failed")
            self._redraw(entry)
        elif isinstance(entry, ItemEntry) and isinstance(whole, ItemEntry):
            entry.tell(whole.described, whole.detail)
            self._redraw(entry)

    def _call(self, index: int, item: antiphon.FunctionCall | antiphon.CustomToolCall) -> None:
        entry = CallEntry(item.name)
        given = item.arguments if isinstance(item, antiphon.FunctionCall) else item.input
        if given:
            entry.feed(given)
        self._calls[item.call_id] = entry
        self._new(("call", index), entry)

    def _call_state(self, call_id: str, state: Any) -> None:
        if (entry := self._calls.get(call_id)) is not None:
            entry.move(state)
            self._redraw(entry)

    def _call_ended(self, event: antiphon.ToolEnded) -> None:
        outcome = event.outcome
        if (entry := self._calls.get(outcome.call.call_id)) is None:
            return
        text = outcome.output if isinstance(outcome.output, str) else describe_content(outcome.output)
        entry.finish(text, failed=outcome.fault is not None, taken=outcome.seconds)
        if outcome.fault == "denied":
            entry.move("denied")
        self._redraw(entry)

    def _output(self, item: antiphon.FunctionCallOutput | antiphon.CustomToolCallOutput) -> None:
        if (entry := self._calls.get(item.call_id)) is not None:
            text = item.output if isinstance(item.output, str) else describe_content(item.output)
            entry.finish(text)
            self._redraw(entry)

    def _cite(self, citation: antiphon.UrlCitation) -> None:
        if self._sources is None:
            self._sources = SourcesEntry()
            self._new(("sources", -1), self._sources)
        self._sources.add(citation.title, citation.url)
        self._redraw(self._sources)

    def _other(self, event: antiphon.OtherEvent) -> None:
        """Handles other events, such as the arguments of calls that the server makes itself."""
        if event.type.endswith(("_arguments.delta", "_call_code.delta")):
            entry = self._items.get(("item", int(event.fields.get("output_index", -1))))
            if isinstance(entry, CallEntry):
                entry.feed(str(event.fields.get("delta", "")))
                self._redraw(entry)

    def _add_notices(self, response: antiphon.Response) -> None:
        self._end_thinking()
        for entry in notices_of(response):
            self._new(("notice", len(self._items)), entry)

    def _new(self, key: tuple[str, int], entry: Entry) -> Entry:
        entry.response_id = self.response_id
        self._items[key] = entry
        self._add(entry)
        return entry


# --- what is stored ---------------------------------------------------------------------------------------


def entries_of(items: Iterable[antiphon.Item], response_id: str | None = None) -> list[Entry]:
    """Makes the entries of complete items."""
    found: list[Entry] = []
    calls: dict[str, CallEntry] = {}
    for item in items:
        match item:
            case antiphon.Message(role="user"):
                found.append(user_entry(item))
            case antiphon.Message(role="assistant"):
                found += message_entries(item)
            case antiphon.Message():
                found.append(ItemEntry(f"{item.role} message", item.get_text()))
            case antiphon.Reasoning():
                entry = ReasoningEntry()
                entry.feed(item.get_summary_text() or item.get_reasoning_text())
                entry.close(None)
                found.append(entry)
            case antiphon.FunctionCall() | antiphon.CustomToolCall():
                call = calls[item.call_id] = CallEntry(item.name)
                call.feed(item.arguments if isinstance(item, antiphon.FunctionCall) else item.input)
                found.append(call)
            case antiphon.FunctionCallOutput() | antiphon.CustomToolCallOutput():
                text = item.output if isinstance(item.output, str) else describe_content(item.output)
                if item.call_id in calls:
                    calls[item.call_id].finish(text)
                else:
                    found.append(ItemEntry("Result", text))
            case _:
                found.append(hosted_entry(item))
    for one in found:
        one.response_id = response_id
    return found


def user_entry(message: antiphon.Message) -> UserEntry:
    if isinstance(message.content, str):
        return UserEntry(message.content)
    words = [part.text for part in message.content if isinstance(part, antiphon.InputText)]
    names = [name for part in message.content if (name := _attachment(part))]
    return UserEntry("\n".join(words), names)


def message_entries(message: antiphon.Message) -> list[Entry]:
    found: list[Entry] = []
    sources = SourcesEntry()
    parts = [antiphon.OutputText(message.content)] if isinstance(message.content, str) else message.content
    for part in parts:
        if not isinstance(part, antiphon.OutputText | antiphon.Refusal):
            continue
        entry = AnswerEntry(refusal=isinstance(part, antiphon.Refusal))
        entry.feed(part.text if isinstance(part, antiphon.OutputText) else part.refusal)
        entry.close()
        found.append(entry)
        if isinstance(part, antiphon.OutputText):
            for citation in part.annotations:
                if isinstance(citation, antiphon.UrlCitation):
                    sources.add(citation.title, citation.url)
    return [*found, sources] if sources.plain() else found


def hosted_entry(item: Any) -> Entry:
    """Makes the entry of a hosted tool's item, a vendor's, or one that this program does not know."""
    fields: dict[str, Any] = getattr(item, "fields", None) or {
        "type": item.type if hasattr(item, "type") else ""
    }
    kind = str(fields.get("type", ""))
    if kind == "mcp_call":
        entry = CallEntry(str(fields.get("name", "")), str(fields.get("server_label", "")))
        entry.feed(str(fields.get("arguments") or ""))
        if fields.get("error"):
            entry.finish(_short(fields["error"]), failed=True)
        elif fields.get("output") is not None:
            entry.finish(str(fields["output"]))
        return entry
    return ItemEntry(_HOSTED.get(kind, kind or "item"), _describe_item(kind, fields), _json(fields))


def _describe_item(kind: str, fields: dict[str, Any]) -> str:
    action = fields.get("action") if isinstance(fields.get("action"), dict) else {}
    assert isinstance(action, dict)
    match kind:
        case "web_search_call":
            return str(action.get("query") or action.get("url") or fields.get("status", ""))
        case "file_search_call":
            return ", ".join(str(query) for query in fields.get("queries") or ())
        case "code_interpreter_call":
            return str(fields.get("code") or "").strip().partition("\n")[0]
        case "image_generation_call":
            size = len(str(fields.get("result") or "")) * 3 // 4
            made = f"{size:,} bytes" if size else str(fields.get("status", ""))
            return f"{fields.get('revised_prompt') or 'an image'} ({made})"
        case "mcp_list_tools":
            return f"{fields.get('server_label', '')}: {len(fields.get('tools') or ())} tools"
        case "mcp_approval_request":
            return f"{fields.get('name', '')} on {fields.get('server_label', '')} asks for approval"
        case "mcp_approval_response":
            return "approved" if fields.get("approve") else "not approved"
        case _:
            return str(fields.get("status") or "")


def _json(fields: dict[str, Any]) -> str:
    shown = {name: _cut(value) for name, value in fields.items()}
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def _cut(value: Any) -> Any:
    return (
        f"{value[:200]}… ({len(value):,} characters)"
        if isinstance(value, str) and len(value) > 400
        else value
    )


def _short(value: Any) -> str:
    if isinstance(value, dict) and "message" in value:
        return str(value["message"])
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def describe_content(parts: Iterable[antiphon.ContentPart]) -> str:
    """Describes content in words: text unchanged, other parts by their kind."""
    return "\n".join(
        part.text if isinstance(part, antiphon.InputText | antiphon.OutputText) else _attachment(part)
        for part in parts
    )


def _attachment(part: object) -> str:
    match part:
        case antiphon.InputImage():
            address = part.image_url or ""
            if address.startswith("data:"):
                kind, _, data = address.removeprefix("data:").partition(";base64,")
                return f"[{kind}, {len(data) * 3 // 4:,} bytes]"
            return f"[image {address}]"
        case antiphon.InputFile():
            return f"[file {part.filename or part.file_url or ''}]"
        case antiphon.InputText() | antiphon.OutputText():
            return ""
        case _:
            return (
                f"[{getattr(type(part).__struct_config__, 'tag', type(part).__name__)}]"
                if isinstance(part, msgspec.Struct)
                else "[content]"
            )


def notices_of(response: antiphon.Response | Node) -> list[Entry]:
    """Makes the notices about how a response ended."""
    if response.status == "failed":
        return [failure_notice(response)]
    if response.status == "incomplete":
        return [ended_early(response)]
    if response.status in ("completed", "in_progress", "queued"):
        return []
    return [of_status(response.status)]
