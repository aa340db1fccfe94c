"""`POST /v1/responses` and `POST /v1/responses/input_tokens`."""

from functools import partial

from msgspec.structs import replace

from antiphon.bridges.encoder import ServerSentEvents
from antiphon.engine.token_counts import count_tokens, turn_to_count
from antiphon.server.api.objects import InputTokens
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.idempotency import create_once
from antiphon.server.routes import background, stored_responses
from antiphon.server.streaming import answer_whole, stream_run
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.request import Request
from antiphon.store import StoredResponse


async def create(gateway: Gateway, exchange: Exchange) -> None:
    skipped: list[str] = []
    decode = (
        partial(decode_request, skipped=skipped) if exchange.context.dialect.is_lenient else decode_request
    )
    await create_once(
        gateway,
        exchange,
        decode,
        partial(_create, skipped=skipped),
        _repeat,
        waits=lambda request: request.background,
    )


async def _create(gateway: Gateway, exchange: Exchange, request: Request, *, skipped: list[str]) -> None:
    if skipped:
        exchange.context = replace(exchange.context, skipped=tuple(skipped))
    exchange.context.dialect.check_words(request)
    if request.background:
        await background.create(gateway, exchange, request)
        return
    exchange.watch()
    dialect = exchange.context.dialect
    run = await gateway.engine.start(
        request, exchange.new_run(gateway), told_in_stream=dialect.told_in_stream
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


async def input_tokens(gateway: Gateway, exchange: Exchange) -> None:
    request = await exchange.decoded(decode_request, gateway.config.server.body_limit)
    exchange.context.dialect.check_words(request)
    run = exchange.new_run(gateway, "input_tokens")
    turn = await turn_to_count(gateway.engine, request, run)
    count = await count_tokens(run, turn)
    if count is None:
        assert run.target is not None
        message = f"the provider {run.target.provider!r} cannot count tokens without answering"
        raise SpecError(ErrorPayload("invalid_request", message, code="unsupported", param="model"), 400)
    await exchange.answer(encode(InputTokens(input_tokens=count)))
