"""What OpenAI's older APIs have beside a chat completion: completions that are stored, and embeddings."""

from functools import partial

from msgspec.structs import replace

from antiphon.bridges.chat_completions import (
    ChatCompletion,
    ChatCompletionBody,
    encode_completion,
    list_unrepresented,
)
from antiphon.bridges.chat_completions.door import CHAT_COMPLETIONS, EMBEDDINGS
from antiphon.bridges.chat_completions.embeddings import (
    EmbeddingBody,
    EmbeddingList,
    encode_embeddings,
    read_embedding,
)
from antiphon.engine.embeddings import embed
from antiphon.server.api.objects import DeletedCompletion
from antiphon.server.doors import door_endpoint
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.routes import stored_responses
from antiphon.server.streaming import answer_headers
from antiphon.spec.limits import LARGE
from antiphon.store import RUNNING
from antiphon.wires.worker_thread import in_worker_thread


async def retrieve(gateway: Gateway, exchange: Exchange) -> None:
    """Any stored response that has ended, told as a chat completion."""
    found = await stored_responses.find(gateway, exchange)
    if found.status in RUNNING:
        raise stored_responses.missing(found.id)
    await stored_responses.answer_as(exchange, found, encode_completion, list_unrepresented)


async def delete(gateway: Gateway, exchange: Exchange) -> DeletedCompletion:
    id = await stored_responses.delete_response(gateway, exchange)
    return DeletedCompletion(id=id)


async def create_embeddings(gateway: Gateway, exchange: Exchange) -> None:
    """Vectors of texts, from the providers that give them; a model of another provider is a 404."""
    asked = await exchange.decode_body(read_embedding, gateway.config.server.body_limit)
    exchange.context = replace(exchange.context, hint=asked.hint or exchange.context.hint)
    exchange.watch()
    run = exchange.new_run(gateway, "embeddings")
    found, turn = await embed(gateway.engine, asked.task, run)
    for name in asked.unknown:
        turn.receipt("embeddings", name, "this parameter is not part of the API")
    model = turn.target or run.model
    write = partial(encode_embeddings, found, model, is_packed=asked.is_packed)
    is_large = sum(map(len, found.vectors)) > LARGE
    body = await in_worker_thread(write) if is_large else write()
    await exchange.answer(body, headers=answer_headers(turn.receipts))


ENDPOINTS = (
    door_endpoint(
        CHAT_COMPLETIONS,
        "createChatCompletion",
        "Create a chat completion",
        "OpenAI's older API, for the clients that speak nothing else: any model answers it, with the same "
        "routes, limits and receipts. The `id` of an answer with `store: true` is that of a response, which "
        "can be continued. With `stream: true` the answer is a stream of chunks that ends with `[DONE]`.",
        body=ChatCompletionBody,
        answer=ChatCompletion,
        streams=True,
        stream="A chunk of the completion, or an error, after which nothing follows.",
    ),
    Endpoint(
        "GET /v1/chat/completions/{id}",
        retrieve,
        "getChatCompletion",
        "Retrieve a chat completion",
        answer=ChatCompletion,
        door=CHAT_COMPLETIONS,
    ),
    Endpoint(
        "DELETE /v1/chat/completions/{id}",
        delete,
        "deleteChatCompletion",
        "Delete a chat completion",
        door=CHAT_COMPLETIONS,
    ),
    Endpoint(
        "POST /v1/embeddings",
        create_embeddings,
        "createEmbeddings",
        "Create embeddings",
        body=EmbeddingBody,
        answer=EmbeddingList,
        door=EMBEDDINGS,
        asks_model=True,
    ),
)
