"""`/api/v1/chat`: a run for the front ends of the Vercel AI SDK, and for plain chat clients."""

from msgspec.structs import replace

from antiphon.bridges.ai_sdk import chats
from antiphon.bridges.ai_sdk.data_stream import DataStream
from antiphon.bridges.ai_sdk.request import ChatBody, ChatRequest, decode_chat
from antiphon.bridges.ai_sdk.ui_stream import UIStream
from antiphon.bridges.encoder import Encoder, Headers, ServerSentEvents
from antiphon.bridges.error_paths import place_of
from antiphon.engine.run_state import RunState
from antiphon.providers.base import UpstreamError
from antiphon.server.api.objects import Health
from antiphon.server.chat_protocol import DATA_V1, OPEN_RESPONSES, UI
from antiphon.server.endpoint import Endpoint, Query
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.routes import info
from antiphon.server.routes.background import FROM_THE_START, stream_log
from antiphon.server.streaming import answer_headers, answer_whole, stream_run
from antiphon.spec.decode import decode_response
from antiphon.spec.error_paths import wrong
from antiphon.spec.errors import SpecError
from antiphon.spec.response import Response
from antiphon.stream.dialects import VERTICE, Dialect

_PROTOCOLS = {name: name for name in (UI, DATA_V1, OPEN_RESPONSES)} | {
    "open_responses": OPEN_RESPONSES,
    "vercel": DATA_V1,
}
# A chat shows all that there is; its encoder decides how.
_SHOWS_ALL = Dialect("chat", slug="antiphon")


class _OpenResponses(ServerSentEvents):
    """The specification's stream, with the headers of a chat; for clients of Vértice, with theirs."""

    def __init__(self, gateway: Gateway, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.headers: Headers = [
            (b"cache-control", b"no-cache, no-store, must-revalidate"),
            (b"connection", b"keep-alive"),
            (b"x-antiphon-protocol", b"open-responses"),
        ]
        if dialect.name == VERTICE.name or gateway.chat.has_vertice_headers:
            self.content_type = b"text/event-stream"
            self.headers = [*self.headers, (b"x-vertice-protocol", b"open-responses")]


async def create(gateway: Gateway, exchange: Exchange) -> None:
    protocol = _protocol(gateway, exchange)
    asked = await exchange.decode_body(decode_chat, gateway.config.server.body_limit)
    asked.request.stream = asked.stream
    await _answer(gateway, exchange, protocol, asked)


async def resume(gateway: Gateway, exchange: Exchange) -> None:
    """The answer that a chat with `resumable: true` waits for, from its start; 204 when there is none."""
    protocol = _protocol(gateway, exchange)
    if not await _resume_answer(gateway, exchange, protocol, exchange.params["id"]):
        await exchange.empty()


async def resume_v1(gateway: Gateway, exchange: Exchange) -> None:
    """Without a running answer the stream is empty."""
    name = exchange.query("chatId")
    if not name:
        raise wrong("chatId", "`chatId` is missing; send a POST to begin a chat", "missing_field")
    protocol = _protocol(gateway, exchange, default=DATA_V1)
    if not await _resume_answer(gateway, exchange, protocol, name):
        stream = DataStream()
        exchange.open_stream(stream.content_type, stream.headers)
        await exchange.finish()


async def _answer(gateway: Gateway, exchange: Exchange, protocol: str, asked: ChatRequest) -> None:
    context = exchange.context
    run = exchange.new_run(
        gateway, context=context if protocol == OPEN_RESPONSES else replace(context, dialect=_SHOWS_ALL)
    )
    step = await chats.prepare(gateway.engine, run, asked)
    places = [one.place for one in step.said]
    exchange.param = lambda ours: place_of(ours, places, "toolCallId") or ours
    try:
        if asked.resumable:
            await _resumable(gateway, exchange, protocol, asked, run)
        else:
            await _foreground(gateway, exchange, protocol, asked, run)
    except (SpecError, UpstreamError):
        await chats.restore(gateway.engine, run.tenant, step)
        raise


async def _foreground(
    gateway: Gateway, exchange: Exchange, protocol: str, asked: ChatRequest, state: RunState
) -> None:
    exchange.watch()
    run, dialect = await gateway.engine.start(asked.request, state), state.context.dialect
    if asked.stream:
        encoder = _encoder(gateway, protocol, dialect.for_response(run.response), asked.continues)
        await stream_run(gateway, exchange, run, encoder)
        return
    headers = _OpenResponses(gateway, dialect).headers if protocol == OPEN_RESPONSES else ()
    await answer_whole(gateway, exchange, run, headers)


async def _resumable(
    gateway: Gateway, exchange: Exchange, protocol: str, asked: ChatRequest, state: RunState
) -> None:
    if asked.chat is None:
        raise wrong("id", "a chat that can be resumed needs an `id`", "missing_field")
    asked.request.background = True
    job = await gateway.background.start(asked.request, state)
    if not asked.stream:
        body = exchange.context.dialect.encode_response(job.created)
        await exchange.answer(body, headers=answer_headers(job.receipts))
        return
    exchange.watch()
    encoder = _encoder(gateway, protocol, state.context.dialect, asked.continues)
    await stream_log(gateway, exchange, job.created, FROM_THE_START, encoder=encoder, receipts=job.receipts)


async def _resume_answer(gateway: Gateway, exchange: Exchange, protocol: str, name: str) -> bool:
    found = await chats.running(gateway.engine, exchange.context.tenant, name)
    if found is None:
        return False
    response, continues = found
    # Only the client knows which message an answer to a tool goes on with.
    encoder = _encoder(gateway, protocol, exchange.context.dialect, "" if continues else None)
    body = decode_response(response.body)
    exchange.watch()
    await stream_log(gateway, exchange, body, FROM_THE_START, encoder=encoder)
    return True


def _protocol(gateway: Gateway, exchange: Exchange, default: str | None = None) -> str:
    """As the query says, else the header, else `default`, else what the gateway has read at its start."""
    for where, name in (
        ("protocol", exchange.query("protocol")),
        ("X-Antiphon-Protocol", exchange.header(b"x-antiphon-protocol")),
    ):
        if name is not None:
            if name not in _PROTOCOLS:
                known = ", ".join((UI, DATA_V1, OPEN_RESPONSES))
                raise wrong(where, f"there is no protocol {name[:60]!r}; choose one of {known}")
            return _PROTOCOLS[name]
    return default or gateway.chat.protocol


def _encoder(gateway: Gateway, protocol: str, dialect: Dialect, message_id: str | None) -> Encoder:
    if protocol == UI:
        return UIStream(message_id)
    return DataStream() if protocol == DATA_V1 else _OpenResponses(gateway, dialect)


_PROTOCOL = Query(
    "protocol",
    "The stream: of AI SDK 5 to 7, of AI SDK 4, or of the specification. The header "
    "`X-Antiphon-Protocol` has the same effect.",
    {"enum": [UI, DATA_V1, OPEN_RESPONSES]},
)
_UI_PARTS = "A part of a UI message stream, or an event of the specification, as `protocol` says."
ENDPOINTS = (
    Endpoint(
        "POST /api/v1/chat",
        create,
        "chatWithAiSdk",
        "Chat with a front end of the Vercel AI SDK",
        "Takes what `useChat` of versions 4 to 7 sends, or plain messages, with any parameter of a response "
        "beside them. The answer is a stream in the protocol that is asked for (plain text in that of AI SDK "
        "4), and with `stream: false` a response. The chat is kept under its `id`; with `session_id`, or a "
        "single `message`, it continues from the store.",
        body=ChatBody,
        answer=Response,
        also=("text/plain",),
        streams=True,
        stream=_UI_PARTS,
        query=(_PROTOCOL,),
        asks_model=True,
    ),
    Endpoint(
        "GET /api/v1/chat",
        resume_v1,
        "resumeChatV1",
        "Resume a stream of AI SDK 4",
        answer="text/plain",
        query=(Query("chatId", "The `id` of the chat.", {"type": "string", "minLength": 1}, True), _PROTOCOL),
    ),
    Endpoint(
        "GET /api/v1/chat/{id}/stream",
        resume,
        "resumeChat",
        "Resume a stream",
        answer="text/plain",
        streams=True,
        stream=_UI_PARTS,
        empty="The chat waits for no answer",
        query=(_PROTOCOL,),
    ),
    Endpoint(
        "GET /api/v1/chat/health",
        info.healthz,
        "chatHealth",
        "Check that the chat route is up",
        answer=Health,
        open=True,
    ),
)
