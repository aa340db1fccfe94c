"""What makes responses: `POST /v1/responses`, and the token count and the compaction below it."""

from collections.abc import Awaitable, Sequence
from functools import partial
from operator import attrgetter

from msgspec.structs import replace

from antiphon.bridges.encoder import ServerSentEvents
from antiphon.engine import compaction
from antiphon.engine.token_counts import count_tokens, turn_to_count
from antiphon.server.api.body_schemas import ASKS
from antiphon.server.api.objects import InputTokens
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.idempotency import create_once
from antiphon.server.routes import background, stored_responses
from antiphon.server.streaming import answer_headers, answer_whole, stream_run
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_compact_request, decode_request
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.response import CompactResource, Response
from antiphon.store import StoredResponse

_is_background = attrgetter("background")


def create(gateway: Gateway, exchange: Exchange) -> Awaitable[None]:
    """With `stream: true` the answer is a stream of server-sent events that ends with `[DONE]`. With
    `background: true` it comes at once, as `queued`, and the work goes on without the caller. The same
    path takes a WebSocket, on which every message of type `response.create` is one turn.
    """
    if not exchange.context.dialect.is_lenient:
        return create_once(gateway, exchange, decode_request, _create, _repeat, waits=_is_background)
    skipped: list[str] = []
    decode, create = partial(decode_request, skipped=skipped), partial(_create, skipped=skipped)
    return create_once(gateway, exchange, decode, create, _repeat, waits=_is_background)


async def _create(
    gateway: Gateway, exchange: Exchange, request: Request, *, skipped: Sequence[str] = ()
) -> None:
    if skipped:
        exchange.context = replace(exchange.context, skipped=tuple(skipped))
    dialect = exchange.context.dialect
    dialect.check_words(request)
    if request.background:
        await background.create(gateway, exchange, request)
        return
    exchange.watch()
    run = await gateway.engine.start(
        request, exchange.new_run(gateway), stream_error_codes=dialect.stream_error_codes
    )
    if request.stream:
        encoder = ServerSentEvents(dialect.for_response(run.response))
        await stream_run(gateway, exchange, run, encoder)
        return
    await answer_whole(gateway, exchange, run)


async def _repeat(gateway: Gateway, exchange: Exchange, request: Request, found: StoredResponse) -> None:
    """The response that this request has made: its log, its stream composed anew, or its JSON."""
    if not request.stream:
        await stored_responses.answer(gateway, exchange, found)
    elif found.background:
        await stored_responses.follow(gateway, exchange, found)
    else:
        exchange.watch()
        dialect = exchange.context.dialect
        await stored_responses.stream_again(
            gateway, exchange, found, request, lambda whole: ServerSentEvents(dialect.for_response(whole))
        )


async def input_tokens(gateway: Gateway, exchange: Exchange) -> InputTokens:
    """Nothing is generated. A provider that cannot count exactly is a 400."""
    request = await exchange.decode_body(decode_request, gateway.config.server.body_limit)
    exchange.context.dialect.check_words(request)
    run = exchange.new_run(gateway, "input_tokens")
    turn = await turn_to_count(gateway.engine, request, run)
    count = await count_tokens(run, turn)
    if count is None:
        assert run.target is not None
        message = f"the provider {run.target.provider!r} cannot count tokens without answering"
        raise SpecError(ErrorPayload("invalid_request", message, code="unsupported", param="model"), 400)
    return InputTokens(input_tokens=count)


async def compact(gateway: Gateway, exchange: Exchange) -> None:
    """The model summarises the conversation. The summary comes back sealed in a `compaction` item,
    which only this gateway can open, and takes the place of what it sums up.
    """
    request = await exchange.decode_body(decode_compact_request, gateway.config.server.body_limit)
    exchange.watch()
    run = await compaction.start(gateway.engine, request, exchange.new_run(gateway, "compaction"))
    gateway.begin(run)
    try:
        resource = await compaction.finish(gateway.engine, run)
        resource.usage = exchange.context.dialect.usage(resource.usage)
        body = encode(resource)
        await exchange.answer(body, headers=answer_headers(run.turn.receipts))
        gateway.audits.answer(body, (), exchange.context)
    finally:
        gateway.end(run)


ENDPOINTS = (
    Endpoint(
        "POST /v1/responses",
        create,
        "createResponse",
        "Create a response",
        body=Request,
        narrows=ASKS,
        answer=Response,
        streams=True,
        idempotent=True,
        asks_model=True,
    ),
    Endpoint(
        "POST /v1/responses/compact",
        compact,
        "compact",
        "Compact a conversation",
        body=CompactRequest,
        answer=CompactResource,
        receipts=True,
        errors=(404, 502),
    ),
    Endpoint(
        "POST /v1/responses/input_tokens",
        input_tokens,
        "countInputTokens",
        "Count input tokens",
        body=Request,
        errors=(404,),
    ),
)
