"""The handlers that serve a door: one flow from a body to an answer, whatever API its clients speak."""

from functools import partial
from typing import Any, TypeVar

from antiphon.bridges.door import Asked, ResponseDoor
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange, Handler
from antiphon.server.gateway import Gateway
from antiphon.server.idempotency import create_once
from antiphon.server.routes import stored_responses
from antiphon.server.streaming import answer_whole, stream_run
from antiphon.store import StoredResponse
from antiphon.stream.deltas import Finish

A = TypeVar("A", bound=Asked)


def answer_at(door: ResponseDoor[A]) -> Handler:
    """The handler of the requests that a model answers."""

    async def handle(gateway: Gateway, exchange: Exchange) -> None:
        read = door.reader(gateway.engine, exchange.head.headers)
        if door.is_idempotent:
            await create_once(gateway, exchange, read, create, repeat)
        else:
            await create(
                gateway, exchange, await exchange.decode_body(read, gateway.config.server.body_limit)
            )

    async def create(gateway: Gateway, exchange: Exchange, asked: A) -> None:
        exchange.watch()
        exchange.param = asked.param
        asked = await door.prepare(asked, gateway.engine, exchange.context.tenant)
        state = exchange.new_run(gateway, context=door.context(asked, exchange.context))
        run = await gateway.engine.start(asked.request, state, counts_receipts=door.counts_receipts)
        for receipt in asked.receipts:
            run.turn.receipt(receipt.provider, receipt.param, receipt.reason, receipt.action)

        def ending() -> Finish | None:
            return run.composer.ending

        if asked.request.stream:
            await stream_run(gateway, exchange, run, door.encoder(asked, ending, exchange.request_id))
        else:
            write = partial(door.encode, asked=asked, ending=ending)
            headers = door.headers(exchange.request_id)
            await answer_whole(gateway, exchange, run, headers, write, door.list_unrepresented)

    async def repeat(gateway: Gateway, exchange: Exchange, asked: A, found: StoredResponse) -> None:
        """Write the answer of an earlier request with the same key again."""
        exchange.context = door.context(asked, exchange.context)
        if asked.request.stream:
            exchange.watch()
            encoder = door.encoder(asked, _forget_ending, exchange.request_id)
            await stored_responses.stream_again(gateway, exchange, found, asked.request, lambda _: encoder)
        else:
            write = partial(door.encode, asked=asked, ending=_forget_ending)
            headers = door.headers(exchange.request_id)
            await stored_responses.answer_as(exchange, found, write, door.list_unrepresented, headers)

    return handle


def _forget_ending() -> None:
    """The reason why the provider ended an answer is not stored."""


def door_endpoint(door: ResponseDoor[A], id: str, summary: str, about: str, **described: Any) -> Endpoint:
    """The row of the endpoint at which a door is asked for an answer."""
    return Endpoint(
        f"POST {door.path}",
        answer_at(door),
        id,
        summary,
        about,
        door=door,
        asks_model=True,
        idempotent=door.is_idempotent,
        **described,
    )
