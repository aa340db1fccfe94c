"""`POST /api/vscode/chat`: a chat of VS Code's language model API, answered in lines of JSON."""

from msgspec.structs import replace

from antiphon.bridges.error_paths import at_its_place
from antiphon.bridges.vscode import VsCodeLines, read_chat
from antiphon.providers.base import UpstreamError
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.streaming import stream_run
from antiphon.spec.errors import SpecError


async def chat(gateway: Gateway, exchange: Exchange) -> None:
    asked = await exchange.decoded(read_chat, gateway.config.server.body_limit)
    exchange.context = replace(exchange.context, pairing=asked.pairing)
    exchange.watch()
    try:
        run = await gateway.engine.start(asked.request, exchange.new_run(gateway), counts_receipts=True)
        for receipt in asked.receipts:
            run.turn.receipt(receipt.provider, receipt.param, receipt.reason, receipt.action)
        await stream_run(gateway, exchange, run, VsCodeLines(asked.session, asked.marker))
    except (SpecError, UpstreamError) as error:
        error.payload = at_its_place(error.payload, asked.places, "callId")
        raise
