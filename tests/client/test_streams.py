"""A response while it is being made: events, words, the growing response, and streams that drop."""

import asyncio

import pytest

from antiphon.client import (
    AsyncClient,
    ResponseFailed,
    StatusError,
    StreamBroken,
    TimedOut,
    Timeouts,
    UnexpectedAnswer,
    UsageError,
)
from antiphon.client.transport import http
from antiphon.spec import events as ev
from antiphon.spec.codec import encode
from antiphon.spec.errors import server_error
from antiphon.stream.deltas import CallDelta, Failure, Finish, ReasoningDelta, TextDelta
from antiphon.stream.sse import DONE
from tests.client.scripted_server import Player, answer, composed, error, events, say, streamed
from tests.providers.fake_server import Step, Wire
from tests.server.servers import DEADLINE


async def test_events_words_and_the_growing_response(client: AsyncClient) -> None:
    script = 'x\n```script\n[{"reasoning": "hm"}, {"text": "one two", "chunk": 4}]\n```'
    async with client.responses.stream(script, model="demo") as stream:
        seen: list[str] = []
        async for event in stream:
            if isinstance(event, ev.OutputTextDeltaEvent):
                seen.append(event.delta)
                assert stream.response.output_text == "".join(seen)
                assert stream.response.status == "in_progress"
        response = await stream.final()
        assert stream.request_id
    assert seen == ["one ", "two"]
    assert response.status == "completed"
    assert response.output_text == "one two"
    assert await client.responses.retrieve(response.id) == response


async def test_words_alone(client: AsyncClient) -> None:
    async with client.responses.stream('x\n```script\n[{"text": "abcdef", "chunk": 2}]\n```') as stream:
        assert [word async for word in stream.text_deltas()] == ["ab", "cd", "ef"]


async def test_create_with_stream_is_an_open_stream(client: AsyncClient) -> None:
    stream = await client.responses.create("hello", stream=True)
    async with stream:
        assert (await stream.final()).output_text == "hello"


async def test_a_stream_that_was_not_opened_says_how_to() -> None:
    async with Player(streamed("hi")) as server, server.client() as client:
        stream = client.responses.stream("x")
        with pytest.raises(UsageError, match="with client"):
            await anext(stream)
        with pytest.raises(UsageError):
            _ = stream.response


async def test_leaving_early_closes_the_connection() -> None:
    _, pieces = composed(say("one", "two"))
    async with Player(Wire([*pieces[:5], Step.HANG])) as server, server.client() as client:
        async with client.responses.stream("x") as stream:
            async for event in stream:
                if isinstance(event, ev.OutputTextDeltaEvent):
                    break
        async with asyncio.timeout(DEADLINE):
            await server.gone.wait()
        assert stream.response.output_text == "one"
        with pytest.raises(StreamBroken, match=r"closed before .*; read it to its end, or take what came"):
            await stream.final()


async def test_a_cancelled_reader_closes_the_connection() -> None:
    _, pieces = composed(say("one", "two"))
    async with Player(Wire([*pieces[:5], Step.HANG])) as server, server.client() as client:
        heard = asyncio.Event()

        async def listen() -> None:
            async with client.responses.stream("x") as stream:
                async for _ in stream.text_deltas():
                    heard.set()

        listening = asyncio.create_task(listen())
        async with asyncio.timeout(DEADLINE):
            await heard.wait()
            listening.cancel()
            await server.gone.wait()
        with pytest.raises(asyncio.CancelledError):
            await listening


@pytest.mark.parametrize("fault", [Step.CLOSE, Step.RESET, DONE], ids=["close", "reset", "done"])
async def test_a_stream_that_breaks_off_raises_with_what_came(fault: Step | bytes) -> None:
    _, pieces = composed(say("one", "two"))
    async with (
        Player(Wire([*pieces[:5], fault])) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        with pytest.raises(StreamBroken) as caught:
            await stream.final()
        with pytest.raises(StreamBroken):
            await stream.final()
    assert caught.value.response.output_text == "one"
    assert caught.value.response.status == "failed"
    assert len(server.requests) == 1


async def test_a_stream_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came is kept until the end, so an endless answer would take all of the program's memory."""
    monkeypatch.setattr(http, "MAX_BODY", 20_000)
    _, pieces = composed(say(*["word "] * 200))
    async with (
        Player(Wire([*pieces, Step.HANG])) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        with pytest.raises(StreamBroken, match="larger than 20,000 bytes") as caught:
            await stream.final()
    assert caught.value.response.output_text.startswith("word word ")
    assert len(server.requests) == 1


async def test_a_silent_stream_runs_into_its_limit() -> None:
    _, pieces = composed(say("one", "two"))
    async with (
        Player(Wire([*pieces[:5], Step.HANG])) as server,
        server.client(timeouts=Timeouts(idle=0.05)) as client,
        client.responses.stream("x") as stream,
    ):
        with pytest.raises(TimedOut) as caught:
            await stream.final()
    assert caught.value.limit == "idle"


async def test_a_failed_response_ends_with_its_event_and_final_raises() -> None:
    response, pieces = composed([TextDelta("so far"), Failure(server_error("it broke"))])
    async with (
        Player(events([*pieces, DONE])) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        kinds = [event.type async for event in stream]
        assert kinds[-2:] == ["error", "response.failed"]
        with pytest.raises(ResponseFailed, match="it broke") as caught:
            await stream.final()
    assert caught.value.response == response


async def test_an_error_without_a_terminal_event_is_a_failed_response() -> None:
    _, pieces = composed([TextDelta("so far"), Failure(server_error("it broke"))])
    async with (
        Player(events(pieces[:-1])) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        with pytest.raises(ResponseFailed, match="it broke"):
            await stream.final()


async def test_an_incomplete_response_is_a_normal_end() -> None:
    _, pieces = composed([TextDelta("so far"), Finish("length")])
    async with (
        Player(events(pieces)) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        response = await stream.final()
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


async def test_what_follows_the_end_is_ignored_and_not_waited_for() -> None:
    _, pieces = composed(say("one"))
    async with Player(Wire([*pieces, pieces[4], Step.HANG])) as server, server.client() as client:
        async with asyncio.timeout(DEADLINE), client.responses.stream("x") as stream:
            seen = [event async for event in stream]
        assert seen[-1].is_terminal
        assert sum(isinstance(event, ev.OutputTextDeltaEvent) for event in seen) == 1


async def test_unknown_events_come_through_and_break_nothing() -> None:
    _, pieces = composed(say("one"))
    extra = b'event: acme:ping\ndata: {"type":"acme:ping","sequence_number":99,"x":1}\n\n'
    async with (
        Player(events([*pieces[:3], extra, b"data: not json\n\n", *pieces[3:]])) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        seen = [event async for event in stream]
    (other,) = [event for event in seen if isinstance(event, ev.OtherEvent)]
    assert (other.type, other.fields["x"]) == ("acme:ping", 1)
    assert stream.response.output_text == "one"


async def test_json_where_a_stream_was_due() -> None:
    response, _ = composed(
        [ReasoningDelta("hm"), TextDelta("hi"), CallDelta(1, "{}", "f", "call_1"), Finish()]
    )
    async with (
        Player(answer(encode(response))) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        assert [word async for word in stream.text_deltas()] == ["hi"]
        assert (await stream.final()).output == response.output


async def test_a_page_where_a_stream_was_due() -> None:
    async with (
        Player(Wire([b"<html></html>"], headers={"content-type": "text/html"})) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        with pytest.raises(UnexpectedAnswer, match="text/html"):
            await stream.final()


async def test_a_dropped_background_stream_is_taken_up_where_it_was() -> None:
    response, pieces = composed(say("one ", "two ", "three"), background=True)
    drops = [Wire([*pieces[:5], Step.RESET]), Wire([pieces[5], Step.CLOSE]), events([*pieces[6:], DONE])]
    async with (
        Player(*drops) as server,
        server.client() as client,
        client.responses.stream("x", background=True) as stream,
    ):
        seen = [event async for event in stream]
    assert b"".join(event.to_json() for event in seen) == b"".join(
        piece.partition(b"data: ")[2].strip() for piece in pieces
    )
    assert stream.response == response
    assert server.paths[1:] == [f"GET /v1/responses/{response.id}"] * 2
    assert [one.query for one in server.requests[1:]] == [
        "stream=true&starting_after=4",
        "stream=true&starting_after=5",
    ]


async def test_a_server_that_starts_again_from_the_beginning_repeats_no_word() -> None:
    response, pieces = composed(say("one ", "two"), background=True)
    async with (
        Player(Wire([*pieces[:5], Step.RESET]), events(pieces)) as server,
        server.client() as client,
        client.responses.stream("x", background=True) as stream,
    ):
        assert [word async for word in stream.text_deltas()] == ["one ", "two"]
    assert stream.response == response


async def test_silence_in_a_background_stream_is_a_drop_too() -> None:
    response, pieces = composed(say("one ", "two"), background=True)
    async with (
        Player(Wire([*pieces[:5], Step.HANG]), events(pieces[5:])) as server,
        server.client(timeouts=Timeouts(idle=1)) as client,
        client.responses.stream("x", background=True) as stream,
    ):
        assert (await stream.final()) == response


async def test_a_background_stream_that_cannot_be_taken_up_breaks() -> None:
    _, pieces = composed(say("one", "two"), background=True)
    begun = Wire([*pieces[:5], Step.RESET])
    async with (
        Player(begun, error(404, "not_found", "forgotten")) as server,
        server.client() as client,
        client.responses.stream("x", background=True) as stream,
    ):
        with pytest.raises(StreamBroken, match="forgotten"):
            await stream.final()
    async with (
        Player(begun, Wire([Step.CLOSE])) as server,
        server.client() as client,
        client.responses.stream("x", background=True) as stream,
    ):
        with pytest.raises(StreamBroken, match="after 2 attempts"):
            await stream.final()


async def test_a_stored_stream_is_read_from_the_middle(client: AsyncClient) -> None:
    script = 'x\n```script\n[{"text": "one two", "chunk": 4}]\n```'
    async with client.responses.stream(script, background=True) as stream:
        seen = [event async for event in stream]
    async with await client.responses.retrieve(stream.response.id, stream=True, starting_after=5) as again:
        rest = [event async for event in again]
    assert [event.delta for event in rest if isinstance(event, ev.OutputTextDeltaEvent)] == ["two"]
    assert {event.sequence_number for event in rest} == set(range(6, len(seen)))
    assert again.response == stream.response
    with pytest.raises(StatusError, match="background"):
        await client.responses.retrieve((await client.responses.create("x")).id, stream=True)
