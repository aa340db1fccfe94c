"""Items of a stream that is being read: texts are kept in pieces, and joined on demand."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.content import (
    Annotation,
    ContentPart,
    InputText,
    LogProb,
    OutputText,
    ReasoningText,
    Refusal,
    SummaryText,
    TextContent,
)
from antiphon.spec.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemStatus,
    Message,
    Reasoning,
)
from antiphon.stream import lifecycle

Owner = type[Message] | type[Reasoning] | type[FunctionCall] | type[CustomToolCall]


class GrowingText(NamedTuple):
    """A text that grows: its events, the field that holds it, the item it belongs to, and its part."""

    name: str
    delta: Callable[..., ev.Event]
    done: Callable[..., ev.Event]
    key: str
    owner: Owner
    part: Any = None
    numbered: str = "content_index"  # empty when the item has this text only once, in a field of its own
    added: Callable[..., ev.Event] = ev.ContentPartAddedEvent
    ended: Callable[..., ev.Event] = ev.ContentPartDoneEvent


def _kind(name: str, channel: lifecycle.Channel, owner: Owner, part: Any = None) -> GrowingText:
    delta, done = ev.EVENTS[channel.delta], ev.EVENTS[channel.done]
    return GrowingText(name, delta, done, channel.key, owner, part, channel.index or "")


TEXT = _kind("text", lifecycle.TEXT, Message, OutputText)
REFUSAL = _kind("refusal", lifecycle.REFUSAL, Message, Refusal)
REASONING = _kind("reasoning", lifecycle.REASONING, Reasoning, ReasoningText)
SUMMARY = _kind("summary", lifecycle.SUMMARY, Reasoning, SummaryText)._replace(
    added=ev.ReasoningSummaryPartAddedEvent, ended=ev.ReasoningSummaryPartDoneEvent
)
ARGUMENTS = _kind("arguments", lifecycle.CALL_ARGUMENTS, FunctionCall)
INPUT = _kind("input", lifecycle.CALL_INPUT, CustomToolCall)
# A part whose type we do not know stands among the others and has no text.
CARRIED = GrowingText("part", ev.ContentPartAddedEvent, ev.ContentPartDoneEvent, "", Message)

KINDS = (TEXT, REFUSAL, REASONING, SUMMARY, ARGUMENTS, INPUT, CARRIED)
KIND_OF: dict[object, GrowingText] = {
    event: kind for kind in KINDS if kind is not CARRIED for event in (kind.delta, kind.done)
}

_KIND_OF_PART: dict[type, GrowingText] = {
    OutputText: TEXT,
    TextContent: TEXT,
    InputText: TEXT,
    Refusal: REFUSAL,
    ReasoningText: REASONING,
    SummaryText: SUMMARY,
}
TextLike = OutputText | TextContent | InputText | ReasoningText | SummaryText

# What an item can have, and under which other names servers tell it.
_KIND_IN: dict[type, dict[GrowingText, GrowingText]] = {
    Message: {TEXT: TEXT, REFUSAL: REFUSAL, CARRIED: CARRIED},
    Reasoning: {TEXT: REASONING, REASONING: REASONING, SUMMARY: SUMMARY, CARRIED: CARRIED},
    FunctionCall: {ARGUMENTS: ARGUMENTS, INPUT: ARGUMENTS},
    CustomToolCall: {ARGUMENTS: INPUT, INPUT: INPUT},
}


def kind_of_part(part: ContentPart) -> GrowingText:
    return next((kind for cls, kind in _KIND_OF_PART.items() if isinstance(part, cls)), CARRIED)


def kind_in(item: Item, kind: GrowingText) -> GrowingText | None:
    """What this kind of text is in this item; None when the item cannot have it."""
    for cls, kinds in _KIND_IN.items():
        if isinstance(item, cls):
            return kinds.get(kind)
    return kind  # hosted and vendor items: what is said of them is passed on


class PartialText:
    """One text and what belongs to it."""

    __slots__ = ("annotations", "chunks", "closed", "kind", "logprobs", "part")

    def __init__(self, kind: GrowingText, part: Any) -> None:
        self.kind = kind
        self.chunks: list[str] = []
        self.annotations: list[Annotation] = []
        self.logprobs: list[LogProb] = []
        self.closed = False
        self.take(part)

    def take(self, part: Any) -> None:
        """Take the part of an event; what the event leaves out stays as it was."""
        self.part = part
        if isinstance(part, OutputText):
            self.annotations = list(part.annotations) or self.annotations
            self.logprobs = list(part.logprobs or ()) or self.logprobs

    def value(self) -> str:
        if len(self.chunks) > 1:
            self.chunks = ["".join(self.chunks)]
        return self.chunks[0] if self.chunks else ""

    def settle(self, whole: str) -> str | None:
        """The whole text is known: the rest that no delta had, or None if the deltas differ from it."""
        streamed = self.value()
        self.chunks = [whole]
        return whole[len(streamed) :] if whole.startswith(streamed) else None

    def build(self) -> Any:
        if isinstance(self.part, OutputText):
            # A list of its own: ours still grows, and what was given out must not.
            logprobs = list(self.logprobs) or self.part.logprobs
            return replace(
                self.part, text=self.value(), annotations=list(self.annotations), logprobs=logprobs
            )
        if self.kind.part is not None:
            return replace(self.part, **{self.kind.key: self.value()})
        return self.part


class PartialItem:
    """One item. `index` is ours, `wire` is what the server calls it."""

    __slots__ = ("_latest", "_next", "done", "id", "implied", "index", "item", "texts", "wire")

    def __init__(self, index: int, wire: int, id: str, item: Item, *, implied: bool) -> None:
        self.index = index
        self.wire = wire
        self.id = id
        self.item = item
        self.implied = implied  # the server never announced it
        self.done = False
        self.texts: dict[tuple[Any, int], PartialText] = {}
        self._latest: dict[GrowingText, int] = {}
        self._next: dict[bool, int] = {}  # the next number among its summaries, and among the rest

    def begin(self, kind: GrowingText, number: int, part: Any) -> PartialText:
        text = self.texts[kind.delta, number] = PartialText(kind, part)
        self._latest[kind] = number
        series = kind is SUMMARY
        self._next[series] = max(self._next.get(series, 0), number + 1)
        return text

    def number(self, kind: GrowingText, stated: int | None, *, last: bool = False) -> int:
        """The part that an event means: the one it names, else the open or the `last` one, else a new one."""
        if not kind.numbered:
            return 0
        if stated is not None:
            return stated
        latest = self._latest.get(kind)
        if latest is not None and (last or not self.texts[kind.delta, latest].closed):
            return latest
        return self._next.get(kind is SUMMARY, 0)

    def place_texts(self, item: Item) -> Iterator[tuple[GrowingText, int, str]]:
        """Number the texts of the whole item as they were, or can be, streamed."""
        whole = [text for text in texts_of(item) if text[0] is not CARRIED and kind_in(self.item, text[0])]
        streamed = [(text.kind, n) for (_, n), text in self.texts.items() if text.kind is not CARRIED]
        if set(streamed) <= {(kind, n) for kind, n, _ in whole}:
            yield from whole
            return
        # The server counts in a way of its own, so texts of a kind are matched by their order.
        waiting: dict[GrowingText, list[int]] = {}
        for kind, n in sorted(streamed, key=lambda place: place[1], reverse=True):
            waiting.setdefault(kind, []).append(n)
        unused = max(n for _, n in streamed) + 1
        for kind, n, words in whole:
            mine = waiting.get(kind)
            yield kind, mine.pop() if mine else unused + n, words

    def build(self) -> Item:
        """Build the item with its content so far."""
        if self.done or not self.texts:
            return self.item
        texts = [text for (_, _), text in sorted(self.texts.items(), key=lambda pair: pair[0][1])]
        content = [text.build() for text in texts if text.kind is not SUMMARY]
        match self.item:
            case Message() as message:
                return replace(message, content=content)
            case Reasoning() as reasoning:
                summary = [text.build() for text in texts if text.kind is SUMMARY]
                return replace(
                    reasoning, content=content or reasoning.content, summary=summary or reasoning.summary
                )
            case FunctionCall() as call:
                return replace(call, arguments=texts[0].value())
            case CustomToolCall() as call:
                return replace(call, input=texts[0].value())
            case FunctionCallOutput(output="") as output:
                # Some servers stream the output of a tool as if it were a message.
                return replace(output, output="".join(text.value() for text in texts))
        return self.item


def skeleton(kind: GrowingText, id: str, call_id: str, name: str) -> Item:
    """Make the announcement of an item that the server did not announce."""
    if kind.owner is Reasoning:
        return Reasoning(id=id, summary=[], status="in_progress")
    if kind.owner is FunctionCall:
        return FunctionCall(id=id, call_id=call_id or id, name=name, arguments="", status="in_progress")
    if kind.owner is CustomToolCall:
        return CustomToolCall(id=id, call_id=call_id or id, name=name, input="", status="in_progress")
    return Message(id=id, role="assistant", status="in_progress", content=[])


def as_announced(item: Item) -> Item:
    """The item as its announcement has it, without its texts, which come in deltas."""
    match item:
        case Message():
            return replace(item, content=[], status="in_progress")
        case Reasoning():
            return replace(item, content=None, summary=[], status="in_progress")
        case FunctionCall():
            return replace(item, arguments="", status="in_progress")
        case CustomToolCall():
            return replace(item, input="", status="in_progress")
    return item


def texts_of(item: Item) -> Iterator[tuple[GrowingText, int, str]]:
    """Every text in an item, with its kind and its place among its like."""
    match item:
        case Message(content=list() as content):
            yield from ((kind_of_part(part), n, words_of(part)) for n, part in enumerate(content))
        case Reasoning():
            yield from ((REASONING, n, words_of(part)) for n, part in enumerate(item.content or ()))
            yield from ((SUMMARY, n, words_of(part)) for n, part in enumerate(item.summary))
        case FunctionCall():
            yield ARGUMENTS, 0, item.arguments
        case CustomToolCall():
            yield INPUT, 0, item.input
        case FunctionCallOutput(output=str() as output):
            yield CARRIED, 0, output


def has_words(item: Item) -> bool:
    return any(words for _, _, words in texts_of(item))


def with_words_of(known: Item, item: Item) -> Item:
    """The item with the texts of another of its type."""
    match item, known:
        case Message(), Message(content=content):
            return replace(item, content=content)
        case Reasoning(), Reasoning(content=parts, summary=summary):
            return replace(item, content=parts, summary=summary)
        case FunctionCall(), FunctionCall(arguments=arguments):
            return replace(item, arguments=arguments)
        case CustomToolCall(), CustomToolCall(input=words):
            return replace(item, input=words)
        case FunctionCallOutput(), FunctionCallOutput(output=output):
            return replace(item, output=output)
    return item


def as_output(item: Item) -> Item:
    """The same item with its texts under the names that they have in output."""
    match item:
        case Message(content=str() as words):
            return replace(item, content=[OutputText(words)] if words else [])
        case Message(content=list() as content):
            return replace(item, content=[_rename_part(kind_of_part(part), part) for part in content])
        case Reasoning():
            raw = item.content and [_rename_part(REASONING, part) for part in item.content]
            return replace(item, content=raw, summary=[_rename_part(SUMMARY, part) for part in item.summary])
    return item


def part_for(kind: GrowingText, part: Any) -> Any:
    """This part as one of its kind."""
    return part if kind.part is None or isinstance(part, kind.part) else kind.part(words_of(part))


def _rename_part(kind: GrowingText, part: Any) -> Any:
    return part_for(kind, part) if isinstance(part, TextLike) else part


def words_of(part: Any) -> str:
    if isinstance(part, Refusal):
        return part.refusal
    return part.text if isinstance(part, TextLike) else ""


def as_ended(item: Item, status: ItemStatus) -> Item:
    """The item with a final status, if it has none yet."""
    match item:
        case Opaque():
            return item.replace(status=status) if item.status == "in_progress" else item
        case Message(status=None) | FunctionCall(status=None) | CustomToolCall(status=None):
            return replace(item, status=status)
        case Message() | Reasoning() | FunctionCall() | CustomToolCall() | FunctionCallOutput():
            return replace(item, status=status) if item.status == "in_progress" else item
    return item


def with_item_id(item: Item, id: str) -> Item:
    return item if isinstance(item, Opaque) or item.id == id else replace(item, id=id)
