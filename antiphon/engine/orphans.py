"""The end of a background response whose owner has died, told from what is left of it."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from antiphon.engine.engine import stored
from antiphon.spec import events as ev
from antiphon.spec.content import ContentPart, OutputText, ReasoningText, Refusal, SummaryText
from antiphon.spec.decode import decode_response
from antiphon.spec.errors import ErrorPayload, ResponseError
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import CustomToolCall, FunctionCall, Message, Reasoning
from antiphon.spec.opaque import encode
from antiphon.store.base import Change, Store, StoredResponse
from antiphon.stream.dialects import of_log
from antiphon.stream.framing import single_line
from antiphon.stream.reader import Reader

RESTARTED = ErrorPayload(
    "server_error",
    "the gateway stopped while it was working on this response; send the request again",
    code="server_restarted",
)
_PAGE = 1000

# A class of events, and which text of which item one of them spoke of.
Told = tuple[object, int | None, int]
Where = tuple[int, str, int, int]


async def last_words(store: Store, orphan: StoredResponse, owner: str, now: int) -> Change:
    """The change that ends it as failed, with the events that close what its log has left open.

    They are spelled in the dialect of the log.
    """
    response = decode_response(orphan.body)
    dialect = of_log(orphan.dialect)
    reader = Reader()
    told: set[Told] = set()
    last = dialect.first_sequence_number - 1
    while logged := await store.events_after(orphan.tenant, orphan.id, last, _PAGE):
        for line in logged:
            told.add(_told(reader.feed(line.data)))
        last = logged[-1].sequence
    events: list[AnyEvent] = []
    if not told:
        events.append(ev.ResponseCreated(0, response))
        reader.feed(events[0].to_json())
    reader.error = error = reader.error or RESTARTED
    output = reader.close(now).output
    failed = replace(
        response,
        status="failed",
        error=ResponseError(error.code or error.type, error.message),
        completed_at=now,
        output=output,
    )
    for event in reader.events[:-1]:
        if isinstance(event, ev.OutputItemDone):
            events += _ends(event, told)
        events.append(event)
    events.append(ev.ResponseFailed(0, failed))
    for number, event in enumerate(events, last + 1):
        event.sequence_number = number
    dialect = dialect.for_response(failed)
    return Change(
        id=orphan.id,
        owner=owner,
        status=failed.status,
        body=encode(failed),
        output=stored(output),
        first_event=last + 1,
        events=[single_line(dialect.encode(event)) for event in events],
    )


def _told(event: AnyEvent | None) -> Told:
    number = getattr(event, "summary_index", getattr(event, "content_index", 0))
    return type(event), getattr(event, "output_index", None), number


def _ends(done: ev.OutputItemDone, told: set[Told]) -> Iterator[AnyEvent]:
    """The end of each text and each part of an item, where it has not been told."""
    item, index = done.item, done.output_index
    ends: list[AnyEvent] = []
    match item:
        case Message(content=list() as parts):
            for n, part in enumerate(parts):
                ends += _part_ends((0, item.id, index, n), part, ev.ContentPartDone)
        case Reasoning():
            for n, part in enumerate(item.summary):
                ends += _part_ends((0, item.id, index, n), part, ev.ReasoningSummaryPartDone)
            for n, part in enumerate(item.content or ()):
                ends += _part_ends((0, item.id, index, n), part, ev.ContentPartDone)
        case FunctionCall(arguments=arguments):
            ends.append(ev.FunctionCallArgumentsDone(0, item.id, index, arguments))
        case CustomToolCall(input=input):
            ends.append(ev.CustomToolCallInputDone(0, item.id, index, input))
    return (event for event in ends if _told(event) not in told)


def _part_ends(where: Where, part: ContentPart, whole: Callable[..., AnyEvent]) -> Iterator[AnyEvent]:
    match part:
        case OutputText(text=text, logprobs=logprobs):
            yield ev.OutputTextDone(*where, text, logprobs)
        case Refusal(refusal=refusal):
            yield ev.RefusalDone(*where, refusal)
        case ReasoningText(text=text):
            yield ev.ReasoningDone(*where, text)
        case SummaryText(text=text):
            yield ev.ReasoningSummaryTextDone(*where, text)
    yield whole(*where, part)
