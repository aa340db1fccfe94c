"""The openai dialect, judged by the openai package itself: its types, and its client on a socket."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import get_args

import openai
import pytest
from hypothesis import given
from msgspec.structs import replace as altered
from openai.types.responses import Response as OpenAIResponse
from openai.types.responses import ResponseErrorEvent, ResponseFailedEvent, ResponseStreamEvent
from pydantic import BaseModel, ValidationError

from antiphon.spec import events as ev
from antiphon.spec.errors import ERROR_TYPE_ALIASES, ErrorPayload, model_error
from antiphon.spec.response import Usage
from antiphon.stream import sse
from antiphon.stream.deltas import AnyDelta, Failure, Finish, ReasoningDelta, TextDelta
from antiphon.stream.dialects import AI_SDK, OPEN_RESPONSES, OPENAI, Dialect
from tests.stream.reading import Payload, Run
from tests.stream.strategies import runs
from tests.stream.writing import BROKEN, EVERYTHING, SCHEMA, compose, of_type, structured, write

OPENAI_EVENTS: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model
    for model in get_args(get_args(ResponseStreamEvent)[0])
}
# Enumerations that OpenAI's own service does not keep to, and whose other values our clients act on.
OPEN_ENUMS = (("error", "code"), ("incomplete_details", "reason"))


def assert_openai(model: type[BaseModel], payload: Payload) -> None:
    try:
        model.model_validate_json(json.dumps(payload), strict=True)
    except ValidationError as error:
        faults = [f for f in error.errors() if f["loc"][-2:] not in OPEN_ENUMS]
        assert faults == []


def assert_openai_event(payload: Payload) -> None:
    assert_openai(OPENAI_EVENTS[payload["type"]], payload)


@given(runs)
def test_the_openai_package_accepts_every_event(run: Run) -> None:
    body, ending, tail = run
    for payload in write(*body, ending, *tail, dialect=OPENAI):
        assert_openai_event(payload)


@pytest.mark.parametrize("ending", [Finish(), Finish("length"), BROKEN])
def test_the_openai_package_accepts_every_kind_of_item(ending: AnyDelta) -> None:
    written = write(*EVERYTHING, ending, response=structured(), dialect=OPENAI)
    for payload in written:
        assert_openai_event(payload)
    assert {item["type"] for item in written[-1]["response"]["output"]} == {
        "reasoning",
        "web_search_call",
        "message",
        "function_call",
        "custom_tool_call",
    }


def test_the_openai_package_refuses_the_strict_dialect_where_they_differ() -> None:
    """If this fails, the openai dialect has become easier than it is."""
    refused = set()
    for payload in write(*EVERYTHING, Finish(), response=structured(), dialect=OPEN_RESPONSES):
        try:
            assert_openai_event(payload)
        except (AssertionError, KeyError):
            refused.add(payload["type"])
    assert refused == {
        "response.created",
        "response.in_progress",
        "response.reasoning.delta",
        "response.reasoning.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.completed",
    }


def test_the_openai_package_accepts_the_response() -> None:
    response = structured()
    response.usage = Usage.of(3, 4)
    data = json.loads(OPENAI.encode_response(response))
    assert_openai(OpenAIResponse, data)
    assert data["text"]["format"]["schema"] == SCHEMA
    assert data["usage"]["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}


@pytest.mark.parametrize("dialect", [OPENAI, AI_SDK], ids=lambda dialect: dialect.name)
def test_a_cancelled_response_is_one_of_openais(dialect: Dialect) -> None:
    """LiteLLM holds the reason of an incomplete response to the package's enumeration, too."""
    last = write(TextDelta("I was"), Finish("cancelled"), dialect=dialect)[-1]
    OPENAI_EVENTS[last["type"]].model_validate_json(json.dumps(last), strict=True)
    assert (last["response"]["status"], last["response"]["incomplete_details"]) == ("cancelled", None)


def test_tokens_written_to_a_cache_are_the_providers_figure() -> None:
    usage = Usage.of(120, 4, cached=7, written=100)
    data = json.loads(OPENAI.encode_response(altered(structured(), usage=usage)))
    assert_openai(OpenAIResponse, data)
    assert data["usage"]["input_tokens_details"] == {"cached_tokens": 7, "cache_write_tokens": 100}


def test_openai_raw_reasoning_has_its_own_name() -> None:
    written = write(ReasoningDelta("hm"), Finish(), dialect=OPENAI)
    deltas = of_type(written, "response.reasoning_text.delta", "response.reasoning_text.done")
    assert [payload.get("delta", payload.get("text")) for payload in deltas] == ["hm", "hm"]
    assert not of_type(written, "response.reasoning.delta", "response.reasoning.done")


@pytest.mark.parametrize("name", ["invalid_request", "not_found", "too_many_requests", "permission_denied"])
def test_openai_error_types_are_ones_that_we_read_back(name: str) -> None:
    shown = OPENAI.error(ErrorPayload(name, "no", code="c", param="p"))
    assert shown.type != name
    assert ERROR_TYPE_ALIASES[shown.type] == name
    assert (shown.message, shown.code, shown.param) == ("no", "c", "p")


def test_an_error_type_that_is_the_same_stays() -> None:
    payload = ErrorPayload("server_error", "no")
    assert OPENAI.error(payload) is payload
    assert OPEN_RESPONSES.error(payload) is payload


def test_openai_error_events_are_flat() -> None:
    error = ErrorPayload("too_many_requests", "Slow down.", param="input")
    written = write(Failure(error), dialect=OPENAI)
    assert of_type(written, "error") == [
        {
            "type": "error",
            "sequence_number": 2,
            "code": "rate_limit_error",
            "message": "Slow down.",
            "param": "input",
        }
    ]
    assert written[-1]["response"]["error"] == {"code": "rate_limit_exceeded", "message": "Slow down."}


def test_error_events_may_be_nested_under_openai_names() -> None:
    nested = replace(OPENAI, flat_error_event=False)
    event = ev.ErrorEvent(4, ErrorPayload("invalid_request", "no", code="x"))
    assert json.loads(nested.encode(event))["error"] == {
        "type": "invalid_request_error",
        "message": "no",
        "code": "x",
        "param": None,
    }


def test_a_code_that_clients_act_on_goes_out_unchanged() -> None:
    error = model_error("too long").with_code("context_length_exceeded")
    assert write(Failure(error), dialect=OPENAI)[-1]["response"]["error"]["code"] == "context_length_exceeded"


@contextmanager
def serving(body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sent(dialect: Dialect, *deltas: AnyDelta) -> bytes:
    events = compose(dialect, *deltas)
    return b"".join(sse.encode(dialect.type_of(e), dialect.encode(e)) for e in events) + sse.DONE


def read_by_openai(url: str) -> list[BaseModel]:
    with (
        openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client,
        client.responses.create(model="m", input="hi", stream=True) as stream,
    ):
        return list(stream)


def test_the_openai_client_reads_the_stream_to_its_end_past_an_error() -> None:
    with serving(sent(OPENAI, TextDelta("Once"), BROKEN)) as url:
        events = read_by_openai(url)
    assert isinstance(events[-2], ResponseErrorEvent)
    assert isinstance(events[-1], ResponseFailedEvent)
    assert events[-1].response.error is not None
    assert events[-1].response.error.message == "It broke."
    assert events[-1].response.output_text == "Once"


def test_the_openai_client_breaks_off_at_a_nested_error() -> None:
    """Why its dialect has them flat: here the client never sees the failed response."""
    body = sent(OPEN_RESPONSES, TextDelta("Once"), BROKEN)
    with serving(body) as url, pytest.raises(openai.APIError, match="It broke"):
        read_by_openai(url)
