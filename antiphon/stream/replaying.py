"""The events of a response that is over, composed anew from the response alone.

The store keeps a finished response without its events. A client that asks for its stream again gets the same
items under the same ids; only the cuts of a text into deltas are lost: each text comes whole.
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
from antiphon.stream import deltas as d
from antiphon.stream import lifecycle
from antiphon.stream.composer import Composer


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
        events += composer.feed(_to_deltas(item, index, item is response.output[-1]))
    begun.receipt_count = response.receipt_count
    return events + composer.feed(_ending(response))


def _to_deltas(item: Item, key: int, is_last: bool) -> list[d.AnyDelta]:
    """The deltas that make this item. An item that was cut short stays open, and the end cuts it again."""
    is_open = getattr(item, "status", None) in ("incomplete", "in_progress")
    match item:
        case Message() | Reasoning():
            if words := _plain_words(item, key, is_open):
                return words[:-1] if is_open else words
            said = [*(_message(item) if isinstance(item, Message) else _reasoning(item))]
            # One that was over waits for an open one before it, and is cut together with that.
            return said if is_open and is_last else [*said, d.ItemEnd(status="completed")]
        case FunctionCall() | CustomToolCall():
            if isinstance(item, FunctionCall):
                call = d.CallDelta(key, item.arguments, item.name, item.call_id, "function", item.namespace)
            else:
                call = d.CallDelta(key, item.input, item.name, item.call_id, "custom", item.namespace)
            return [call] if is_open else [call, d.ItemEnd(key, "completed")]
    whole = cast(d.WholeItem, item)  # an output has no references
    if is_open and isinstance(whole, Opaque):
        whole = lifecycle.with_status(whole, "in_progress")
    return [d.ItemDelta(whole, key)]


def _plain_words(item: Message | Reasoning, key: int, is_open: bool) -> list[d.AnyDelta]:
    """The deltas of an item of texts alone, under its key, if no other deltas make it.

    Such an item was announced before its first word, and has none; or it stayed open while others began.
    """
    parts = [part for part in item.content or () if not isinstance(part, str)]
    texts = [part.text for part in parts if isinstance(part, OutputText | ReasoningText) and _is_plain(part)]
    if not texts or len(texts) < len(parts) or not (is_open or not texts[0]):
        return []
    if isinstance(item, Message):
        said: list[d.AnyDelta] = [d.WordsStart(key, phase=item.phase)]
    elif item.summary or item.encrypted_content:
        return []
    else:
        said = [d.WordsStart(key, "reasoning")]
    for text in texts:
        said += [d.Words(key, text), d.PartEnd(key)]
    return [*said, d.ItemEnd(key)]


def _is_plain(part: OutputText | ReasoningText) -> bool:
    return isinstance(part, ReasoningText) or not (part.annotations or part.logprobs)


def _message(message: Message) -> Iterator[d.AnyDelta]:
    yield d.MessageStart(message.phase)
    for part in message.content:
        match part:
            case OutputText(text, annotations, logprobs):
                if text:
                    yield d.TextDelta(text, logprobs or None)
                yield from (d.AnnotationDelta(annotation) for annotation in annotations)
                if logprobs and not text:
                    yield d.TextDelta("", logprobs)
            case Refusal(refusal):
                yield d.RefusalDelta(refusal)
        yield d.PartEnd()


def _reasoning(reasoning: Reasoning) -> Iterator[d.AnyDelta]:
    for part in reasoning.content or ():
        if isinstance(part, ReasoningText) and part.text:
            yield d.ReasoningDelta(part.text)
            yield d.PartEnd()
    for number, part in enumerate(reasoning.summary):
        if isinstance(part, SummaryText) and part.text:
            yield d.SummaryDelta(part.text, number)
    if reasoning.encrypted_content:
        yield d.SignatureDelta(reasoning.encrypted_content)


def _ending(response: Response) -> list[d.AnyDelta]:
    details = response.incomplete_details
    reason: d.FinishReason = "stop" if details is None else d.FINISH_OF.get(details.reason, "length")
    ending: list[d.AnyDelta] = [] if response.usage is None else [d.UsageDelta(response.usage)]
    return [*ending, d.Finish(reason)]
