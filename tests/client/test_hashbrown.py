"""`hashbrown_frames`: frames out of any Open Responses server."""

import asyncio
import doctest
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.client import hashbrown
from antiphon.client.hashbrown import endpoint, hashbrown_frames
from antiphon.client.settings import Timeouts
from antiphon.client.transport.body_formats import Payloads
from antiphon.spec.codec import encode
from antiphon.spec.errors import ErrorPayload
from antiphon.stream.deltas import CallDelta, Failure, Finish, ReasoningDelta, RefusalDelta, TextDelta
from antiphon.stream.sse import DONE
from antiphon.wires.hashbrown.frames import NO_THREADS, OTHER_THREAD
from tests.client.scripted_server import PATIENT, Player, Reply, answer, composed, events, say, streamed
from tests.providers.fake_server import Step
from tests.server.servers import Serving
from tests.wires.hashbrown.frame_reader import Frame, frame_types, message, unframed

Json = dict[str, Any]

HELLO: Json = {"role": "user", "content": "Hi"}
BODY: Json = {"operation": "generate", "model": "m", "system": "", "messages": [HELLO]}
SAID: Json = {"role": "assistant", "content": "Hello", "toolCalls": []}


async def told(request: Json | bytes = BODY, **options: Any) -> list[Frame]:
    given: Json = {"timeouts": PATIENT, **options}
    return unframed(b"".join([chunk async for chunk in hashbrown_frames(request, **given)]))


async def played(*replies: Reply, request: Json | bytes = BODY, **options: Any) -> list[Frame]:
    async with Player(*replies) as server:
        return await told(request, base_url=server.base_url, **options)


def error_of(frames: list[Frame]) -> Json:
    assert frames[-1]["type"] == "error", frames
    return dict(frames[-1]["error"])


def raw(*payloads: Json | str) -> bytes:
    texts = [one if isinstance(one, str) else json.dumps(one) for one in payloads]
    return b"".join(f"data: {text}\n\n".encode() for text in texts)


CREATED: Json = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
COMPLETED: Json = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}


def words(text: str) -> Json:
    return {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": text}


# --- options and transport --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://a.example", "https://a.example/v1/responses"),
        ("https://a.example///", "https://a.example/v1/responses"),
        ("https://a.example/v1/responses/", "https://a.example/v1/responses"),
        ("https://a.example/v1", "https://a.example/v1/responses"),
        ("https://a.example/proxy", "https://a.example/proxy/v1/responses"),
        ("https://a.example/v1?version=2", "https://a.example/v1/responses?version=2"),
    ],
)
def test_the_address(base: str, url: str) -> None:
    assert endpoint(base) == url
    assert doctest.testmod(hashbrown).failed == 0


async def test_headers_and_stream() -> None:
    async with Player(streamed("Hello")) as server:
        await told(base_url=server.base_url, api_key="secret", headers={"X-Mine": "1", "Accept": "*/*"})
        (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/responses")
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["content-type"] == "application/json"
    assert (request.headers["accept"], request.headers["x-mine"]) == ("*/*", "1")
    assert request.body["stream"] is True


async def test_without_a_key_there_is_no_authorization() -> None:
    async with Player(streamed("Hello")) as server:
        await told(base_url=server.base_url)
        assert "authorization" not in server.requests[0].headers
        assert server.requests[0].headers["accept"] == "text/event-stream"


async def test_a_query_goes_with_the_request() -> None:
    async with Player(streamed("Hello")) as server:
        await told(base_url=f"{server.base_url}?version=2")
        assert server.requests[0].query == "version=2"


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_transform_runs_last_and_may_be_asynchronous(is_async: bool) -> None:
    def change(request: Json) -> Json:
        assert request["input"] == [{"type": "message", **HELLO}]
        return {**request, "model": "other", "stream": False}

    async def change_later(request: Json) -> Json:
        await asyncio.sleep(0)
        return change(request)

    async with Player(streamed("Hello")) as server:
        await told(base_url=server.base_url, transform_request=change_later if is_async else change)
        assert server.requests[0].body["model"] == "other"
        assert server.requests[0].body["stream"] is True


async def test_the_transport_can_be_replaced() -> None:
    async def handle(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "https://a.example/v1/responses"
        return httpx.Response(200, content=b"".join(composed(say("Hello"))[1]))

    frames = await told(base_url="https://a.example", transport=httpx.MockTransport(handle))
    assert message(frames)["content"] == "Hello"


async def test_a_missing_address_is_an_error_frame() -> None:
    assert error_of(await told(base_url="", dialect="open-responses"))["type"] == "invalid_request"
    assert error_of(await told(base_url="nonsense", dialect="open-responses"))["type"] == "invalid_request"
    assert frame_types(await told(base_url="")) == ["generation-error"]


async def test_a_body_that_cannot_be_read_is_an_error_frame() -> None:
    frames = await told(
        {"messages": [{"role": "robot"}]}, base_url="http://127.0.0.1:1", dialect="open-responses"
    )
    error = error_of(frames)
    assert (error["type"], error["param"]) == ("invalid_request", "messages[0].role")
    empty = await told({"messages": []}, base_url="http://127.0.0.1:1", dialect="open-responses")
    assert error_of(empty)["param"] == "messages"


@pytest.mark.parametrize("cut", [Step.RESET, Step.CLOSE])
async def test_a_network_failure_is_an_error_frame(cut: Step) -> None:
    gone = await told(base_url="http://127.0.0.1:1", dialect="open-responses")
    assert error_of(gone)["type"] == "network_error"
    _, pieces = composed(say("Hello"))
    frames = await played(events([*pieces[:5], cut]), dialect="open-responses")
    assert error_of(frames)["type"] == "network_error"
    assert "response.output_text.delta" in frame_types(frames)


async def test_a_refusal_is_told_with_status_text_code_and_500_characters() -> None:
    frames = await played(answer(b"x" * 600, 503), dialect="open-responses")
    assert error_of(frames) == {
        "type": "http_error",
        "message": f"Service Unavailable (503): {'x' * 500}",
    }
    assert (await played(answer(b"", 404)))[-1]["error"] == "Not Found (404)"
    odd = await played(answer(b"why", 499))
    assert odd[-1]["error"].endswith("(499): why")


async def test_a_refusal_with_an_error_of_its_own_is_told_as_that() -> None:
    error = {"type": "overloaded_error", "code": 529, "message": "Overloaded", "param": "input"}
    frames = await played(answer(json.dumps({"error": error}).encode(), 529), dialect="open-responses")
    assert error_of(frames) == {**error, "code": "529"}
    untyped = json.dumps({"error": {"message": "No."}}).encode()
    assert error_of(await played(answer(untyped, 500), dialect="open-responses"))["type"] == "http_error"


@pytest.mark.parametrize("with_event", [True, False])
async def test_an_error_in_a_stream_keeps_the_type_that_the_server_gave_it(with_event: bool) -> None:
    error = {"type": "overloaded_error", "code": "busy", "message": "Overloaded"}
    failed = {"type": "response.failed", "response": {"id": "r", "status": "failed", "error": error}}
    told = [{"type": "error", "error": error}, failed] if with_event else [failed]
    frames = await played(events([raw(CREATED, words("Hi"), *told)]), dialect="open-responses")
    assert error_of(frames) == error


async def test_the_key_is_in_no_error() -> None:
    frames = await played(answer(b"the key sk-secret is wrong", 401), api_key="sk-secret")
    assert "sk-secret" not in json.dumps(frames)
    assert "***" in frames[-1]["error"]


@pytest.mark.parametrize("body", [b"", b"<html>hello</html>"])
async def test_an_answer_without_events_is_an_error_frame(body: bytes) -> None:
    frames = await played(events([body], headers={"content-type": "text/html"}), dialect="open-responses")
    assert error_of(frames)["type"] == "invalid_response"


async def test_a_server_that_says_nothing_is_an_error_frame() -> None:
    quick = Timeouts(connect=60, read=60, idle=0.05, total=60)
    frames = await played(events([raw(CREATED), Step.HANG]), dialect="open-responses", timeouts=quick)
    assert error_of(frames)["type"] == "network_error"


# --- reading ----------------------------------------------------------------------------------------------


async def test_crlf_comments_and_data_on_two_lines_are_read() -> None:
    text = (
        ": hello\r\n\r\n"
        'event: response.created\r\ndata: {"response": {"id": "r",\r\ndata: "status": "in_progress"}}\r\n\r\n'
        'event:response.output_text.delta\r\ndata:{"item_id":"m","delta":"Hi"}\r\n\r\n'
        "event: response.completed\r\n"
        'data: {"response": {"id": "r", "status": "completed"}}'
    )
    frames = await played(events([text.encode()]))
    assert message(frames)["content"] == "Hi"
    assert frames[-1]["type"] == "generation-finish"


@given(size=st.integers(1, 60))
def test_it_does_not_matter_how_the_bytes_are_cut(size: int) -> None:
    data = b"".join(composed(say("Hé", "llo 🙂"))[1]) + DONE

    async def handle(request: httpx.Request) -> httpx.Response:
        async def pieces() -> AsyncIterator[bytes]:
            for n in range(0, len(data), size):
                yield data[n : n + size]

        return httpx.Response(200, content=pieces())

    async def run() -> list[Frame]:
        return await told(base_url="http://a", transport=httpx.MockTransport(handle))

    assert message(asyncio.run(run()))["content"] == "Héllo 🙂"


async def test_what_follows_the_end_is_ignored() -> None:
    after = raw(words("more"), {"type": "error", "error": {"message": "late"}})
    frames = await played(events([raw(CREATED, words("Hi"), COMPLETED) + after]))
    assert message(frames)["content"] == "Hi"
    assert frames[-1]["type"] == "generation-finish"


async def test_done_before_the_end_is_an_error() -> None:
    frames = await played(events([raw(CREATED, words("Hi"), "[DONE]", COMPLETED)]), dialect="open-responses")
    assert error_of(frames)["type"] == "stream_error"


async def test_a_stream_that_just_ends_is_an_error() -> None:
    frames = await played(events([raw(CREATED, words("Hi"))]), dialect="open-responses")
    assert error_of(frames)["type"] == "stream_error"


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ("{not json", "invalid_json"),
        ("[1, 2]", "invalid_json"),
        ({"delta": "no type"}, "invalid_event"),
        ({"type": "response.output_text.delta", "item_id": "m"}, "invalid_event"),
        ({"type": "response.output_item.added", "output_index": 0}, "invalid_event"),
        ({"type": "response.completed"}, "invalid_event"),
    ],
    ids=str,
)
async def test_what_cannot_be_read_is_an_error_frame(payload: Json | str, kind: str) -> None:
    frames = await played(events([raw(CREATED, words("Hi"), payload, COMPLETED)]), dialect="open-responses")
    assert error_of(frames)["type"] == kind
    assert "response.output_text.delta" in frame_types(frames)


async def test_unknown_events_are_ignored_and_empty_strings_accepted() -> None:
    strange = {"type": "acme:beat", "n": 1}
    done = {"type": "response.output_text.done", "item_id": "m", "output_index": 0, "text": ""}
    stream = raw(CREATED, strange, words(""), done, {"type": "response.brand_new"}, COMPLETED)
    frames = await played(events([stream]), dialect="open-responses")
    assert frames[-1]["type"] == "response.completed"


async def test_chunk_boundaries_can_be_preserved() -> None:
    stream = events([raw(CREATED, words(""), words("Hi"), COMPLETED)])
    kind = "response.output_text.delta"
    less = await played(stream, dialect="open-responses")
    more = await played(stream, dialect="open-responses", preserve_chunk_boundaries=True)
    assert (frame_types(less).count(kind), frame_types(more).count(kind)) == (1, 2)


async def test_camel_case_and_the_event_line_are_understood() -> None:
    stream = (
        b'event: response.created\ndata: {"response":{"id":"r","status":"in_progress"}}\n\n'
        b'event: response.output_text.delta\ndata: {"itemId":"m","outputIndex":0,"delta":"Hi"}\n\n'
    ) + raw(COMPLETED)
    assert message(await played(events([stream])))["content"] == "Hi"


async def test_an_event_that_is_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.client.hashbrown.Payloads", lambda: Payloads(1000))
    frames = await played(events([raw(CREATED, words("x" * 5000))]), dialect="open-responses")
    assert error_of(frames)["type"] == "invalid_response"


# --- a whole run: text, tool, refusal, reasoning, error ---------------------------------------------------


async def test_a_tool_call_refusal_reasoning_and_error_are_told() -> None:
    def stream(*deltas: Any) -> Reply:
        return events([b"".join(composed(deltas)[1]) + DONE])

    call = await played(stream(CallDelta(0, '{"a":1}', "f", "call_1"), Finish("tool_calls")))
    assert message(call)["toolCalls"][0]["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert message(await played(stream(RefusalDelta("No."), Finish())))["content"] == "No."
    thought = await played(stream(ReasoningDelta("hm"), TextDelta("Yes"), Finish()), dialect="open-responses")
    assert [f["delta"] for f in thought if f["type"] == "response.reasoning.delta"] == ["hm"]
    broken = Failure(ErrorPayload("model_error", "it broke", code="x"))
    failed = await played(stream(TextDelta("Hel"), broken), dialect="open-responses")
    assert error_of(failed) == {"type": "model_error", "message": "it broke", "code": "x"}


async def test_an_answer_that_is_not_streamed_is_read_too() -> None:
    response, _ = composed(say("Hello"))
    assert message(await played(answer(encode(response))))["content"] == "Hello"


# --- threads ----------------------------------------------------------------------------------------------


class Shelf:
    """Threads as a program might keep them."""

    def __init__(self) -> None:
        self.threads: dict[str, list[Json]] = {}

    async def load(self, id: str) -> list[Json]:
        return self.threads[id]

    def save(self, messages: list[Json], id: str | None) -> str:
        id = id or f"t{len(self.threads)}"
        self.threads[id] = messages
        return id

    @property
    def options(self) -> Json:
        return {"load_thread": self.load, "save_thread": self.save}


async def test_a_new_thread_is_saved_after_the_answer() -> None:
    shelf = Shelf()
    frames = await played(streamed("Hello"), **shelf.options)
    assert frame_types(frames)[-3:] == ["generation-finish", "thread-save-start", "thread-save-success"]
    assert frames[-1]["threadId"] == "t0"
    assert shelf.threads == {"t0": [HELLO, SAID]}


@pytest.mark.parametrize("dialect", ["generation", "open-responses"])
async def test_two_turns_have_one_id_and_one_thread(dialect: str) -> None:
    shelf = Shelf()
    question = {"role": "user", "content": "And now?"}
    async with Player(streamed("Hello"), streamed("Bye")) as server:
        options = {"base_url": server.base_url, "dialect": dialect, **shelf.options}
        first = await told(**options)
        again = {**BODY, "messages": [SAID, question], "threadId": first[-1]["threadId"]}
        second = await told(again, **options)
        assert [item["role"] for item in server.requests[1].body["input"]] == ["user", "assistant", "user"]
    assert frame_types(second)[:2] == ["thread-load-start", "thread-load-success"]
    assert "thread" not in second[1]
    assert second[-1] == {"type": "thread-save-success", "threadId": "t0"}
    assert shelf.threads["t0"] == [HELLO, SAID, question, {**SAID, "content": "Bye"}]


async def test_loading_tells_the_thread_and_ends_there() -> None:
    shelf = Shelf()
    shelf.threads["t"] = [HELLO, SAID]
    frames = await told(
        {"operation": "load-thread", "threadId": "t"}, base_url="http://127.0.0.1:1", **shelf.options
    )
    assert frames == [
        {"type": "thread-load-start"},
        {"type": "thread-load-success", "thread": [HELLO, SAID]},
    ]


@pytest.mark.parametrize("thread", [None, [{"role": "ghost"}]])
async def test_a_thread_that_cannot_be_loaded_ends_it(thread: Any) -> None:
    def load(id: str) -> Any:
        if thread is None:
            raise LookupError("gone")
        return thread

    frames = await told({**BODY, "threadId": "t"}, base_url="http://127.0.0.1:1", load_thread=load)
    assert frame_types(frames) == ["thread-load-start", "thread-load-failure"]
    assert frames[1]["error"] == "gone" or frames[1]["error"].startswith("thread[0].role: ")


async def test_without_a_way_to_load_there_is_a_failure() -> None:
    frames = await told({**BODY, "threadId": "t"}, base_url="http://127.0.0.1:1")
    assert frames[1:] == [{"type": "thread-load-failure", "error": NO_THREADS}]


async def test_without_threads_there_are_no_frames_about_them() -> None:
    shelf = Shelf()
    frames = await played(
        streamed("Hello"), request={**BODY, "threadId": "t"}, threads=False, **shelf.options
    )
    assert not any(kind.startswith("thread-") for kind in frame_types(frames))
    assert shelf.threads == {}


async def test_another_id_is_a_failure() -> None:
    frames = await played(
        streamed("Hello"),
        request={**BODY, "threadId": "t"},
        load_thread=lambda id: [],
        save_thread=lambda messages, id: "other",
    )
    assert frames[-1] == {"type": "thread-save-failure", "error": OTHER_THREAD}


async def test_a_failing_save_is_told() -> None:
    def save(messages: list[Json], id: str | None) -> str:
        raise OSError("disk full")

    frames = await played(streamed("Hello"), save_thread=save)
    assert frames[-1] == {"type": "thread-save-failure", "error": "disk full"}


async def test_nothing_is_saved_after_an_error() -> None:
    shelf = Shelf()
    frames = await played(answer(b"no", 500), **shelf.options)
    assert frames[-1]["type"] == "generation-error"
    assert shelf.threads == {}


async def test_a_result_without_its_call_is_told_with_its_place_in_the_request() -> None:
    orphan = {"role": "tool", "content": {}, "toolCallId": "c", "toolName": "f"}
    frames = await told(
        {**BODY, "messages": [orphan], "threadId": "t"},
        base_url="http://127.0.0.1:1",
        load_thread=lambda id: [HELLO, SAID],
        dialect="open-responses",
    )
    assert error_of(frames)["param"] == "messages[0].toolCallId"


# --- whole --------------------------------------------------------------------------------------------------


async def test_who_stops_listening_ends_the_request() -> None:
    async with Player(events([raw(CREATED, words("Hi")), Step.HANG])) as server:
        frames = hashbrown_frames(BODY, base_url=server.base_url, timeouts=PATIENT)
        async with aclosing(frames):
            assert await anext(frames)
        async with asyncio.timeout(5):
            await server.gone.wait()


async def test_frames_come_from_the_gateway_as_from_any_other_server(gateway: Serving) -> None:
    frames = await told(json.dumps(BODY | {"model": "demo"}).encode(), base_url=gateway.url)
    assert message(frames)["content"] == "Hi"
