"""`POST /v1/responses/compact`."""

from antiphon.engine import compaction
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.streaming import answer_headers
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_compact_request


async def compact(gateway: Gateway, exchange: Exchange) -> None:
    request = await exchange.decoded(decode_compact_request, gateway.config.server.body_limit)
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
