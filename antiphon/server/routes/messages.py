"""`POST /v1/messages` and `POST /v1/messages/count_tokens`: the Messages API, for any model."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from antiphon.bridges.encoder import Headers
from antiphon.bridges.error_paths import with_their_param
from antiphon.bridges.finish_reasons import is_cancelled
from antiphon.bridges.messages.body import MessagesBody
from antiphon.bridges.messages.errors import MessagesErrorBody, request_id_header
from antiphon.bridges.messages.message import untold, whole
from antiphon.bridges.messages.request import ReadMessages, read_counted, read_messages
from antiphon.bridges.messages.searches import SEARCH
from antiphon.bridges.messages.stream import MessageStream
from antiphon.bridges.messages.threads import thread_not_found
from antiphon.engine import token_counts
from antiphon.engine.capabilities import estimated_tokens
from antiphon.engine.token_counts import turn_to_count
from antiphon.providers.base import Turn, UpstreamError
from antiphon.server.api.messages import MessageEvent, MessageObject, MessageTokens
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.idempotency import create_once
from antiphon.server.routes import stored_responses
from antiphon.server.streaming import answer_whole, stream_run
from antiphon.spec.codec import encode
from antiphon.spec.content import InputFile, InputImage
from antiphon.spec.decode import decode_response
from antiphon.spec.errors import SpecError
from antiphon.spec.items import parts_of
from antiphon.spec.limits import LARGE
from antiphon.spec.response import Response
from antiphon.store import RUNNING, StoredResponse
from antiphon.stream.deltas import Finish
from antiphon.stream.dialects import Dialect
from antiphon.wires.messages.vendor import VENDOR
from antiphon.wires.worker_thread import in_worker_thread

# What a message can hold beside the core of the specification; the rest leaves a receipt.
_MESSAGES = Dialect("messages", vocabulary=frozenset({VENDOR, "custom_tool_call", SEARCH}))
# What is said of a response that a request cannot follow.
_NOT_THERE = frozenset({"previous_response_not_found", "previous_response_not_finished"})
_NEVER_ENDED = RUNNING | {"failed", "cancelled"}
_OF_A_PICTURE = 1_600
"""How many tokens a picture or a file is taken for where nobody counts them."""


async def create(gateway: Gateway, exchange: Exchange) -> None:
    await create_once(gateway, exchange, _reader(exchange, read_messages), _create, _repeat)


async def _create(gateway: Gateway, exchange: Exchange, asked: ReadMessages) -> None:
    exchange.watch()
    try:
        asked = await _followed(gateway, exchange, asked)
        run = await gateway.engine.start(asked.request, exchange.new_run(gateway, dialect=_MESSAGES))
        if asked.request.stream:
            await stream_run(gateway, exchange, run, _encoder(exchange, asked, lambda: run.composer.ending))
        else:
            told = _told(asked, lambda: run.composer.ending)
            await answer_whole(gateway, exchange, run, _headers(exchange), told, untold)
    except (SpecError, UpstreamError) as error:
        if error.payload.code in _NOT_THERE:
            raise thread_not_found() from None
        error.payload = with_their_param(error.payload, asked.param)
        raise


async def _followed(gateway: Gateway, exchange: Exchange, asked: ReadMessages) -> ReadMessages:
    """The request with the tools of the thread that it goes on with; refused if that cannot be continued."""
    if (id := asked.request.previous_response_id) is None:
        return asked
    found = await gateway.store.get(exchange.context.tenant, id)
    if found is None or found.status in _NEVER_ENDED:
        raise thread_not_found()
    is_large = len(found.body) > LARGE
    held = await in_worker_thread(decode_response, found.body) if is_large else decode_response(found.body)
    if is_cancelled(held):
        raise thread_not_found()
    return asked.following(held.tools)


async def _repeat(gateway: Gateway, exchange: Exchange, asked: ReadMessages, found: StoredResponse) -> None:
    """The message that this request has made."""
    exchange.context = replace(exchange.context, dialect=_MESSAGES)
    if asked.request.stream:
        exchange.watch()
        await stored_responses.stream_again(
            gateway, exchange, found, asked.request, lambda _: _encoder(exchange, asked, lambda: None)
        )
        return
    told = _told(asked, lambda: None)
    await stored_responses.answer_as(exchange, found, told, untold, _headers(exchange))


def _encoder(exchange: Exchange, asked: ReadMessages, ending: Callable[[], Finish | None]) -> MessageStream:
    return MessageStream(
        ending, omits_thinking=asked.omits_thinking, request_id=exchange.request_id, named=asked.param
    )


async def count_tokens(gateway: Gateway, exchange: Exchange) -> None:
    """Nothing is generated. Where the provider cannot count, the number is an estimate: a token for
    four characters, and 1,600 for each picture or file.
    """
    asked = await exchange.decoded(_reader(exchange, read_counted), gateway.config.server.body_limit)
    try:
        run = exchange.new_run(gateway, "input_tokens", _MESSAGES)
        turn = await turn_to_count(gateway.engine, asked.request, run)
        try:
            count = await token_counts.count_tokens(run, turn)
        except UpstreamError:
            count = None
    except SpecError as error:
        error.payload = with_their_param(error.payload, asked.param)
        raise
    await exchange.answer(encode(MessageTokens(input_tokens=_estimate(turn) if count is None else count)))


def _reader(exchange: Exchange, read: Callable[..., ReadMessages]) -> Callable[..., ReadMessages]:
    return partial(read, betas=exchange.header(b"anthropic-beta") or "")


def _told(asked: ReadMessages, ending: Callable[[], Finish | None]) -> Callable[[Response], bytes]:
    def told(response: Response) -> bytes:
        return whole(response, ending(), omits_thinking=asked.omits_thinking, named=asked.param)

    return told


def _headers(exchange: Exchange) -> Headers:
    return (request_id_header(exchange.request_id),)


def _estimate(turn: Turn) -> int:
    parts = [part for item in turn.items for part in parts_of(item)[1]]
    pictures = sum(isinstance(part, InputImage | InputFile) for part in parts)
    return estimated_tokens(turn) + _OF_A_PICTURE * pictures


ENDPOINTS = (
    Endpoint(
        "POST /v1/messages",
        create,
        "createMessage",
        "Create a message",
        "The body and the answer are those of the Messages API, plain or streamed. The run is stored: with "
        "`resp_` in the place of `msg_` the message's id is that of a response, which `POST /v1/responses` "
        "can continue, and `thread` continues it here. Fields and betas that are not known are carried to "
        "providers of the same API.",
        body=MessagesBody,
        answer=MessageObject,
        streams=True,
        stream=MessageEvent,
        error=MessagesErrorBody,
        idempotent=True,
        asks_model=True,
        errors=(402, 529),
    ),
    Endpoint(
        "POST /v1/messages/count_tokens",
        count_tokens,
        "countMessageTokens",
        "Count the tokens of a message",
        body=MessagesBody,
        answer=MessageTokens,
        error=MessagesErrorBody,
        errors=(
            404,
            502,
            504,
        ),
    ),
)
