"""Background responses over HTTP: creating one, and streaming its event log."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from antiphon.bridges.encoder import Encoder, ServerSentEvents
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.streaming import Stream, answer_headers
from antiphon.spec.decode import decode_event
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import AnyEvent
from antiphon.spec.request import Request
from antiphon.spec.response import Receipt, Response
from antiphon.spec.tools import Tool
from antiphon.store import LoggedEvent
from antiphon.stream import lifecycle, sse
from antiphon.stream.composer import Composer
from antiphon.stream.resume_state import SentEvents

FROM_THE_START = -1
_DELETED = ErrorPayload("not_found", "the response was deleted while it was read", code="response_deleted")


class _EventType(Struct):
    type: str


_read = msgspec.json.Decoder(_EventType).decode


async def create(gateway: Gateway, exchange: Exchange, request: Request) -> None:
    """Answer at once; the work goes on without the client."""
    job = await gateway.background.start(request, exchange.new_run(gateway))
    if job.task is not None:
        exchange.hold_until(job.task)
    if not request.stream:
        body = exchange.context.dialect.encode_response(job.created)
        await exchange.answer(body, headers=answer_headers(job.receipts))
        gateway.audits.answer(body, request.tools, exchange.context)
        return
    exchange.watch()
    await stream_log(
        gateway, exchange, job.created, FROM_THE_START, tools=request.tools, receipts=job.receipts
    )


async def stream_log(
    gateway: Gateway,
    exchange: Exchange,
    response: Response,
    after: int,
    *,
    encoder: Encoder | None = None,
    tools: Sequence[Tool] | None = None,
    receipts: Sequence[Receipt] = (),
) -> None:
    """The logged events after this one, and those still to come, until the response has ended.

    Without an encoder they go out as they were spelled when they were logged, in the caller's dialect. With
    `tools`, those of the request, they are audited. The head says how many `receipts` there are by then.
    """
    spelled = encoder or ServerSentEvents(exchange.context.dialect)
    stream = Stream(gateway, exchange, spelled, tools, receipts)
    stream.open()
    background, tenant = gateway.background, exchange.context.tenant
    try:
        while events := await background.events(tenant, response.id, after):
            after = events[-1].sequence
            chunk, ended = _frame_events(events) if encoder is None else _encode_events(events, encoder)
            if ended:
                await stream.finish(chunk + spelled.end())
                return
            if not stream.write(chunk):
                await stream.ready()
        if stream.audit is not None and (events is None or background.stopping):
            stream.audit.drop()  # what is open stays open in this stream
        if events is None:
            await stream.close(_end_of_deleted(gateway, response, after))
        elif background.stopping:
            await stream.finish(b"")  # the response lives on in another process: it can be read on from there
        else:
            await stream.finish(spelled.end())
    finally:
        stream.stop()


def _frame_events(events: list[LoggedEvent]) -> tuple[bytes, bool]:
    """The events as server-sent events, and whether the last one ends the response."""
    kinds = [_read(event.data).type for event in events]
    chunk = b"".join([sse.encode(kind, event.data) for kind, event in zip(kinds, events, strict=True)])
    return chunk, kinds[-1] in lifecycle.TERMINAL


def _encode_events(events: list[LoggedEvent], encoder: Encoder) -> tuple[bytes, bool]:
    read = [decode_event(event.data) for event in events]
    return encoder.encode(read), read[-1].is_terminal


def _end_of_deleted(gateway: Gateway, response: Response, after: int) -> list[AnyEvent]:
    """The log is no longer there, and yet there must be an end."""
    begun = msgspec.structs.replace(response, output=[])
    composer = Composer(begun, gateway.engine.clock, error_event=False)
    state = lifecycle.ABSENT if after == FROM_THE_START else lifecycle.IN_PROGRESS
    composer.resume(SentEvents(state, next_number=after + 1))
    return composer.fail(_DELETED)
