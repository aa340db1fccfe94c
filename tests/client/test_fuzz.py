"""Servers with random faults: the client always comes to an end, with its own exceptions and no others."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.client import AntiphonError, AsyncClient, Retries, Timeouts
from antiphon.spec.codec import encode
from antiphon.spec.errors import server_error
from antiphon.stream.deltas import AnyDelta, CallDelta, Failure, Finish, ReasoningDelta, TextDelta
from antiphon.stream.sse import DONE
from tests.client.scripted_server import Player, composed
from tests.client.websocket_server import DROP, SocketServer
from tests.providers.fake_server import Piece, Step, Wire
from tests.server.servers import DEADLINE

HASTY = Timeouts(connect=2, read=0.04, idle=0.04, total=2)
ONCE = Retries(times=1, base=0.001, cap=0.001)
BOUNDED = settings(max_examples=40, suppress_health_check=list(HealthCheck))

SCENES: list[list[AnyDelta]] = [
    [TextDelta("one "), TextDelta("zwölf 🎈"), Finish()],
    [ReasoningDelta("hm"), CallDelta(1, '{"a":', "f", "call_1"), CallDelta(1, "1}"), Finish("tool_calls")],
    [TextDelta("so far"), Failure(server_error("it broke"))],
]
GOOD = [(response, pieces) for scene in SCENES for response, pieces in [composed(scene, background=True)]]

nonsense = st.one_of(
    st.binary(max_size=60),
    st.just(b"data: {\n\n"),
    st.just(b"data: [1,2]\n\n"),
    st.just(b"data: null\n\n"),
    st.just(b'data: {"type": 5, "sequence_number": "x"}\n\n'),
    st.just(b'data: {"type":"response.completed","response":{"output":7,"usage":[]}}\n\n'),
    st.just(b'event: error\ndata: {"error":{"message":{}}}\n\n'),
    st.just(b'data: {"type":"error","code":5}\n\n'),
    st.just(b"data: " + b"[" * 3000 + b"\n\n"),
    st.just(b": " + b"x" * 20_000 + b"\n"),
    st.just(b"data: " + "ü".encode()[:1] + b"\n\n"),
    st.just(b"<html>\n\n"),
    st.just(DONE),
)
steps = st.sampled_from(list(Step))


@st.composite
def bodies(draw: st.DrawFn) -> list[Piece]:
    """A good stream or answer that something has happened to: cut, garbled, reordered, repeated, hung."""
    response, events = draw(st.sampled_from(GOOD))
    pieces: list[Piece] = list(events) if draw(st.booleans()) else [encode(response)]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(pieces)))
        match draw(st.integers(0, 4)):
            case 0:
                pieces.insert(at, draw(nonsense))
            case 1:
                pieces = [*pieces[:at], draw(steps)]
            case 2:
                del pieces[at : at + draw(st.integers(1, 3))]
            case 3 if at < len(pieces) and isinstance(piece := pieces[at], bytes):
                cut = draw(st.integers(0, len(piece)))
                pieces[at : at + 1] = [piece[:cut], draw(nonsense), piece[cut:]]
            case _ if pieces:
                pieces.insert(at, pieces[draw(st.integers(0, len(pieces) - 1))])
    return pieces


@st.composite
def wires(draw: st.DrawFn) -> Wire:
    kinds = ["text/event-stream", "application/json", "text/html", "", "application/x-ndjson", "äö"]
    headers = {"content-type": draw(st.sampled_from(kinds))} | draw(
        st.sampled_from([{}, {"retry-after": "soon"}, {"content-encoding": "gzip"}, {"x-request-id": "\xff"}])
    )
    status = draw(st.sampled_from([200] * 6 + [204, 301, 400, 404, 429, 500, 599]))
    return Wire(
        draw(bodies()), status, headers, draw(st.sampled_from(["chunked", "chunked", "close", "raw"]))
    )


async def survives(work: Callable[[AsyncClient], Awaitable[object]], server: Any) -> None:
    """Whatever it says, the work comes to an end, well or with an error of ours."""
    async with server.client(timeouts=HASTY, retries=ONCE) as client, asyncio.timeout(DEADLINE):
        with suppress(AntiphonError):
            await work(client)


async def follow(client: AsyncClient) -> None:
    async with client.responses.stream("x", model="m", background=True) as stream:
        async for event in stream:
            json.loads(event.to_json())
            encode(stream.response)
        await stream.final()


WORK: list[Callable[[AsyncClient], Awaitable[object]]] = [
    follow,
    lambda client: client.responses.create("x", model="m"),
    lambda client: client.responses.retrieve("resp_1"),
    lambda client: client.models.list(),
    lambda client: client.conversations.retrieve("conv_1"),
    lambda client: client.responses.compact("x", model="m"),
    lambda client: client.session(model="m").create("x"),
]


@BOUNDED
@given(
    st.lists(wires(), min_size=1, max_size=3), st.sampled_from([follow, *WORK]), st.sampled_from([0, 0, 0, 7])
)
def test_no_server_hangs_or_crashes_the_client(replies: list[Wire], work: Any, slice: int) -> None:
    async def run() -> None:
        async with Player(*replies) as server:
            server.slice = slice
            await survives(work, server)

    asyncio.run(run())


messages = st.one_of(
    st.sampled_from(
        [piece.partition(b"data: ")[2].strip().decode() for _, pieces in GOOD for piece in pieces]
    ),
    st.text(max_size=40),
    st.just("[DONE]"),
    st.just('{"type":"error"}'),
    st.just('{"type":"error","status":"x","error":5}'),
    st.just('{"type":"error","status":400,"error":{"code":"previous_response_not_found"}}'),
    st.just('{"type":"error","status":400,"error":{"code":"websocket_connection_limit_reached"}}'),
    st.binary(max_size=20),
)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.lists(messages, max_size=12), st.booleans())
def test_no_socket_hangs_or_crashes_a_session(said: list[str | bytes], drops: bool) -> None:
    async def two_turns(client: AsyncClient) -> None:
        async with client.session(model="m", store=False) as session:
            for text in ("one", "two"):
                await session.create(text)

    async def run() -> None:
        turns = (tuple(said), DROP) if drops else (tuple(said),)
        async with SocketServer(*turns) as server:
            await survives(two_turns, server)

    asyncio.run(run())
