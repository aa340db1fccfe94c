"""`POST /v1/responses`, the hot route, and the count of what a request would cost."""

from antiphon.bridges.encoder import ServerSentEvents
from antiphon.engine.run import SHUTDOWN
from antiphon.server import background
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.objects import InputTokens
from antiphon.server.streaming import stream_run
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.opaque import encode
from antiphon.spec.request import Request


async def create(gateway: Gateway, exchange: Exchange) -> None:
    limit = gateway.config.server.body_limit
    request = decode_request(await exchange.body(limit), max_bytes=limit)
    if request.background:
        await background.create(gateway, exchange, request)
    else:
        await exchange.watched(_foreground(gateway, exchange, request))


async def input_tokens(gateway: Gateway, exchange: Exchange) -> None:
    limit = gateway.config.server.body_limit
    request = decode_request(await exchange.body(limit), max_bytes=limit)
    provider, turn = gateway.engine.target(request, exchange.caller)
    engine = gateway.engine
    resolved = await engine.resolve(request, exchange.caller, engine.proofs(provider, turn))
    turn.items = await engine.embedded(provider, turn, resolved.items)
    count = await provider.count_tokens(turn)
    if count is None:
        message = f"the provider {provider.name!r} cannot count tokens without answering"
        raise SpecError(ErrorPayload("invalid_request", message, code="unsupported", param="model"), 400)
    await exchange.answer(encode(InputTokens(input_tokens=count)))


async def _foreground(gateway: Gateway, exchange: Exchange, request: Request) -> None:
    server = gateway.config.server
    run = await gateway.engine.start(request, exchange.caller)
    with gateway.running(run):
        if request.stream:
            await run.begin(server.created_after or None)
            encoder = ServerSentEvents(exchange.caller.dialect.for_response(run.response))
            await stream_run(gateway, exchange, run, encoder)
            return
        response = await run.result()
        if run.error is not None:
            await exchange.fail(run.error, 503 if run.error is SHUTDOWN else run.error.status)
        else:
            body = exchange.caller.dialect.encode_response(response, run.encoded)
            await exchange.answer(body)
            if server.audit:
                gateway.audits.answer(body, request.tools, exchange.caller)
