"""Goes on with a background response whose process has stopped, from its log and its job; or ends it.

Finished items stay, and so does everything that clients have seen of the others. Open text goes on where it
stopped, open reasoning is completed with what it has. Anything else that is open is the end of the response.
"""

import logging

from msgspec import Struct

from antiphon.engine.background.job import Ending
from antiphon.engine.background.job_record import JobRecord, UnreadableJob
from antiphon.engine.engine import Engine, PriorAttempt
from antiphon.engine.hosted.progress import HostedProgress
from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing.continuation import UNFINISHED, Unfinished, resumable
from antiphon.engine.run import Run
from antiphon.engine.run_state import RunState
from antiphon.engine.saving import stored
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_response, decode_stored_items
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import CustomToolCall, FunctionCall
from antiphon.spec.response import CONTINUED, Receipt
from antiphon.store.base import Change, Context, StoredResponse, StoreError, array
from antiphon.store.store import Store
from antiphon.stream import lifecycle
from antiphon.stream.composer import Composer
from antiphon.stream.dialects import of_log
from antiphon.stream.framing import single_line
from antiphon.stream.reader import Reader
from antiphon.stream.resume_state import SentEvents

log = logging.getLogger(__name__)

RESTARTED = ErrorPayload(
    "server_error",
    "the gateway stopped while it was working on this response; send the request again",
    code="server_restarted",
)
UNREADABLE_JOB = ErrorPayload(
    "server_error",
    "the gateway that took this request over could not open its stored data: it has other sealing keys, or "
    "another version; send the request again",
    code="unreadable_job",
)
MOST_ATTEMPTS = 5
TOO_OFTEN = ErrorPayload(
    "server_error",
    f"the gateway stopped {MOST_ATTEMPTS} times while it was working on this response; it may be the cause",
    code="too_many_attempts",
)
TAKEOVER = "takeover"
"""Who a receipt names for what is decided here."""
_PAGE = 1000


class Restored(Struct):
    """A response of another process, ready to be gone on with."""

    run: Run
    record: JobRecord
    last: int
    """The number of the last event in the log."""
    events: list[AnyEvent]
    """Those that come first: they end what was left open."""


async def sent_events(store: Store, response: StoredResponse) -> SentEvents:
    """What the log of a response tells."""
    reader, sent = Reader(), SentEvents(next_number=of_log(response.dialect).first_sequence_number)
    while logged := await store.events_after(response.tenant, response.id, sent.next_number - 1, _PAGE):
        for line in logged:
            reader.feed(line.data)
            for event in reader.events:
                sent.add(event)
        sent.next_number = logged[-1].sequence + 1
    return sent


async def restore_run(engine: Engine, response: StoredResponse) -> Restored | None:
    """The run that goes on with it; None for a response of an older version, which has no job.

    `UnreadableJob` if the job cannot be opened, `SpecError` if the request would be refused now, or if too
    many processes have died over it. A process that was stopped and left it to the next does not count.
    """
    sealed = await engine.store.job(response.tenant, response.id)
    if sealed is None:
        return None
    record = JobRecord.unseal(sealed, engine.seal, response.tenant, response.id)
    if response.attempt - record.handovers >= MOST_ATTEMPTS:
        raise SpecError(TOO_OFTEN, 500)
    sent = await sent_events(engine.store, response)
    context = await engine.store.context(response.tenant, response.id)
    given = decode_stored_items(array([context.input])) if context is not None else []
    state = engine.new_run(record.context(response.tenant, response.dialect))
    request = record.with_input(given)
    before: Context | None = None
    if context is not None and request.previous_response_id is not None:
        # What it continues may have been deleted since; its own row keeps what it needs of that.
        before = Context(request.previous_response_id, "completed", context.before, b"", b"")
    run = await engine.start(request, state, prior=PriorAttempt(decode_response(response.body), before))
    events = _continue_run(run, sent, record.hosted, response)
    await state.rejoin(record.spent)  # last: a run that is ended after a failure here is rejoined for that
    return Restored(run, record, sent.next_number - 1, events)


async def rejoin_run(engine: Engine, response: StoredResponse) -> RunState:
    """The run of a response that is only to be ended, with what its attempts have taken, if that is known.

    A gate that raises does not keep the response from its end: the run has no admission then.
    """
    context, spent = RequestContext(tenant=response.tenant), None
    if (sealed := await engine.store.job(response.tenant, response.id)) is not None:
        try:
            record = JobRecord.unseal(sealed, engine.seal, response.tenant, response.id)
            context, spent = record.context(response.tenant, response.dialect), record.spent
        except UnreadableJob as error:
            log.warning("the usage of background response %s is unknown: %s", response.id, error)
    run = engine.new_run(context)
    run.id, run.model, run.is_background = response.id, response.model, True
    try:
        await run.rejoin(spent)
    except StoreError:
        raise  # tried again
    except Exception:
        log.exception("background response %s ends without a settlement: its gate failed", response.id)
        run.reopen(spent)
    return run


async def final_change(
    store: Store,
    orphan: StoredResponse,
    owner: str,
    now: int,
    ending: Ending = lambda composer: composer.fail(RESTARTED),
) -> Change:
    """The change that ends it, with the events that close what its log has left open.

    They are spelled in the dialect of the log. Nothing else is known of it.
    """
    sent = await sent_events(store, orphan)
    composer = Composer(decode_response(orphan.body), clock=lambda: now, error_event=False)
    composer.resume(sent)
    events: list[AnyEvent] = []
    if lifecycle.RESPONSE[sent.state]:  # else it has ended by now, and the change is refused
        events = ending(composer) if sent.error is None else composer.fail(sent.error)
    response = composer.response
    dialect = of_log(orphan.dialect).for_response(response)
    return Change(
        id=orphan.id,
        owner=owner,
        status=response.status,
        body=encode(response),
        output=stored(response.output),
        first_event=sent.next_number,
        events=[single_line(dialect.encode(event)) for event in events],
        at=now,
        attempt=orphan.attempt,
    )


def _continue_run(
    run: Run, sent: SentEvents, progress: HostedProgress | None, response: StoredResponse
) -> list[AnyEvent]:
    """Tell the run what was said, and give it what it goes on with."""
    composer = run.composer
    if sent.state in (lifecycle.ABSENT, lifecycle.CREATED, lifecycle.QUEUED) and (
        response.status == "in_progress" or sent.items
    ):
        sent.state = lifecycle.IN_PROGRESS  # some dialects leave events out
    composer.resume(sent)
    composer.room.bytes -= len(encode(composer.snapshot().output))
    if sent.error is not None:
        return composer.fail(sent.error)
    events = composer.go_on(sent)
    before = resumable(composer.snapshot(), run.turn.request)
    if not run.asker.resume(before, sent.vendor_events, progress):
        return [*events, *composer.fail(UNFINISHED)]
    if before is not None and run.checks is not None:
        calls = [item for item in before.items if isinstance(item, FunctionCall | CustomToolCall)]
        run.checks.calls_made = len(calls)
    if response.attempt:
        run.turn.receipts.append(_receipt(before, response.attempt))
    return events


def _receipt(before: Unfinished | None, attempt: int) -> Receipt:
    reason = f"the process that worked on it stopped; attempt {attempt + 1} "
    if before is None or not (before.place or before.items):
        return Receipt("output", CONTINUED, f"{reason}continues the response", TAKEOVER)
    if not before.text:
        return Receipt("output", CONTINUED, f"{reason}continues after the finished items", TAKEOVER)
    place = f"continues this text at character {before.offset:,}"
    return Receipt(before.place, CONTINUED, f"{reason}{place}", TAKEOVER)
