"""Ends a background response whose process has died, from its event log."""

from antiphon.engine.engine import stored
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_response
from antiphon.spec.errors import ErrorPayload
from antiphon.store.base import Change, Store, StoredResponse
from antiphon.stream.composer import Composer
from antiphon.stream.dialects import of_log
from antiphon.stream.framing import single_line
from antiphon.stream.reader import Reader
from antiphon.stream.sent_events import SentEvents

RESTARTED = ErrorPayload(
    "server_error",
    "the gateway stopped while it was working on this response; send the request again",
    code="server_restarted",
)
_PAGE = 1000


async def last_words(store: Store, orphan: StoredResponse, owner: str, now: int) -> Change:
    """The change that ends it as failed, with the events that close what its log has left open.

    They are spelled in the dialect of the log.
    """
    dialect = of_log(orphan.dialect)
    reader, sent = Reader(), SentEvents(next_number=dialect.first_sequence_number)
    while logged := await store.events_after(orphan.tenant, orphan.id, sent.next_number - 1, _PAGE):
        for line in logged:
            reader.feed(line.data)
            for event in reader.events:
                sent.add(event)
        sent.next_number = logged[-1].sequence + 1
    composer = Composer(decode_response(orphan.body), clock=lambda: now, error_event=False)
    composer.resume(sent)
    events = composer.fail(sent.error or RESTARTED)
    response = composer.response
    dialect = dialect.for_response(response)
    return Change(
        id=orphan.id,
        owner=owner,
        status=response.status,
        body=encode(response),
        output=stored(response.output),
        first_event=sent.next_number,
        events=[single_line(dialect.encode(event)) for event in events],
        at=now,
    )
