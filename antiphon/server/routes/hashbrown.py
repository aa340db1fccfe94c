"""`POST /api/hashbrown`: the back end of Hashbrown's chat, for its React and Angular clients."""

import logging
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from antiphon.bridges.error_paths import place_of, with_their_param
from antiphon.bridges.hashbrown import CONTENT_TYPE, Frames, Thread, unknown_thread
from antiphon.engine.failures import Problem, problem_of
from antiphon.providers.base import UpstreamError
from antiphon.server.endpoint import Endpoint, queries
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.streaming import stream_run
from antiphon.spec.codec import encode
from antiphon.spec.errors import SpecError
from antiphon.spec.strict_decoder import StrictDecoder
from antiphon.store import StoreError
from antiphon.wires.hashbrown import frames
from antiphon.wires.hashbrown.messages import AnyMessage, HashbrownBody, nothing_to_say, read_body, to_request

log = logging.getLogger("antiphon.server")

_UNREAD = frozenset({413, 415})
"""The statuses of bodies that nobody has looked into."""
_NAMES = {"tool_choice": "toolChoice", "text.format": "responseFormat", "instructions": "system"}


class HashbrownOptions(Struct):
    """What the query of a request can choose."""

    dialect: Annotated[
        frames.FrameDialect,
        Meta(description="`generation` for the released client, or the events themselves."),
    ] = "generation"
    threads: Annotated[
        Literal["on", "off"],
        Meta(description="`off`: nothing is kept, and the client sends the whole history."),
    ] = "on"
    content_filter: Annotated[
        frames.ContentFilter, Meta(description="How `open-responses` ends an answer that a filter cut short.")
    ] = "failed"
    preserve_chunk_boundaries: Annotated[
        Literal["on", "off"],
        Meta(description="`on`: a chunk of the upstream without words is a delta without words."),
    ] = "off"

    @classmethod
    def of(cls, exchange: Exchange) -> "HashbrownOptions":
        given = {name: exchange.query(name) for name in cls.__struct_fields__}
        fields = {name: Raw(encode(value)) for name, value in given.items() if value is not None}
        return StrictDecoder().fields(cls, fields, "")


async def chat(gateway: Gateway, exchange: Exchange) -> None:
    choice = HashbrownOptions.of(exchange)
    try:
        body, messages = await exchange.decode_body(read_body, gateway.config.server.body_limit)
        exchange.watch()
        await _answer(gateway, exchange, choice, body, messages)
    except (SpecError, UpstreamError, StoreError) as error:
        problem = problem_of(error, exchange.request_id)
        if exchange.has_begun or problem.status in _UNREAD:
            raise
        await _answer_failure(exchange, choice, problem)


async def _answer(
    gateway: Gateway,
    exchange: Exchange,
    choice: HashbrownOptions,
    body: HashbrownBody,
    messages: list[AnyMessage],
) -> None:
    engine = gateway.engine
    thread = Thread(engine) if choice.threads == "on" else None
    first = b""
    if body.thread_id and (thread is not None or body.loads_only):
        thread, failure = await _load(gateway, exchange, choice, body.thread_id)
        if thread is None:
            await _answer_frames(exchange, frames.THREAD_LOAD_START + frames.thread_not_loaded(failure))
            return
        first = frames.THREAD_LOAD_START + frames.thread_loaded(thread.messages if body.loads_only else None)
        if body.loads_only:
            await _answer_frames(exchange, first)
            return
    said = thread or Thread(engine)
    items = said.items(messages)
    if not messages or not items:
        raise nothing_to_say()
    request = to_request(body, items)
    # The client knows threads, and no responses: what it cannot ask for again is not kept.
    request.store = False
    preserves = choice.preserve_chunk_boundaries == "on"
    writer = frames.frame_writer(
        choice.dialect,
        content_filter=choice.content_filter,
        preserve_chunk_boundaries=preserves,
        call_ids=True,
    )
    encoder = Frames(writer, thread, first)
    exchange.param = partial(_param, said.places)
    run = await engine.start(
        request, exchange.new_run(gateway), keep=encoder.keep, counts_receipts=True, keeps_chunks=preserves
    )
    await stream_run(gateway, exchange, run, encoder)


def _param(places: list[str], ours: str) -> str:
    """The client's name for a parameter of the request."""
    for name, theirs in _NAMES.items():
        if ours == name or ours.startswith(f"{name}."):
            return theirs
    return place_of(ours, places, "toolCallId") or ours


async def _load(
    gateway: Gateway, exchange: Exchange, choice: HashbrownOptions, id: str
) -> tuple[Thread | None, str]:
    if choice.threads == "off":
        return None, frames.NO_THREADS
    try:
        thread = await Thread.load(gateway.engine, exchange.context.tenant, id)
    except StoreError as error:
        log.error("request %s: the thread could not be loaded: %s", exchange.request_id, error)
        return None, str(error)
    return thread, unknown_thread(id)


async def _answer_failure(exchange: Exchange, choice: HashbrownOptions, problem: Problem) -> None:
    """One frame, as when an answer fails in its middle: the client reads frames alone."""
    exchange.problem = problem
    payload = problem.payload
    if exchange.param is not None:
        payload = with_their_param(payload, exchange.param)
    error = payload.original
    if choice.dialect == "generation" and error is payload and error.param:
        error = replace(error, message=f"{error.param}: {error.message}")
    if problem.retry_after is not None:
        error = replace(error, headers={"retry-after": str(round(problem.retry_after))})
    await _answer_frames(exchange, frames.frame_writer(choice.dialect).fail(error))


async def _answer_frames(exchange: Exchange, body: bytes) -> None:
    await exchange.answer(body, content_type=CONTENT_TYPE, headers=[(b"cache-control", b"no-cache")])


ENDPOINTS = (
    Endpoint(
        "POST /api/hashbrown",
        chat,
        "chatWithHashbrown",
        "Chat with Hashbrown's client",
        "The answer is a stream of frames: four bytes with the length, then a JSON object. With a `threadId` "
        "the thread continues from the store; `load-thread` reads it. An error is the last frame.",
        body=HashbrownBody,
        answer="application/octet-stream",
        query=queries(HashbrownOptions),
        receipts=True,
    ),
)
