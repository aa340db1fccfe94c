"""`POST /v1/embeddings`: vectors of texts, from the providers that give them."""

from functools import partial

from msgspec.structs import replace

from antiphon.bridges.chat_completions.embeddings import (
    EmbeddingBody,
    EmbeddingList,
    encode_embeddings,
    read_embedding,
)
from antiphon.engine.embeddings import embed
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.streaming import answer_headers
from antiphon.spec.limits import LARGE
from antiphon.stream.dialects import OPENAI
from antiphon.wires.worker_thread import in_worker_thread


async def create(gateway: Gateway, exchange: Exchange) -> None:
    asked = await exchange.decoded(read_embedding, gateway.config.server.body_limit)
    hint = asked.hint or exchange.context.hint
    exchange.context = replace(exchange.context, dialect=OPENAI, hint=hint)
    exchange.watch()
    run = exchange.new_run(gateway, "embeddings")
    found, turn = await embed(gateway.engine, asked.task, run)
    for name in asked.unknown:
        turn.receipt("embeddings", name, "this parameter is not part of the API")
    model = turn.target or run.model
    told = partial(encode_embeddings, found, model, is_packed=asked.is_packed)
    is_large = sum(map(len, found.vectors)) > LARGE
    body = await in_worker_thread(told) if is_large else told()
    await exchange.answer(body, headers=answer_headers(turn.receipts))


ENDPOINTS = (
    Endpoint(
        "POST /v1/embeddings",
        create,
        "createEmbeddings",
        "Create embeddings",
        "Vectors of texts, from the providers that give them; a model of another provider is a 404.",
        body=EmbeddingBody,
        answer=EmbeddingList,
        asks_model=True,
    ),
)
