"""Turns over a WebSocket: kept connections, refusals, cuts, limits, and servers that have none."""

import asyncio
import logging
import logging.config
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from antiphon.config import Secret, UpstreamTimeouts
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.responses import OpenResponses
from antiphon.stream.deltas import TextDelta
from tests.providers.build import build
from tests.providers.chat.fake import FakeChat
from tests.providers.compose import answer, answering, batches, make_turn, told
from tests.providers.conformance.said import Script, Text
from tests.providers.fake_server import SOON, Step, refusal, refusing_address
from tests.providers.responses import wire
from tests.providers.responses.fake import FakeResponses, FakeResponsesSocket

KEY = "sk-very-secret-key"
HELLO = Script((Text("Hello."),))
WORN_OUT = {
    "type": "error",
    "status": 400,
    "error": {"code": "websocket_connection_limit_reached", "message": "60 minutes"},
}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeResponsesSocket]:
    async with FakeResponsesSocket() as fake:
        yield fake


@pytest.fixture
async def provider(upstream: FakeResponsesSocket, http: UpstreamClient) -> AsyncIterator[OpenResponses]:
    made = upstream.made(http)
    yield made
    await made.close()


async def failed(provider: OpenResponses) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn())
    return caught.value


# --- turns ------------------------------------------------------------------------------------------------


async def test_turns_follow_each_other_on_one_connection(
    upstream: FakeResponsesSocket, provider: OpenResponses
) -> None:
    for _ in range(3):
        upstream.says(HELLO)
        assert told(await answer(provider, make_turn())) == ["Hello."]
    assert (len(upstream.requests), upstream.connections) == (3, 1)
    received = upstream.requests[0]
    assert received.path == "/v1/responses"
    assert received.headers["authorization"] == "Bearer sk-1"
    assert "content-type" not in received.headers


async def test_nothing_of_it_is_logged(
    upstream: FakeResponsesSocket, http: UpstreamClient, caplog: pytest.LogCaptureFixture
) -> None:
    # This turns every logger on that somebody has turned off.
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    caplog.set_level(logging.DEBUG)
    provider = upstream.made(http)
    upstream.says(HELLO)
    await answer(provider, make_turn("a very private question"))
    await provider.close()
    heard = [one.getMessage() for one in caplog.records if one.name != "websockets.server"]
    assert not [line for line in heard if "sk-1" in line or "private" in line]


async def test_turns_at_the_same_time_have_a_connection_each(
    upstream: FakeResponsesSocket, provider: OpenResponses
) -> None:
    upstream.says(*[HELLO] * 4)
    for _ in range(2):
        both = await asyncio.gather(answer(provider, make_turn()), answer(provider, make_turn()))
        assert [told(one) for one in both] == [["Hello."], ["Hello."]]
    assert upstream.connections == 2


async def test_the_first_batch_is_empty(upstream: FakeResponsesSocket, provider: OpenResponses) -> None:
    upstream.says(HELLO)
    first, *rest = await batches(provider, make_turn())
    assert first == []
    assert [one for batch in rest for one in batch if isinstance(one, TextDelta)]


async def test_a_connection_that_went_stale_is_replaced(
    upstream: FakeResponsesSocket, provider: OpenResponses
) -> None:
    upstream.says(HELLO, Step.CLOSE, HELLO)
    for _ in range(2):
        assert told(await answer(provider, make_turn())) == ["Hello."]
    assert (len(upstream.requests), upstream.connections) == (3, 2)


async def test_a_connection_that_is_too_old_is_replaced(
    upstream: FakeResponsesSocket, provider: OpenResponses
) -> None:
    upstream.says(HELLO, [WORN_OUT], HELLO)
    for _ in range(2):
        assert told(await answer(provider, make_turn())) == ["Hello."]
    assert upstream.connections == 2


async def test_a_warning_that_the_connection_will_end_is_no_error(
    upstream: FakeResponsesSocket, provider: OpenResponses
) -> None:
    warning = {"type": "error", "status": 400, "error": {"code": "connection_expiring", "message": "soon"}}
    created, *rest = wire.events(HELLO, {})
    upstream.says([created, warning, *rest], HELLO)
    assert told(await answer(provider, make_turn())) == ["Hello."]
    assert told(await answer(provider, make_turn())) == ["Hello."]
    assert upstream.connections == 2


# --- failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "expected", "code"),
    [
        (429, {"code": "rate_limit_exceeded", "message": "slow down"}, 429, "rate_limit_exceeded"),
        (401, {"code": "invalid_api_key", "message": f"bad key {KEY}"}, 502, "upstream_auth"),
        (404, {"code": "model_not_found", "message": "no such model"}, 404, "model_not_found"),
        (None, {"code": "server_error", "message": "the server is overloaded"}, 503, "model_overloaded"),
    ],
)
async def test_a_refused_turn_is_an_early_error(
    upstream: FakeResponsesSocket,
    provider: OpenResponses,
    status: int | None,
    error: dict[str, str],
    expected: int,
    code: str,
) -> None:
    upstream.says([{"type": "error", "error": error} | ({"status": status} if status else {})])
    refused = await failed(provider)
    assert (refused.status, refused.payload.code) == (expected, code)
    assert KEY not in refused.payload.message


async def test_a_cut_keeps_what_was_said(upstream: FakeResponsesSocket, provider: OpenResponses) -> None:
    upstream.says(Script((Text("Once upon"),), ending="cut"))
    response = await answer(provider, make_turn())
    assert told(response) == ["!Once upon"]
    assert response.error is not None
    assert response.error.code == "upstream_closed"


async def test_a_close_before_the_answer_is_an_early_error(
    upstream: FakeResponsesSocket, provider: OpenResponses
) -> None:
    upstream.says(Step.CLOSE)
    error = await failed(provider)
    assert (error.status, error.payload.code) == (502, "upstream_closed")


@pytest.mark.parametrize(
    ("limits", "events"),
    [
        (UpstreamTimeouts(first_byte=0.1), 0),
        (UpstreamTimeouts(first_byte=SOON, total=0.1), 0),
        (UpstreamTimeouts(first_byte=SOON, idle=0.1), 3),
        (UpstreamTimeouts(first_byte=SOON, idle=SOON, total=0.7), 3),
    ],
)
async def test_limits(http: UpstreamClient, limits: UpstreamTimeouts, events: int) -> None:
    class Slow(FakeResponsesSocket):
        async def _answer(self, socket: Any, received: Any) -> None:
            self.says([*wire.events(HELLO, {})][:events], Step.HANG)
            await super()._answer(socket, received)
            await super()._answer(socket, received)

    async with Slow() as upstream:
        provider = upstream.made(http, timeouts=limits)
        if events:
            response = await answer(provider, make_turn())
            assert response.error is not None
            assert response.error.code == "timeout"
        else:
            assert (await failed(provider)).payload.code == "timeout"
        await asyncio.wait_for(upstream.gone.wait(), SOON)
        await provider.close()


async def test_a_turn_that_is_given_up_closes_its_connection(
    upstream: FakeResponsesSocket, provider: OpenResponses
) -> None:
    upstream.says(Step.HANG, HELLO)
    task = asyncio.create_task(batches(provider, make_turn()))
    await asyncio.wait_for(upstream.asked.wait(), SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(upstream.gone.wait(), SOON)
    assert told(await answer(provider, make_turn())) == ["Hello."]
    assert upstream.connections == 2


async def test_a_stream_that_is_left_closes_its_connection(
    upstream: FakeResponsesSocket, provider: OpenResponses
) -> None:
    upstream.says(HELLO, HELLO)
    async with aclosing(answering(provider, make_turn())) as stream:
        await anext(stream)
    assert told(await answer(provider, make_turn())) == ["Hello."]
    assert upstream.connections == 2


async def test_nobody_listens(http: UpstreamClient) -> None:
    with refusing_address() as address:
        error = await failed(build(OpenResponses, "up", http, address, websocket=True))
    assert (error.status, error.payload.code) == (502, "upstream_unreachable")


# --- servers without one ----------------------------------------------------------------------------------


async def test_a_server_without_a_websocket_is_asked_over_http(http: UpstreamClient) -> None:
    async with FakeResponses() as upstream:
        upstream.says(HELLO, HELLO)
        provider = upstream.made(http, websocket=True)
        turn = make_turn()
        assert told(await answer(provider, turn)) == ["Hello."]
        assert [(one.param, one.action) for one in turn.receipts] == [("model", "fallback")]
        assert told(await answer(provider, make_turn())) == ["Hello."]
    # The second turn knows already.
    assert [one.method for one in upstream.requests] == ["GET", "POST", "POST"]


@pytest.mark.parametrize("status", [403, 404, 426])
async def test_any_plain_answer_to_the_handshake_leads_to_http(http: UpstreamClient, status: int) -> None:
    class Plain(FakeResponses):
        def reply(self, received: Any) -> Any:
            return refusal(status, wire.error("no")) if received.method == "GET" else super().reply(received)

    async with Plain() as upstream:
        upstream.says(HELLO)
        assert told(await answer(upstream.made(http, websocket=True), make_turn())) == ["Hello."]
    assert [one.method for one in upstream.requests] == ["GET", "POST"]


async def test_a_server_with_neither_is_asked_through_chat(http: UpstreamClient) -> None:
    async with FakeChat() as chat:
        provider = build(OpenResponses, "up", http, chat.base_url, quirks="openai", websocket=True)
        turn = make_turn("Hi")
        assert told(await answer(provider, turn)) == ["Hi"]
    assert [one.action for one in turn.receipts] == ["fallback", "fallback"]


async def test_a_handshake_can_be_refused(http: UpstreamClient) -> None:
    class Closed(FakeResponses):
        def reply(self, received: Any) -> Any:
            return refusal(401, wire.error(f"bad key {KEY}"))

    async with Closed() as upstream:
        error = await failed(upstream.made(http, websocket=True, api_key=Secret(KEY)))
    assert (error.status, error.payload.code) == (502, "upstream_auth")
    assert KEY not in error.payload.message
    assert [one.method for one in upstream.requests] == ["GET"]
