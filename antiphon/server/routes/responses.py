"""`POST /v1/responses` and `POST /v1/responses/input_tokens`."""

from functools import partial

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
    caller, decode = exchange.caller, decode_request
    if caller.dialect.is_lenient:
        decode = partial(decode_request, skipped=caller.skipped)
    await create_once(gateway, exchange, decode, _create, _repeat, waits=lambda request: request.background)


async def _create(gateway: Gateway, exchange: Exchange, request: Request) -> None:
    exchange.caller.dialect.check_words(request)
    if request.background:
        await background.create(gateway, exchange, request)
        return
    exchange.watch()
    caller = exchange.caller
    run = await gateway.engine.start(request, caller, told_in_stream=caller.dialect.told_in_stream)
    if request.stream:
        encoder = ServerSentEvents(caller.dialect.for_response(run.response))
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
        dialect = exchange.caller.dialect
        await stored_responses.stream_again(
            gateway, exchange, found, request, lambda whole: ServerSentEvents(dialect.for_response(whole))
        )


async def input_tokens(gateway: Gateway, exchange: Exchange) -> None:
    request = await exchange.decoded(decode_request, gateway.config.server.body_limit)
    exchange.caller.dialect.check_words(request)
    provider, turn = await turn_to_count(gateway.engine, request, exchange.caller)
    count = await count_tokens(gateway.engine, provider, turn)
    if count is None:
        message = f"the provider {provider.name!r} cannot count tokens without answering"
        raise SpecError(ErrorPayload("invalid_request", message, code="unsupported", param="model"), 400)
    await exchange.answer(encode(InputTokens(input_tokens=count)))
