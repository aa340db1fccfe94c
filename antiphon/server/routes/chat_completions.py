"""`/v1/chat/completions`: a run for clients of OpenAI's chat completions; a stored one can be read again."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from antiphon.bridges.chat_completions import (
    ChatCompletion,
    ChatCompletionBody,
    ChatCompletionChunks,
    ReadCompletion,
    encode_completion,
    read_completion,
    untold,
)
from antiphon.bridges.error_paths import with_their_param
from antiphon.providers.base import UpstreamError
from antiphon.server.api.objects import DeletedCompletion
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.idempotency import create_once
from antiphon.server.routes import stored_responses
from antiphon.server.streaming import answer_whole, stream_run
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.errors import SpecError
from antiphon.spec.response import Response
from antiphon.store import RUNNING, StoredResponse
from antiphon.stream.dialects import OPENAI

_SEARCH = Opaque.make(type="web_search")


async def create(gateway: Gateway, exchange: Exchange) -> None:
    read = partial(read_completion, searches=gateway.engine.hosted.runs(_SEARCH))
    await create_once(gateway, exchange, read, _create, _repeat)


async def _create(gateway: Gateway, exchange: Exchange, asked: ReadCompletion) -> None:
    exchange.watch()
    try:
        await _answer(gateway, exchange, asked)
    except (SpecError, UpstreamError) as error:
        error.payload = with_their_param(error.payload, asked.param)
        raise


async def _answer(gateway: Gateway, exchange: Exchange, asked: ReadCompletion) -> None:
    request = asked.request
    exchange.context = replace(exchange.context, dialect=OPENAI)
    run = await gateway.engine.start(request, exchange.new_run(gateway))
    for receipt in asked.receipts:
        run.turn.receipt(receipt.provider, receipt.param, receipt.reason, receipt.action)
    if request.stream:
        await stream_run(gateway, exchange, run, _encoder(asked))
        return
    await answer_whole(gateway, exchange, run, told=_told(asked), untold=untold)


async def _repeat(gateway: Gateway, exchange: Exchange, asked: ReadCompletion, found: StoredResponse) -> None:
    """The completion that this request has made."""
    exchange.context = replace(exchange.context, dialect=OPENAI)
    if asked.request.stream:
        exchange.watch()
        await stored_responses.stream_again(
            gateway, exchange, found, asked.request, lambda _: _encoder(asked)
        )
        return
    await stored_responses.answer_as(exchange, found, _told(asked), untold)


def _told(asked: ReadCompletion) -> Callable[[Response], bytes]:
    return partial(encode_completion, is_older=asked.is_older, named=asked.param)


def _encoder(asked: ReadCompletion) -> ChatCompletionChunks:
    request = asked.request
    has_more = bool(request.include or request.top_logprobs or request.stream_options)
    return ChatCompletionChunks(
        asked.param, has_usage=asked.has_usage, is_older=asked.is_older, has_more=has_more
    )


async def retrieve(gateway: Gateway, exchange: Exchange) -> None:
    """Any stored response that has ended, told as a chat completion."""
    exchange.context = replace(exchange.context, dialect=OPENAI)
    found = await stored_responses.find(gateway, exchange)
    if found.status in RUNNING:
        raise stored_responses.missing(found.id)
    await stored_responses.answer_as(exchange, found, encode_completion, untold)


async def delete(gateway: Gateway, exchange: Exchange) -> None:
    exchange.context = replace(exchange.context, dialect=OPENAI)
    id = await stored_responses.deleted(gateway, exchange)
    await exchange.answer(encode(DeletedCompletion(id=id)))


ENDPOINTS = (
    Endpoint(
        "POST /v1/chat/completions",
        create,
        "createChatCompletion",
        "Create a chat completion",
        "OpenAI's older API, for the clients that speak nothing else: any model answers it, with the same "
        "routes, limits and receipts. The `id` of an answer with `store: true` is that of a response, which "
        "can be continued. With `stream: true` the answer is a stream of chunks that ends with `[DONE]`.",
        body=ChatCompletionBody,
        answer=ChatCompletion,
        streams=True,
        stream="A chunk of the completion, or an error, after which nothing follows.",
        idempotent=True,
        asks_model=True,
    ),
    Endpoint(
        "GET /v1/chat/completions/{id}",
        retrieve,
        "getChatCompletion",
        "Retrieve a chat completion",
        answer=ChatCompletion,
    ),
    Endpoint(
        "DELETE /v1/chat/completions/{id}",
        delete,
        "deleteChatCompletion",
        "Delete a chat completion",
        answer=DeletedCompletion,
    ),
)
