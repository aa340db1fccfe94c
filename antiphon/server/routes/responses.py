"""`POST /v1/responses` and `POST /v1/responses/input_tokens`."""

from antiphon.bridges.encoder import ServerSentEvents
from antiphon.server.api.objects import InputTokens
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.routes import background
from antiphon.server.streaming import answer_whole, stream_run
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import ErrorPayload, SpecError


async def create(gateway: Gateway, exchange: Exchange) -> None:
    request = await exchange.decoded(decode_request, gateway.config.server.body_limit)
    if request.background:
        await background.create(gateway, exchange, request)
        return
    exchange.watch()
    caller = exchange.caller
    run = await gateway.engine.start(request, caller)
    if request.stream:
        encoder = ServerSentEvents(caller.dialect.for_response(run.response))
        await stream_run(gateway, exchange, run, encoder)
        return
    await answer_whole(gateway, exchange, run)


async def input_tokens(gateway: Gateway, exchange: Exchange) -> None:
    request = await exchange.decoded(decode_request, gateway.config.server.body_limit)
    provider, turn = gateway.engine.target(request, exchange.caller)
    engine = gateway.engine
    resolved = await engine.resolve(request, exchange.caller)
    turn.is_large = resolved.is_large
    turn.items = await engine.embedded(provider, turn, await engine.shown(resolved, provider, turn))
    count = await provider.count_tokens(turn)
    if count is None:
        message = f"the provider {provider.name!r} cannot count tokens without answering"
        raise SpecError(ErrorPayload("invalid_request", message, code="unsupported", param="model"), 400)
    await exchange.answer(encode(InputTokens(input_tokens=count)))
