"""Runs one turn of a producer's endpoint, from the decoded request to the events of its response."""

import asyncio
import inspect
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec.structs import replace

from antiphon.producer.builder import ResponseBuilder, estimate
from antiphon.producer.conversations import Ability, KeptConversations, no_compaction
from antiphon.producer.produce import FAILED, Said, produce
from antiphon.spec import ids
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param, not_found
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import Item, Message
from antiphon.spec.request import CompactRequest, Request, WebSocketCreate
from antiphon.spec.response import CompactResource
from antiphon.wires.asgi import ClientGone
from antiphon.wires.responses_socket import TurnMemory
from antiphon.wires.schema.check import check_schema
from antiphon.wires.schema.pool import SchemaPool

if TYPE_CHECKING:
    from antiphon.wires.sealing import Seal

log = logging.getLogger("antiphon.producer")

Answer = Callable[[Request], AsyncIterator[Said]]
Summarise = Callable[[Request], Awaitable[str]]

_NO_SUMMARY = ErrorPayload("model_error", "the agent wrote no summary; try again", code="empty_summary")


@runtime_checkable
class Answering(Protocol):
    """An agent: something with an `answer`."""

    def answer(self, request: Request) -> AsyncIterator[Said]: ...


@dataclass(frozen=True, slots=True)
class ProducedTurn:
    """A request with its whole conversation, and the response that is being built."""

    request: Request
    items: list[Item]
    builder: ResponseBuilder
    local: TurnMemory[list[Item]] | None


class Answers:
    """An agent with its limits and its memory, for HTTP and for WebSockets."""

    def __init__(
        self,
        answer: Answer | Answering,
        summarise: Summarise | None,
        *,
        model: str,
        memory: int,
        without: Iterable[Ability],
        seal_key: bytes | None,
        patience: float,
        keepalive: float,
    ) -> None:
        self._answer: Answer = answer.answer if isinstance(answer, Answering) else answer
        if not callable(self._answer):
            raise TypeError(f"an agent has an `answer`, or is one; {type(answer).__name__} is neither")
        if inspect.iscoroutinefunction(self._answer) or inspect.isgeneratorfunction(self._answer):
            raise TypeError("an answer is an async generator: write it with `async def` and `yield`")
        if inspect.isasyncgenfunction(summarise):
            raise TypeError("a summary comes whole: write `summarise` with `async def` and `return`")
        self._summarise = summarise
        self._seal = None if summarise is None else _seal(seal_key)
        self._model = model
        self._patience = patience
        self._keepalive = keepalive
        self._conversations = KeptConversations(memory, without, self._seal)
        self._schemas = SchemaPool()

    async def close(self) -> None:
        await self._schemas.close()

    async def begin(self, request: Request, local: TurnMemory[list[Item]] | None = None) -> ProducedTurn:
        """Prepares a turn; raises every refusal that does not need the agent."""
        conversations = self._conversations
        self._check_model(request.model)
        conversations.check(request)
        await check_schema(request, "", self._schemas)
        items = conversations.resolve(request, local)
        whole = replace(request, input=items, store=request.store and conversations.stores)
        builder = ResponseBuilder(self._model, request=whole, error_event=local is None)
        return ProducedTurn(whole, items, builder, local)

    async def events(
        self, turn: ProducedTurn, gone: asyncio.Future[None] | None = None
    ) -> AsyncGenerator[list[AnyEvent] | None, None]:
        """Yields batches of events, and None after a time of silence; raises a failure before the first
        batch.

        When `gone` is done, the answer is cancelled.
        """
        builder = turn.builder
        silent = isinstance(turn.request, WebSocketCreate) and not turn.request.generate
        batches = produce(builder, _answer_nothing if silent else self._answer, turn.request, self._schemas)
        waiting: asyncio.Future[list[AnyEvent] | None] | None = None
        quiet, begun = self._patience, False
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(batches, None))
                either: set[asyncio.Future[Any]] = {waiting} if gone is None else {waiting, gone}
                done, _ = await asyncio.wait(either, timeout=quiet, return_when=asyncio.FIRST_COMPLETED)
                quiet = self._keepalive
                if waiting in done:
                    events, waiting = waiting.result(), None
                    if events is None:
                        return
                    if builder.error is not None and not begun:
                        raise SpecError(builder.error)
                    if builder.finished:  # known before the client hears of its end, and continues it
                        self._keep(turn)
                    begun = True
                    yield events
                elif gone is not None and gone in done:
                    raise ClientGone
                else:
                    yield None if begun else builder.start()
                    begun = True
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.wait({waiting})
            await batches.aclose()

    async def compact(self, request: CompactRequest) -> CompactResource:
        """Compacts a conversation to one item with the agent's summary."""
        if self._summarise is None or self._seal is None:
            raise no_compaction()
        from antiphon.wires.compaction import sealed_summary

        self._check_model(request.model)
        items = self._conversations.resolve(request)
        if not items:
            message = "there is nothing to compact; give `input` or `previous_response_id`"
            raise SpecError(invalid_param("input", message))
        whole = Request(model=request.model, instructions=request.instructions, input=items)
        try:
            text = (await self._summarise(whole)).strip()
        except SpecError:
            raise
        except Exception as error:
            log.error("a summary failed with %s", type(error).__name__, exc_info=True)
            raise SpecError(FAILED) from None
        if not text:
            raise SpecError(_NO_SUMMARY)
        return CompactResource(
            id=ids.new_id(ids.RESPONSE),
            output=[sealed_summary(text, self._seal)],
            created_at=int(time.time()),
            usage=estimate(whole, [Message(role="assistant", content=text)]),
        )

    def _check_model(self, name: str | None) -> None:
        if name and name != self._model:
            message = f"there is no model {name!r} here; the one there is: {self._model}"
            raise SpecError(not_found(message).with_code("model_not_found").with_param("model"))

    @property
    def compacts(self) -> bool:
        return self._summarise is not None

    def _keep(self, turn: ProducedTurn) -> None:
        response = turn.builder.response
        if response.status in ("completed", "incomplete"):
            items = [*turn.items, *response.output]
            self._conversations.keep(response, items)
            if turn.local is not None:
                turn.local.keep(response.id, items)


def _seal(key: bytes | None) -> "Seal":
    try:
        from antiphon.wires.sealing import Seal
    except ImportError:
        raise ImportError("`summarise` seals what it makes: install `antiphon[server]`") from None
    return Seal([key if key is not None else secrets.token_bytes(32)])


async def _answer_nothing(request: Request) -> AsyncIterator[Said]:
    """The answer to `generate: false`, which only warms a connection up."""
    none: tuple[Said, ...] = ()
    for said in none:
        yield said
