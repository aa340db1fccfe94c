"""Stored responses: retrieve, resume as a stream, cancel, delete, list input items, and audit."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from antiphon.bridges.encoder import Encoder, Headers
from antiphon.engine import obfuscation
from antiphon.engine.request_context import RequestContext
from antiphon.server.api.objects import BrokenRule, DeletedResponse, ItemList, ResponseAudit
from antiphon.server.endpoint import LIMIT, ORDER, Endpoint, Query, after
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.paging import Paging, make_item_list, unknown_cursor
from antiphon.server.routes.background import FROM_THE_START, stream_log
from antiphon.server.streaming import Stream, answer_headers
from antiphon.spec.codec import Opaque
from antiphon.spec.decode import decode_response, decode_stored_items
from antiphon.spec.error_paths import describe, wrong
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_request
from antiphon.spec.items import Item, type_of
from antiphon.spec.limits import LARGE
from antiphon.spec.long_json import encode_long
from antiphon.spec.request import Request
from antiphon.spec.response import Receipt, Response
from antiphon.store import RUNNING, LoggedEvent, StoredResponse
from antiphon.store.base import Context, array
from antiphon.stream.auditor import Auditor
from antiphon.stream.dialects import OPEN_RESPONSES, of_log, solicited
from antiphon.stream.replaying import recompose
from antiphon.wires.worker_thread import in_worker_thread

_SLICE = 500
"""How many events are audited before others have their turn."""


_SWITCHES = {"true": True, "1": True, "false": False, "0": False}


class _ItemId(Struct):
    id: str = ""


async def retrieve(gateway: Gateway, exchange: Exchange) -> None:
    """With `stream=true`, the events of a background response: those logged so far, then those still to
    come, spelled as for the caller who created it. It does not matter which connection or which worker
    has sent the earlier ones.
    """
    found = await find(gateway, exchange)
    start = _starting_after(exchange)
    if not _streams(exchange.query("stream")):
        await answer(gateway, exchange, found)
        return
    if not found.background:
        message = "only a background response keeps its events; read this one without `stream`"
        raise wrong("stream", message, "not_background")
    await follow(gateway, exchange, found, start)


def _streams(asked: str | None) -> bool:
    if asked is not None and asked.lower() not in _SWITCHES:
        raise wrong("stream", f"expected true or false, got {describe(asked)}")
    return asked is not None and _SWITCHES[asked.lower()]


async def follow(
    gateway: Gateway, exchange: Exchange, found: StoredResponse, after: int = FROM_THE_START
) -> None:
    """The events of a background response, as they were written for the client that created it."""
    exchange.context = replace(exchange.context, dialect=of_log(found.dialect))
    exchange.watch()
    await stream_log(gateway, exchange, decode_response(found.body), after)


async def delete(gateway: Gateway, exchange: Exchange) -> DeletedResponse:
    """A background response that still runs is cancelled first. Responses that continue this one keep
    their context.
    """
    return DeletedResponse(id=await delete_response(gateway, exchange))


async def delete_response(gateway: Gateway, exchange: Exchange) -> str:
    """Delete the response, after cancelling it if it still runs, and give its id."""
    found = await find(gateway, exchange)
    if found.status in RUNNING:
        await gateway.background.cancel_for_deletion(exchange.context.tenant, found.id)
    if not await gateway.store.delete(exchange.context.tenant, found.id):
        raise missing(found.id)
    return found.id


async def cancel(gateway: Gateway, exchange: Exchange) -> None:
    """Only one that runs in the background. It ends as `incomplete`, reason `cancelled`, with the
    output so far. One that has ended stays as it is.
    """
    found: StoredResponse | None = await find(gateway, exchange)
    assert found is not None
    if not found.background:
        error = invalid_request("only a background response can be cancelled; close the connection of others")
        raise SpecError(error.with_code("not_background"))
    if found.status in RUNNING:
        found = await gateway.background.cancel(exchange.context.tenant, found.id)
    if found is None:
        raise missing(exchange.params["id"])
    await answer(gateway, exchange, found)


async def input_items(gateway: Gateway, exchange: Exchange) -> None:
    """All items that the model was given, the earlier turns of its chain included."""
    paging, id = Paging.of(exchange), exchange.params["id"]
    context = await gateway.store.context(exchange.context.tenant, id)
    if context is None:
        raise missing(id)
    is_large = context.size > LARGE
    found = await in_worker_thread(_page, context, paging) if is_large else _page(context, paging)
    await exchange.answer(found)


async def audit(gateway: Gateway, exchange: Exchange) -> ResponseAudit:
    """Holds the logged events of a background response to the rules of the protocol, whether or not
    `[server] audit` has chosen it. While it runs, the events so far are judged.
    """
    found, tenant = await find(gateway, exchange), exchange.context.tenant
    if not found.background:
        error = invalid_request("only a background response keeps its events, and they are what is audited")
        raise SpecError(error.with_code("not_background"))
    if of_log(found.dialect) is not OPEN_RESPONSES:
        message = f"the events are in the dialect {found.dialect!r}, which departs from the rules on purpose"
        raise SpecError(invalid_request(message).with_code("other_dialect"))
    asked = solicited(decode_response(found.body).tools)
    auditor = Auditor(extensions=True, solicited=asked)
    count, after = 0, FROM_THE_START
    while events := await gateway.store.events_after(tenant, found.id, after, _SLICE):
        count, after = count + len(events), events[-1].sequence
        await in_worker_thread(_feed, auditor, events)
    if events is None:
        raise missing(found.id)
    broken = auditor.violations if found.status in RUNNING else auditor.finish()
    return ResponseAudit(
        response_id=found.id,
        status=found.status,
        events=count,
        violations=[
            BrokenRule(
                rule=one.rule, level=one.level, event=one.position, type=one.event_type, message=one.message
            )
            for one in broken
        ],
    )


def _feed(auditor: Auditor, events: Sequence[LoggedEvent]) -> None:
    for event in events:
        auditor.feed(msgspec.json.decode(event.data))


def _page(context: Context, paging: Paging) -> bytes:
    given = msgspec.json.decode(context.input_json(), type=list[Raw])
    if paging.newest_first:
        given.reverse()
    start = 0
    if paging.after is not None:
        ids = [msgspec.json.decode(raw, type=_ItemId).id for raw in given]
        if paging.after not in ids:
            raise unknown_cursor(paging.after)
        start = ids.index(paging.after) + 1
    items = decode_stored_items(array(map(bytes, given[start : start + paging.limit])))
    return encode_long(make_item_list(items, more=start + paging.limit < len(given)))


async def find(gateway: Gateway, exchange: Exchange) -> StoredResponse:
    """The response that the path names, if it is the caller's."""
    id = exchange.params["id"]
    found = await gateway.store.get(exchange.context.tenant, id)
    if found is None:
        raise missing(id)
    return found


def missing(id: str) -> SpecError:
    message = f"the response {id[:100]!r} does not exist"
    return SpecError(ErrorPayload("not_found", message, code="response_not_found"))


def _starting_after(exchange: Exchange) -> int:
    text = exchange.query("starting_after")
    if text is None:
        return FROM_THE_START
    if not (text.isdecimal() and text.isascii() and len(text) < 16):
        message = f"expected the sequence_number of an event, got {text[:60]!r}"
        raise wrong("starting_after", message)
    return int(text)


async def answer(gateway: Gateway, exchange: Exchange, found: StoredResponse) -> None:
    """The stored body, written for the client that asks now."""
    response, receipts = _adapt_response(found, exchange.context)
    body = exchange.context.dialect.encode_response(response)
    await exchange.answer(body, headers=answer_headers(receipts))
    gateway.audits.answer(body, response.tools, exchange.context)


async def answer_as(
    exchange: Exchange,
    found: StoredResponse,
    write: Callable[[Response], bytes],
    list_unrepresented: Callable[[Response], list[Receipt]],
    headers: Headers = (),
) -> None:
    """Answer with what `write` makes of a stored response for another API.

    `list_unrepresented` gives receipts for what that API has no place for.
    """
    response = decode_response(found.body)
    counted = answer_headers([*(response.receipts or ()), *list_unrepresented(response)])
    await exchange.answer(write(response), headers=(*headers, *counted))


def _adapt_response(found: StoredResponse, caller: RequestContext) -> tuple[Response, Sequence[Receipt]]:
    """A stored response with what this caller wants to see of it, and all of its receipts."""
    response = decode_response(found.body)
    receipts = response.receipts or ()
    if not caller.receipts:
        response.receipts = UNSET
    if caller.dialect.slug is None:
        response.receipt_count = UNSET
    asked = solicited(response.tools)
    response.output = [
        shown for item in response.output if (shown := _adapt_item(item, caller, asked)) is not None
    ]
    return response, receipts


async def stream_again(
    gateway: Gateway,
    exchange: Exchange,
    found: StoredResponse,
    request: Request,
    encoder: Callable[[Response], Encoder],
) -> None:
    """The stream of a stored response that is over, composed anew for the request that made it."""
    response, receipts = _adapt_response(found, exchange.context)
    events = recompose(response, first_sequence_number=exchange.context.dialect.first_sequence_number)
    if request.stream_options is not None and obfuscation.is_wanted(request):
        obfuscation.obfuscate(events)
    stream = Stream(gateway, exchange, encoder(response), response.tools, receipts)
    stream.open()
    try:
        if not stream.put(events[:-1]):
            await stream.ready()
        await stream.close(events[-1:])
    finally:
        stream.stop()


def _adapt_item(item: Item, caller: RequestContext, asked: frozenset[str]) -> Item | None:
    kind = caller.dialect.shows(type_of(item), asked)
    if kind is None:
        return None
    return item.replace(type=kind) if isinstance(item, Opaque) and item.type != kind else item


_RESUMING = (
    Query("stream", "Send the events instead of the response.", {"type": "boolean", "default": False}),
    Query(
        "starting_after",
        "With `stream`: only events with a `sequence_number` above this one.",
        {"type": "integer", "minimum": 0},
    ),
)
ENDPOINTS = (
    Endpoint(
        "GET /v1/responses/{id}",
        retrieve,
        "getResponse",
        "Retrieve a response, or resume its stream",
        answer=Response,
        query=_RESUMING,
        streams=True,
    ),
    Endpoint("DELETE /v1/responses/{id}", delete, "deleteResponse", "Delete a response"),
    Endpoint(
        "POST /v1/responses/{id}/cancel", cancel, "cancelResponse", "Cancel a response", answer=Response
    ),
    Endpoint(
        "GET /v1/responses/{id}/input_items",
        input_items,
        "listInputItems",
        "List input items",
        answer=ItemList,
        query=(after("item"), LIMIT, ORDER),
    ),
    Endpoint("GET /v1/antiphon/audit/{id}", audit, "auditResponse", "Get the verdict on a response"),
)
