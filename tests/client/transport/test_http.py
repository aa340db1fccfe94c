"""One call over a real socket: retries, limits, refusals, and connections that are closed in time."""

import asyncio
import gzip
import traceback
from contextlib import suppress
from typing import Any, ClassVar

import httpx
import pytest

from antiphon.client import (
    AntiphonError,
    AsyncClient,
    Client,
    ConnectionFailed,
    ResponseFailed,
    Retries,
    StatusError,
    StreamBroken,
    TimedOut,
    Timeouts,
    UnexpectedAnswer,
    UsageError,
)
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.errors import server_error
from antiphon.stream.deltas import Failure, TextDelta
from tests.client.scripted_server import QUICK, Player, answer, composed, error, say, streamed, whole
from tests.providers.fake_server import Received, Step, Wire, refusing_address
from tests.server.servers import DEADLINE, Serving


async def test_a_create_is_tried_again_after_429_and_500() -> None:
    replies = error(429, "too_many_requests", retry_after="0"), error(500), whole("hello")
    async with Player(*replies) as server, server.client() as client:
        response = await client.responses.create("x")
    assert response.output_text == "hello"
    assert server.paths == ["POST /v1/responses"] * 3


async def test_a_create_with_a_key_is_tried_again_after_a_broken_connection() -> None:
    replies = Wire([Step.RESET]), error(409, code="request_in_progress", retry_after="0"), whole("hello")
    async with Player(*replies) as server, server.client() as client:
        response = await client.responses.create("x", idempotency_key="order-42")
    assert response.output_text == "hello"
    assert [request.headers["idempotency-key"] for request in server.requests] == ["order-42"] * 3
    assert server.requests[0].body == server.requests[1].body == server.requests[2].body


async def test_a_key_that_was_used_for_something_else_is_told() -> None:
    async with Player(error(409, code="idempotency_key_reused")) as server, server.client() as client:
        with pytest.raises(StatusError, match="idempotency_key_reused"):
            await client.responses.create("x", idempotency_key="order-42")
    assert len(server.requests) == 1


async def test_a_server_that_says_whether_to_try_again_is_believed() -> None:
    """A model without its key was asked for three times, and no pause gives it one."""
    async with Player(error(503, x_should_retry="false")) as server, server.client() as client:
        with pytest.raises(StatusError) as caught:
            await client.responses.create("x")
    assert (caught.value.should_retry, len(server.requests)) == (False, 1)
    async with Player(error(404, x_should_retry="true"), whole("hello")) as server, server.client() as client:
        assert (await client.responses.create("x")).output_text == "hello"


async def test_a_stream_is_tried_again_before_its_first_event() -> None:
    async with (
        Player(error(503), streamed("hello")) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        assert (await stream.final()).output_text == "hello"
    assert len(server.requests) == 2


async def test_the_last_error_is_told_when_no_try_is_left() -> None:
    async with Player(error(500, message="tired", x_request_id="req_9")) as server, server.client() as client:
        with pytest.raises(StatusError) as caught:
            await client.responses.create("x")
    assert len(server.requests) == 1 + QUICK.times
    found = caught.value
    assert (found.status, found.type, found.message, found.request_id) == (
        500,
        "server_error",
        "tired",
        "req_9",
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_refusal_is_told_at_once(status: int) -> None:
    refused = error(status, "invalid_request", "bad", code="model_not_found", param="model")
    async with Player(refused) as server, server.client() as client:
        with pytest.raises(StatusError) as caught:
            await client.responses.create("x")
    assert len(server.requests) == 1
    assert (caught.value.status, caught.value.param, caught.value.code) == (
        status,
        "model",
        "model_not_found",
    )
    assert "at model: bad" in str(caught.value)


async def test_a_pause_that_is_too_long_is_told_instead_of_waited_for() -> None:
    async with Player(error(429, retry_after="3600")) as server, server.client() as client:
        with pytest.raises(StatusError) as caught:
            await client.responses.create("x")
    assert caught.value.retry_after == 3600
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [Step.CLOSE, Step.RESET])
async def test_a_create_that_may_have_arrived_is_not_sent_twice(fault: Step) -> None:
    async with Player(Wire([fault], framing="raw")) as server, server.client() as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.responses.create("x")
    assert caught.value.sent
    assert len(server.requests) == 1


async def test_reading_is_tried_again_after_a_cut() -> None:
    async with Player(Wire([Step.RESET], framing="raw"), whole("hi")) as server, server.client() as client:
        assert (await client.responses.retrieve("resp_1")).output_text == "hi"
    assert server.paths == ["GET /v1/responses/resp_1"] * 2


async def test_reading_is_tried_again_after_a_cut_in_the_middle() -> None:
    half = Wire([b'{"id":"resp_1",', Step.RESET])
    async with Player(half, whole("hi")) as server, server.client() as client:
        assert (await client.responses.retrieve("resp_1")).output_text == "hi"
        assert len(server.requests) == 2


async def test_a_stream_that_nobody_asked_for_and_that_is_cut_is_no_answer() -> None:
    _, pieces = composed(say("one", "two"))
    async with Player(Wire(pieces[:5])) as server, server.client() as client:
        with pytest.raises(StreamBroken) as caught:
            await client.responses.create("x")
    assert caught.value.response.output_text == "one"


async def test_nobody_at_the_door() -> None:
    with refusing_address() as url:
        async with AsyncClient(url, retries=QUICK, trust_env=False) as client:
            with pytest.raises(ConnectionFailed, match="is it running") as caught:
                await client.responses.create("x")
    assert not caught.value.sent


async def test_nobody_at_the_usual_door_says_how_to_name_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway on another port was as good as lost: nothing said how a client finds it."""
    for family in ("ANTIPHON", "OPENRESPONSES", "OPENAI"):
        monkeypatch.delenv(f"{family}_BASE_URL", raising=False)
    with refusing_address() as address:
        monkeypatch.setattr("antiphon.client.settings.DEFAULT_URL", f"{address}/v1")
        async with AsyncClient(retries=Retries(times=0)) as client:
            with pytest.raises(ConnectionFailed, match="If it is elsewhere, set ANTIPHON_BASE_URL"):
                await client.models.list()
        monkeypatch.setenv("ANTIPHON_BASE_URL", f"{address}/v1")
        async with AsyncClient(retries=Retries(times=0)) as client:
            with pytest.raises(ConnectionFailed, match=r"is it running\?$"):
                await client.models.list()


def test_a_server_that_is_down_is_a_sentence_and_its_cause_and_no_page_of_traceback() -> None:
    with (
        refusing_address() as url,
        Client(url, retries=QUICK, trust_env=False) as client,
        pytest.raises(ConnectionFailed) as caught,
    ):
        client.responses.create("x")
    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    assert isinstance(caught.value.__cause__, OSError | httpx.ConnectError)
    assert len(lines) < 20
    assert not any("httpcore" in line for line in lines)


async def test_an_address_without_its_version_is_understood_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        Player(error(404), whole("one"), whole("two")) as server,
        server.client(base_url=server.base_url.removesuffix("/v1")) as client,
    ):
        assert (await client.responses.create("x")).output_text == "one"
        assert (await client.responses.create("x")).output_text == "two"
        found = client.base_url
        assert found == server.base_url
    assert server.paths == ["POST /responses", "POST /v1/responses", "POST /v1/responses"]
    (told,) = [record.getMessage() for record in caplog.records if record.name == "antiphon.client"]
    assert f"going on with {found}" in told


async def test_two_first_calls_at_once_both_find_the_version() -> None:
    def reply(received: Received) -> Wire:
        return whole("found") if received.path.startswith("/v1/") else error(404)

    async with (
        Player(reply) as server,
        server.client(base_url=server.base_url.removesuffix("/v1")) as client,
    ):
        found = await asyncio.gather(*(client.responses.create("x") for _ in range(5)))
    assert {one.output_text for one in found} == {"found"}


async def test_what_is_not_there_under_either_address_is_told_of_the_one_that_was_given() -> None:
    async with Player(error(404, message="first"), error(404, message="second")) as server:
        given = server.base_url.removesuffix("/v1")
        async with server.client(base_url=given) as client:
            with pytest.raises(StatusError, match="first"):
                await client.responses.create("x")
            assert client.base_url == given


async def test_a_server_that_comes_up_between_two_tries_is_reached() -> None:
    with refusing_address() as url:
        port = int(url.split(":")[2].split("/")[0])
    async with AsyncClient(url, retries=Retries(times=200, base=0.01, cap=0.01), trust_env=False) as client:
        asking = asyncio.create_task(client.responses.create("x"))
        await asyncio.sleep(0)

        class Late(Player):
            async def __aenter__(self) -> "Late":
                self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
                return self

        async with Late(whole("at last")), asyncio.timeout(DEADLINE):
            assert (await asking).output_text == "at last"


async def test_the_limit_for_the_first_sign_of_an_answer() -> None:
    limits = Timeouts(read=0.5)  # in which the request must have come
    async with Player(Wire([Step.HANG], framing="raw")) as server, server.client(timeouts=limits) as client:
        with pytest.raises(TimedOut) as caught:
            await client.responses.create("x")
        assert caught.value.limit == "read"
        assert len(server.requests) == 1
        async with asyncio.timeout(DEADLINE):
            await server.gone.wait()


async def test_the_limit_for_silence_in_the_middle() -> None:
    begun = Wire([b'{"id":"resp_1",', Step.HANG])
    async with Player(begun) as server, server.client(timeouts=Timeouts(idle=0.05)) as client:
        with pytest.raises(TimedOut) as caught:
            await client.responses.create("x")
        assert caught.value.limit == "idle"
        async with asyncio.timeout(DEADLINE):
            await server.gone.wait()


async def test_the_limit_for_everything_counts_tries_and_drops_of_data() -> None:
    never = Wire([b" "] * 100_000)
    async with Player(never) as server, server.client(timeouts=Timeouts(total=0.2, idle=5)) as client:
        server.slice = 1
        with pytest.raises(TimedOut) as caught:
            await client.responses.create("x")
        assert caught.value.limit == "total"
    slow = Retries(times=1000, base=0.05, cap=0.05)
    async with (
        Player(error(500)) as server,
        server.client(timeouts=Timeouts(total=0.5), retries=slow) as client,
    ):
        with pytest.raises((StatusError, TimedOut)):
            await client.responses.create("x")
        assert 1 <= len(server.requests) < 1000


async def test_one_call_can_have_limits_and_headers_of_its_own() -> None:
    def reply(received: Received) -> Wire:
        """Not by their order: the first is given up so soon that it may never come."""
        return whole("hi") if "x-request-id" in received.headers else Wire([Step.HANG], framing="raw")

    async with Player(reply) as server, server.client() as client:
        with pytest.raises(TimedOut):
            await client.responses.create("x", timeouts=Timeouts(read=0.05))
        await client.responses.create("x", extra_headers={"X-Request-Id": "mine"}, extra_body={"acme:y": 1})
    assert server.requests[-1].headers["x-request-id"] == "mine"
    assert server.body["acme:y"] == 1


async def test_a_cancelled_call_closes_its_connection() -> None:
    async with Player(Wire([Step.HANG])) as server, server.client() as client:
        asking = asyncio.create_task(client.responses.create("x"))
        async with asyncio.timeout(DEADLINE):
            await server.asked.wait()
            asking.cancel()
            await server.gone.wait()
        with pytest.raises(asyncio.CancelledError):
            await asking


class _Counted(asyncio.Protocol):
    """Answers every request with the same response, and knows how many connections are open."""

    open: ClassVar[set[asyncio.Protocol]] = set()
    none_left: ClassVar[asyncio.Event]

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.open.add(self)

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}"):
            stream = b'"stream":true' in data
            response, events = composed(say("one", "two"))
            body = b"".join(events) if stream else encode(response)
            kind = b"text/event-stream" if stream else b"application/json"
            head = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
            self.transport.write(head % (kind, len(body)) + body)

    def connection_lost(self, error: Exception | None) -> None:
        self.open.discard(self)
        if len(self.open) <= 1:
            self.none_left.set()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_wherever_a_call_is_cancelled_no_connection_is_left_open(stream: bool) -> None:
    """One step of the event loop further each time, through the whole life of a call."""
    _Counted.none_left = asyncio.Event()
    server = await asyncio.get_running_loop().create_server(_Counted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, AsyncClient(f"http://127.0.0.1:{port}/v1", trust_env=False) as client:

        async def work() -> None:
            if stream:
                async with client.responses.stream("x") as events:
                    await events.final()
            else:
                await client.responses.create("x")

        for steps in range(60):
            call = asyncio.ensure_future(work())
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
        await work()
        _Counted.none_left.clear()
        if len(_Counted.open) > 1:  # one may wait for the next call
            await asyncio.wait_for(_Counted.none_left.wait(), DEADLINE)


async def test_a_closed_client_says_so() -> None:
    async with Player(whole("hi")) as server:
        client = server.client()
        await client.close()
        with pytest.raises(UsageError, match="closed"):
            await client.responses.create("x")


@pytest.mark.parametrize("value", ["ü", None, 3, "a\nb"], ids=repr)
async def test_a_header_that_cannot_be_sent_is_told(value: Any) -> None:
    async with Player(whole("hi")) as server, server.client() as client:
        with pytest.raises(UsageError, match="cannot be sent"):
            await client.responses.create("x", extra_headers={"X-Mine": value})


@pytest.mark.parametrize("id", ["", ".", ".."])
async def test_what_is_no_id_makes_no_other_request_of_it(id: str) -> None:
    async with Player(whole("hi")) as server, server.client() as client:
        with pytest.raises(UsageError, match="an id is needed"):
            await client.responses.delete(id)
    assert server.requests == []


async def _asked(client: AsyncClient) -> str:
    return (await client.responses.create("x")).output_text


def test_an_asynchronous_client_says_so_when_it_is_used_in_another_event_loop(gateway: Serving) -> None:
    client = AsyncClient(f"{gateway.url}/v1", trust_env=False)
    with asyncio.Runner() as first:
        assert first.run(_asked(client)) == "x"
        for work in (_asked(client), client.session().create("x"), client.close()):
            with pytest.raises(UsageError, match="the event loop that used it first"):
                asyncio.run(work)
        assert first.run(_asked(client)) == "x"
        first.run(client.close())


async def test_a_redirect_is_told_and_not_followed_with_the_key() -> None:
    moved = Wire([b""], 308, {"location": "https://elsewhere.test/v1/responses"})
    async with Player(moved) as server, server.client("secret") as client:
        with pytest.raises(StatusError, match="elsewhere"):
            await client.responses.create("x")


async def test_a_packed_answer_is_unpacked() -> None:
    body = gzip.compress(encode(composed(say("hello"))[0]))
    packed = Wire([body], headers={"content-type": "application/json", "content-encoding": "gzip"})
    async with Player(packed) as server, server.client() as client:
        assert (await client.responses.create("x")).output_text == "hello"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Wire([b"<html>hello</html>"], headers={"content-type": "text/html"}), UnexpectedAnswer),
        (answer(b"[1, 2]"), UnexpectedAnswer),
        (answer(b"{"), UnexpectedAnswer),
        (answer(b""), UnexpectedAnswer),
        (answer({"hello": "world"}), UnexpectedAnswer),
        (answer({"error": {"message": "in disguise", "type": "server_error"}}), StatusError),
        (Wire([b"x"], headers={"content-encoding": "gzip"}), UnexpectedAnswer),
        (Wire([b"SSH-2.0-OpenSSH_9.6\r\n"], framing="raw"), ConnectionFailed),
        (
            Wire([b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}", Step.CLOSE], framing="raw"),
            ConnectionFailed,
        ),
    ],
)
async def test_what_is_no_answer_is_told_in_our_own_words(reply: Wire, expected: type[AntiphonError]) -> None:
    async with Player(reply) as server, server.client() as client:
        with pytest.raises(expected):
            await client.responses.create("x")


async def test_a_failed_response_raises_and_an_incomplete_one_does_not() -> None:
    failed = composed([TextDelta("so far"), Failure(server_error("it broke"))])[0]
    async with Player(answer(encode(failed))) as server, server.client() as client:
        with pytest.raises(ResponseFailed, match="it broke") as caught:
            await client.responses.create("x")
        assert caught.value.response.output_text == "so far"
        assert (await client.responses.retrieve("resp_1")).status == "failed"


async def test_a_server_that_streams_without_being_asked_is_understood() -> None:
    async with Player(streamed("hello")) as server, server.client() as client:
        assert (await client.responses.create("x")).output_text == "hello"


async def test_answers_with_few_keys_and_unknown_ones_are_read() -> None:
    short = {
        "id": "resp_1",
        "acme:cost": 3,
        "output": [
            {"type": "acme:search", "id": "s_1", "status": "completed", "hits": 2},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "hi", "z": 1}],
            },
        ],
    }
    async with Player(answer(short)) as server, server.client() as client:
        response = await client.responses.create("x")
    assert (response.status, response.output_text) == ("completed", "hi")
    assert isinstance(response.output[0], Opaque)
    assert response.output[0].status == "completed"
    assert b'"acme:cost":3' in encode(response)
    assert b'"hits"' in encode(response)


async def test_connections_are_used_again() -> None:
    async with Player(whole("a"), streamed("b"), whole("c")) as server, server.client() as client:
        await client.responses.create("x")
        async with client.responses.stream("x") as stream:
            await stream.final()
        await client.responses.create("x")
    assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize(
    "input", [5, [{"role": object()}], "\ud800"], ids=["number", "object", "half a character"]
)
async def test_what_is_no_json_is_told_before_anything_is_sent(input: Any) -> None:
    unknown: Any = {"seed": 1}
    async with Player(whole("hi")) as server, server.client() as client:
        with pytest.raises(UsageError):
            await client.responses.create(input)
        with pytest.raises(UsageError, match="seed"):
            await client.responses.create("x", **unknown)
        with pytest.raises(UsageError, match="an id is needed"):
            await client.responses.retrieve("")
    assert server.requests == []


async def test_https_where_there_is_no_tls_is_told(gateway: Serving) -> None:
    address = f"{gateway.url}/v1".replace("http://", "https://")
    async with AsyncClient(address, trust_env=False, retries=QUICK) as client:
        with pytest.raises(ConnectionFailed, match="is it one for http://, without TLS"):
            await client.responses.create("Hello")
