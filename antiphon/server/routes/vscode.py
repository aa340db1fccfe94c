"""`POST /api/vscode/chat`: a chat of VS Code's language model API, answered in lines of JSON."""

from msgspec.structs import replace

from antiphon.bridges.error_paths import at_its_place
from antiphon.bridges.vscode import VsCodeLines, VsCodeRequest, read_chat
from antiphon.providers.base import UpstreamError
from antiphon.server.endpoint import Endpoint
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


ENDPOINTS = (
    Endpoint(
        "POST /api/vscode/chat",
        chat,
        "chatWithVsCode",
        "Chat with an extension of VS Code",
        "Messages, parts and tools are those of VS Code's language model API. The answer is a stream of "
        "lines, each a JSON object: `start`, parts, and `finish`. An empty line keeps the connection alive.",
        body=VsCodeRequest,
        answer="application/x-ndjson",
        asks_model=True,
    ),
)
