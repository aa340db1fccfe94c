"""The events of a response that is over, composed anew from the response alone.

What was streamed once is kept as one response, without its events. Whoever asks for its stream again gets
the same items under the same ids; only where a text was cut into deltas is forgotten: each comes whole.
"""

from collections.abc import Callable, Iterator
from typing import cast

from msgspec import UNSET
from msgspec.structs import replace

from antiphon.spec.codec import Opaque
from antiphon.spec.content import OutputText, ReasoningText, Refusal, SummaryText
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import CustomToolCall, FunctionCall, Item, Message, Reasoning
from antiphon.spec.response import Response
from antiphon.stream import lifecycle
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    FINISH_OF,
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Finish,
    FinishReason,
    ItemDelta,
    ItemEnd,
    MessageStart,
    PartEnd,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
    WholeItem,
    Words,
    WordsStart,
)


def recompose(
    response: Response, shows: Callable[[str], str | None] = str, first_sequence_number: int = 0
) -> list[AnyEvent]:
    """All events of a response that is completed or incomplete; the last one has the response as it is."""
    begun = replace(
        response, output=[], usage=None, completed_at=None, incomplete_details=None, receipt_count=UNSET
    )
    ids: list[str] = []
    composer = Composer(
        begun,
        clock=lambda: float(response.completed_at or response.created_at),
        new_id=lambda _: ids[0],
        shows=shows,
        first_sequence_number=first_sequence_number,
    )
    events = composer.start()
    for index, item in enumerate(response.output):
        ids[:] = [item.id or ""]
        events += composer.feed(_said(item, index, item is response.output[-1]))
    begun.receipt_count = response.receipt_count
    return events + composer.feed(_ending(response))


def _said(item: Item, key: int, is_last: bool) -> list[AnyDelta]:
    """An item as its provider might have said it. One that was cut short is left open: the end cuts it."""
    is_open = getattr(item, "status", None) in ("incomplete", "in_progress")
    match item:
        case Message() | Reasoning():
            if words := _plain_words(item, key, is_open):
                return words[:-1] if is_open else words
            said = [*(_message(item) if isinstance(item, Message) else _reasoning(item))]
            # One that was over waits for an open one before it, and is cut together with that.
            return said if is_open and is_last else [*said, ItemEnd(status="completed")]
        case FunctionCall() | CustomToolCall():
            if isinstance(item, FunctionCall):
                call = CallDelta(key, item.arguments, item.name, item.call_id, "function", item.namespace)
            else:
                call = CallDelta(key, item.input, item.name, item.call_id, "custom", item.namespace)
            return [call] if is_open else [call, ItemEnd(key, "completed")]
    whole = cast(WholeItem, item)  # an output has no references
    if is_open and isinstance(whole, Opaque):
        whole = lifecycle.with_status(whole, "in_progress")
    return [ItemDelta(whole, key)]


def _plain_words(item: Message | Reasoning, key: int, is_open: bool) -> list[AnyDelta]:
    """An item of texts alone, under its key, if it can be told in no other way.

    It was announced before its first word, and has none; or it stayed open while others began.
    """
    parts = [part for part in item.content or () if not isinstance(part, str)]
    texts = [part.text for part in parts if isinstance(part, OutputText | ReasoningText) and _is_plain(part)]
    if not texts or len(texts) < len(parts) or not (is_open or not texts[0]):
        return []
    if isinstance(item, Message):
        said: list[AnyDelta] = [WordsStart(key, phase=item.phase)]
    elif item.summary or item.encrypted_content:
        return []
    else:
        said = [WordsStart(key, "reasoning")]
    for text in texts:
        said += [Words(key, text), PartEnd(key)]
    return [*said, ItemEnd(key)]


def _is_plain(part: OutputText | ReasoningText) -> bool:
    return isinstance(part, ReasoningText) or not (part.annotations or part.logprobs)


def _message(message: Message) -> Iterator[AnyDelta]:
    yield MessageStart(message.phase)
    for part in message.content:
        match part:
            case OutputText(text, annotations, logprobs):
                if text:
                    yield TextDelta(text, logprobs or None)
                yield from (AnnotationDelta(annotation) for annotation in annotations)
                if logprobs and not text:
                    yield TextDelta("", logprobs)
            case Refusal(refusal):
                yield RefusalDelta(refusal)
        yield PartEnd()


def _reasoning(reasoning: Reasoning) -> Iterator[AnyDelta]:
    for part in reasoning.content or ():
        if isinstance(part, ReasoningText) and part.text:
            yield ReasoningDelta(part.text)
            yield PartEnd()
    for number, part in enumerate(reasoning.summary):
        if isinstance(part, SummaryText) and part.text:
            yield SummaryDelta(part.text, number)
    if reasoning.encrypted_content:
        yield SignatureDelta(reasoning.encrypted_content)


def _ending(response: Response) -> list[AnyDelta]:
    details = response.incomplete_details
    reason: FinishReason = "stop" if details is None else FINISH_OF.get(details.reason, "length")
    ending: list[AnyDelta] = [] if response.usage is None else [UsageDelta(response.usage)]
    return [*ending, Finish(reason)]
