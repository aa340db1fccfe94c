"""The Auditor's state: every item and part of a stream so far, and the violations that were found.

It holds the rules on items, indexes, ids, kinds, parts, texts and hosted tools. It reports what is missing
once and then takes it as said, so that one fault is not reported as many.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from antiphon.spec.items import CORE_TYPES
from antiphon.stream import lifecycle as lc
from antiphon.stream.json_shapes import Judge, is_int, show

Payload = dict[str, Any]

_PART_INDEX = {
    lc.PART_ADDED: "content_index",
    lc.PART_DONE: "content_index",
    lc.SUMMARY_PART_ADDED: "summary_index",
    lc.SUMMARY_PART_DONE: "summary_index",
}
_STABLE = ("type", "role", "name", "call_id")


@dataclass(slots=True)
class AuditedText:
    """A part, or the arguments of a call. A part that was not announced has no table and may do anything."""

    table: lc.Table | None = None
    type: str | None = None
    state: str = lc.OPEN
    first: str = ""
    pieces: bytearray = field(default_factory=bytearray)  # many small strings would be far larger
    whole: str | None = None
    annotations: list[Any] = field(default_factory=list)
    done: Payload | None = None

    @property
    def is_open(self) -> bool:
        return self.table is not None and self.state != lc.CLOSED

    def knows(self, event_type: str) -> bool:
        return self.table is None or any(event_type in row for row in self.table.values())


@dataclass(slots=True)
class AuditedItem:
    """An item. `kind` is empty when the stream never said what it is."""

    id: str | None
    kind: str
    added: Payload | None = None
    closed: bool = False
    done: Payload | None = None
    parts: dict[str, dict[int, AuditedText]] = field(
        default_factory=lambda: {"content_index": {}, "summary_index": {}}
    )
    call: AuditedText | None = None

    @property
    def status(self) -> str | None:
        return text_at(self.done, "status")

    @property
    def is_core(self) -> bool:
        return self.kind in CORE_TYPES

    def texts(self) -> Iterable[AuditedText]:
        yield from self.parts["content_index"].values()
        yield from self.parts["summary_index"].values()
        if self.call is not None:
            yield self.call


class AuditState:
    """Takes the events of items and parts, in order, and reports violations to `judge`."""

    def __init__(self, judge: Judge) -> None:
        self.items: list[AuditedItem] = []
        self._report = judge.report
        self._quote = judge.quote
        self._by_index: dict[int, AuditedItem] = {}
        self._by_id: dict[str, AuditedItem] = {}
        self._call_ids: set[str] = set()
        self._handlers: dict[str, Callable[[str, Payload], None]] = {
            lc.ITEM_ADDED: self._item_added,
            lc.ITEM_DONE: self._item_done,
            lc.PART_ADDED: self._part_added,
            lc.PART_DONE: self._part_done,
            lc.SUMMARY_PART_ADDED: self._part_added,
            lc.SUMMARY_PART_DONE: self._part_done,
            lc.ANNOTATION_ADDED: self._annotation_added,
            **{channel.delta: self._delta for channel in lc.CHANNELS},
            **{channel.done: self._text_done for channel in lc.CHANNELS},
        }

    def take(self, event_type: str, payload: Payload) -> None:
        if (handler := self._handlers.get(event_type)) is not None:
            handler(event_type, payload)

    # --- items --------------------------------------------------------------------------------------------

    def _item_added(self, event_type: str, payload: Payload) -> None:
        index, added = _index(payload, "output_index"), payload.get("item")
        if index is None:  # which was reported as a key that is missing
            index = len(self.items)
        if index != len(self.items):
            self._report("index.output", f"output_index {show(index)}, the next is {len(self.items)}")
        item = self._begin(index, text_at(added, "id"), text_at(added, "type") or "")
        if not isinstance(added, dict):
            return
        item.added = added
        if item.call is not None and item.kind in lc.CHANNEL_OF_CALL:
            item.call.first = text_at(added, lc.CHANNEL_OF_CALL[item.kind].key) or ""
        if item.call is not None and (call_id := text_at(added, "call_id")) is not None:
            if call_id in self._call_ids:
                self._report("id.call_unique", f"call_id {show(call_id)} was used before")
            self._call_ids.add(call_id)
        status = text_at(added, "status")
        if status not in (None, lc.IN_PROGRESS):
            if item.kind == "message" or item.call is not None:
                self._report("item.starts_in_progress", f"the item is added as {show(status)}")
        elif item.kind in lc.EVENTS_OF and any(map(added.get, ("content", "summary", "arguments", "input"))):
            self._report("item.starts_empty", "the item is added with text that has had no delta")

    def _begin(self, index: int, item_id: str | None, kind: str) -> AuditedItem:
        item = AuditedItem(item_id, kind)
        if kind in lc.CALLS:
            item.call = AuditedText(lc.CALLS[kind])
        if item_id is not None:
            if item_id in self._by_id:
                self._report("id.item_unique", f"{show(item_id)} is the id of two items")
            self._by_id[item_id] = item
        self.items.append(item)
        self._by_index[index] = item
        return item

    def _find(self, payload: Payload, item_id: str | None) -> AuditedItem | None:
        """Find the open item that an event is about; begin it here if no event has added it."""
        index = _index(payload, "output_index")
        item = None if item_id is None else self._by_id.get(item_id)
        if index is None:
            return None if item is None or item.closed else item
        here = self._by_index.get(index)
        item = here or item
        if item is None:
            self._report("item.added_first", f"nothing was added at output_index {show(index)}")
            return self._begin(index, item_id, "")
        if here is None or (item_id is not None and here.id not in (None, item_id)):
            self._report("id.item_matches", f"{show(item_id)} is not the item at output_index {show(index)}")
        if item.closed:
            self._report("item.nothing_after_done", f"the item at output_index {show(index)} was done")
            return None
        return item

    def _item_done(self, event_type: str, payload: Payload) -> None:
        done = payload.get("item")
        item = self._find(payload, text_at(done, "id"))
        if item is None:
            return
        item.closed = True
        if any(text.is_open for text in item.texts()):
            self._report("part.done_before_item", "the item is done before all of its parts or its arguments")
        if not isinstance(done, dict):
            return
        item.done = done
        for key in _STABLE:
            if item.added is not None and key in item.added and not same(item.added[key], done.get(key)):
                self._report("item.stable", f"{key} was {show(item.added[key])}, is {show(done.get(key))}")
        self._check_status(item)
        if item.call is not None:
            self._check_call(item, item.call, done)
        if item.kind in lc.PARTS:
            self._check_parts(done.get("content"), item.parts["content_index"])
            # A summary may come whole: the specification asks for parts of content only.
            if item.parts["summary_index"]:
                self._check_parts(done.get("summary"), item.parts["summary_index"])

    def _check_status(self, item: AuditedItem) -> None:
        status = item.status
        if status is None:
            return
        try:
            # Extensions may end in statuses of their own, so only what they must not be is looked at.
            if item.is_core or status == lc.IN_PROGRESS:
                lc.step(lc.ITEM, lc.IN_PROGRESS, (lc.ITEM_DONE, status))
        except lc.IllegalTransition:
            self._report("item.done_status", f"the item is done as {show(status)}")

    def _check_call(self, item: AuditedItem, call: AuditedText, done: Payload) -> None:
        if item.kind not in lc.CHANNEL_OF_CALL:
            return
        final = text_at(done, key := lc.CHANNEL_OF_CALL[item.kind].key)
        if final is not None and call.whole is not None and final != call.whole:
            self._report("text.part_equals_item", f"{key} differ from what was streamed")

    def _check_parts(self, final: object, streamed: dict[int, AuditedText]) -> None:
        parts = final if isinstance(final, list) else []
        if len(parts) != len(streamed):
            self._report(
                "text.part_equals_item", f"the item has {len(parts)} parts, {len(streamed)} were streamed"
            )
        for n, part in enumerate(parts):
            text = streamed.get(n)
            if text is not None and text.done is not None and not alike(text.done, part):
                self._report("text.part_equals_item", f"part {n} of the item is not the part that was done")

    # --- parts and texts ----------------------------------------------------------------------------------

    def _inside(self, event_type: str, payload: Payload) -> AuditedItem | None:
        """The item that this event happens inside, if its kind can have such an event."""
        item = self._find(payload, text_at(payload, "item_id"))
        if item is None or event_type in lc.EVENTS_OF.get(item.kind, (event_type,)):
            return item
        self._report("kind.event", f"{event_type} inside {show(item.kind)}")
        return None

    def _part_added(self, event_type: str, payload: Payload) -> None:
        item = self._inside(event_type, payload)
        key = _PART_INDEX[event_type]
        index, part = _index(payload, key), payload.get("part")
        if item is None:
            return
        parts = item.parts[key]
        if index is None:
            index = len(parts)
        if index != len(parts):
            self._report("index.part", f"{key} {show(index)}, the next is {len(parts)}")
        parts[index] = text = AuditedText(type=text_at(part, "type"))
        text.first = text_at(part, "text") or text_at(part, "refusal") or ""
        if item.kind in lc.PARTS and text.type is not None:
            table = lc.PARTS[item.kind].get(text.type)
            if table is not None and event_type in table[lc.ABSENT]:
                text.table = table
            else:
                self._report("kind.part", f"{event_type} of {show(text.type)} inside {item.kind}")
        if isinstance(part, dict) and any(map(part.get, ("text", "refusal", "annotations"))):
            self._report("part.starts_empty", "the part is added with text or annotations")

    def _text(self, event_type: str, payload: Payload, key: str | None) -> AuditedText | None:
        """Find the part, or the arguments, that an event is about, and move their state."""
        item = self._inside(event_type, payload)
        if item is None:
            return None
        if key is None:
            item.call = text = item.call or AuditedText()
        else:
            parts = item.parts[key]
            index = _index(payload, key)
            if index is None:
                index = max(parts, default=0)
            if index not in parts:
                self._report("part.added_first", f"no part was added at {key} {show(index)}")
                parts[index] = AuditedText()
            text = parts[index]
        return text if self._moves(event_type, text) else None

    def _moves(self, event_type: str, text: AuditedText) -> bool:
        if not text.knows(event_type):
            self._report("kind.event", f"{event_type} in a part of type {show(text.type)}")
            return False
        if text.table is None:
            return True
        try:
            text.state = lc.step(text.table, text.state, event_type)
        except lc.IllegalTransition:
            if event_type not in lc.PART_EVENTS or text.state == lc.CLOSED:
                self._report("part.nothing_after_done", f"{event_type} after done")
                return False
            self._report("part.text_done_first", "the part is done, its text was not")
            text.state = lc.CLOSED
        return True

    def _delta(self, event_type: str, payload: Payload) -> None:
        text = self._text(event_type, payload, lc.CHANNEL_OF[event_type].index)
        delta = text_at(payload, "delta")
        if text is None or delta is None:
            return
        if not delta:
            self._report("text.no_empty_delta", "the delta is empty")
        text.pieces += delta.encode("utf-8", "surrogatepass")

    def _text_done(self, event_type: str, payload: Payload) -> None:
        channel = lc.CHANNEL_OF[event_type]
        text = self._text(event_type, payload, channel.index)
        whole = text_at(payload, channel.key)
        if text is None or whole is None:
            return
        text.whole = whole
        joined = text.pieces.decode("utf-8", "surrogatepass")
        # Deltas have what changed since the item or part was added, which may have had a text already.
        if whole not in (joined, text.first + joined):
            self._report(
                "text.deltas_equal_done",
                f"{self._quote(whole)} is done, the deltas were {self._quote(joined)}",
            )

    def _annotation_added(self, event_type: str, payload: Payload) -> None:
        text = self._text(event_type, payload, "content_index")
        index = _index(payload, "annotation_index")
        if text is None:
            return
        if index is not None and index != len(text.annotations):
            self._report(
                "index.annotation", f"annotation_index {show(index)}, the next is {len(text.annotations)}"
            )
        text.annotations.append(payload.get("annotation"))

    def _part_done(self, event_type: str, payload: Payload) -> None:
        text = self._text(event_type, payload, _PART_INDEX[event_type])
        part = payload.get("part")
        if text is None or not isinstance(part, dict):
            return
        text.done = part
        if text.type is not None and not same(text.type, part.get("type")):
            self._report("part.stable", f"type was {show(text.type)}, is {show(part.get('type'))}")
            return
        whole = text_at(part, "refusal" if text.type == "refusal" else "text")
        if text.whole is not None and whole is not None and whole != text.whole:
            message = f"the part has {self._quote(whole)}, done was {self._quote(text.whole)}"
            self._report("text.done_equals_part", message)
        annotations = part.get("annotations")
        if isinstance(annotations, list):
            if not same(annotations[: len(text.annotations)], text.annotations):
                self._report("annotation.kept", "the part's annotations are not those announced")
            elif len(annotations) > len(text.annotations):
                self._report("annotation.announced", "the part has annotations that were not announced")


def text_at(value: object, key: str) -> str | None:
    """The string under `key`, if there is an object with one."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _index(payload: Payload, key: str) -> int | None:
    value = payload.get(key)
    return int(value) if is_int(value) else None


def same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except RecursionError:
        return False


def alike(one: object, other: object) -> bool:
    """Are they the same, where a key with null is as good as none?"""
    try:
        return bool(one == other) or _without_nulls(one) == _without_nulls(other)
    except RecursionError:
        return False


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


# What an item of each kind cannot lack, and of which JSON type it is.
KEYS: Mapping[str, Mapping[str, type]] = {
    "mcp_call": {"name": str, "arguments": str, "server_label": str},
    "mcp_list_tools": {"server_label": str, "tools": list},
    "mcp_approval_request": {"name": str, "arguments": str, "server_label": str},
    "web_search_call": {},
    "file_search_call": {"queries": list},
    "code_interpreter_call": {"container_id": str},
    "image_generation_call": {},
}
# A text that grows by deltas: the beginning of its events, and its key in the done event and in the item.
TEXTS: Mapping[str, tuple[str, str]] = {
    "mcp_call": ("response.mcp_call_arguments", "arguments"),
    "code_interpreter_call": ("response.code_interpreter_call_code", "code"),
}
_ENDS = frozenset({"completed", "failed"})
_BEGINS = "in_progress"


class _Open(NamedTuple):
    kind: str
    id: object
    steps: list[str]
    """The events of its progress, by their last word."""
    pieces: list[str]
    whole: list[str]


class AuditedTools:
    """Takes the events of hosted tools, in order, and reports violations."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._open: dict[int, _Open] = {}
        self._astray: set[str] = set()
        """Kinds of which an event came in a wrong place: no wonder that it is missing in the right one."""

    def take(self, event_type: str, payload: Payload) -> None:
        item, index = payload.get("item"), payload.get("output_index")
        if not isinstance(index, int):  # which was reported as a key that is wrong
            return
        if event_type in lc.ITEM_EVENTS:
            if isinstance(item, dict) and isinstance(kind := item.get("type"), str) and kind in KEYS:
                self._item(event_type, index, kind, item)
            return
        named, text = _kind_of(event_type)
        if named is None:
            return
        found = self._open.get(index)
        if found is None or found.kind != named or found.id != payload.get("item_id"):
            self._astray.add(named)
            self._report("hosted.event_place", f"there is no open {named} at index {index} with this id")
        elif text:
            self._text(found, event_type, payload)
        else:
            self._progress(found, event_type.rpartition(".")[2])

    def _item(self, event_type: str, index: int, kind: str, item: Payload) -> None:
        for key, wanted in KEYS[kind].items():
            if not isinstance(item.get(key), wanted):
                self._report("hosted.item_keys", f"{kind}.{key} is no {wanted.__name__}")
        if event_type == lc.ITEM_ADDED:
            self._open[index] = _Open(kind, item.get("id"), [], [], [])
            return
        found = self._open.pop(index, None)
        if found is None or found.kind != kind:
            return
        status = str(item.get("status"))
        end = next((word for word in found.steps if word in _ENDS), None)
        if end is not None and status in _ENDS and end != status:
            self._report("hosted.event_end", f"the item is {status}, and its events said {end}")
        elif end is None and _BEGINS in found.steps and status == "completed" and kind not in self._astray:
            self._report(
                "hosted.event_end", f"the item is {status}, and its events ended with {found.steps[-1]}"
            )
        if kind in TEXTS and found.whole and item.get(TEXTS[kind][1]) != found.whole[0]:
            self._report("hosted.text", f"the {TEXTS[kind][1]} of the item are not those of the done event")

    def _progress(self, found: _Open, word: str) -> None:
        steps = found.steps
        if any(one in _ENDS for one in steps):
            self._report("hosted.event_order", f"{word} comes after the end")
        elif word == _BEGINS and steps:
            self._report("hosted.event_order", f"{word} comes after {steps[-1]}")
        steps.append(word)

    def _text(self, found: _Open, event_type: str, payload: Payload) -> None:
        if found.whole:
            self._report("hosted.text", "a text goes on after it was done")
        elif event_type.endswith(".delta"):
            found.pieces.append(str(payload.get("delta")))
        else:
            whole = str(payload.get(TEXTS[found.kind][1]))
            found.whole.append(whole)
            if found.pieces and "".join(found.pieces) != whole:
                self._report("hosted.text", "the deltas are not the text of the done event")


def _kind_of(event_type: str) -> tuple[str | None, bool]:
    """The kind of item that an event belongs to, and whether it tells of its text."""
    for kind, (beginning, _) in TEXTS.items():
        if event_type in (f"{beginning}.delta", f"{beginning}.done"):
            return kind, True
    first, _, rest = event_type.partition(".")
    kind = rest.partition(".")[0]
    return (kind, False) if first == "response" and kind in KEYS else (None, False)
