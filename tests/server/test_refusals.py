"""What a request must look like, and what is answered when it does not, or when the upstream does not."""

import json
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import dial, raw, turn
from tests.server.servers import DEADLINE, Client, Serving

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.fixture(scope="module")
def narrow(serve_all: Serve, talking: Voice) -> Serving:
    """A server that takes 2,000 bytes at a time."""
    return serve_all(talking.toml, SERVER__BODY_LIMIT="2000")


def test_a_body_over_the_limit_is_413(narrow: Serving, voice: Voice) -> None:
    client = narrow.client()
    room = 2000 - len(json.dumps({"input": ""}))
    whole = json.dumps({"input": "x" * room}).encode()
    over = json.dumps({"input": "x" * (room + 1)}).encode()

    def in_chunks(body: bytes) -> Iterator[bytes]:
        for start in range(0, len(body), 300):
            yield body[start : start + 300]

    assert client.ok("POST", "/v1/responses", content=whole, headers=JSON)
    assert client.ok("POST", "/v1/responses", content=in_chunks(whole), headers=JSON)
    for path in ("/v1/responses", "/v1/responses/compact", "/v1/conversations"):
        for body in (over, in_chunks(over)):
            error = client.refused(413, "POST", path, content=body, headers=JSON)
            assert error["code"] == "body_too_large"
            assert "2,000" in error["message"]
    assert len(voice.heard) == 2


def test_a_declared_length_is_refused_before_the_body_comes(narrow: Serving) -> None:
    head = raw(
        narrow,
        "POST /v1/responses HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Content-Length: 99999999999999",
    )
    assert head.startswith(b"HTTP/1.1 413 ")


def test_a_websocket_message_over_the_limit_closes_the_socket(narrow: Serving, voice: Voice) -> None:
    with dial(narrow) as socket:
        assert turn(socket, input="x" * 1000)["type"] == "response.completed"
        socket.send(json.dumps({"type": "response.create", "input": "x" * 2000}))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(DEADLINE)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    assert len(voice.heard) == 1


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/xml"],
)
def test_other_content_types_are_415(server: Serving, voice: Voice, kind: str) -> None:
    for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens", "/v1/conversations"):
        error = server.client().refused(
            415, "POST", path, content=b'{"input":"hi"}', headers={"Content-Type": kind}
        )
        assert error["code"] == "unsupported_media_type"
        assert "application/json" in error["message"]
        assert ("with curl, add -H" in error["message"]) == ("urlencoded" in kind)
    assert voice.heard == []


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"]
)
def test_every_spelling_of_json_is_taken(server: Serving, kind: str) -> None:
    headers = {"Content-Type": kind}
    assert server.client().ok("POST", "/v1/responses", content=b'{"input":"hi"}', headers=headers)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "no_body"),
        (b" \n", "invalid_json"),
        (b"{", "invalid_json"),
        (b"[]", "invalid_value"),
        (b'"hi"', "invalid_value"),
        (b'{"input":"\xff"}', "invalid_utf8"),
        (b'{"metadata":' + b"[" * 5000, "too_deep"),
    ],
)
def test_a_body_that_is_no_object_is_400(server: Serving, body: bytes, code: str) -> None:
    error = server.client().refused(400, "POST", "/v1/responses", content=body, headers=JSON)
    assert (error["type"], error["code"]) == ("invalid_request", code)


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ({}, "give one of `input`, `previous_response_id`, `conversation`, `instructions`"),
        ({"input": None, "zebra": 1}, "give one of `input`"),
        ({"inptu": "hi"}, "did you mean `input` for `inptu`?"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "did you mean `input` for `messages`?"),
        ({"prompt": "hi"}, "did you mean `input` for `prompt`?"),
        ({"previous_response": "resp_1"}, "did you mean `previous_response_id` for `previous_response`?"),
    ],
)
def test_a_request_with_nothing_to_answer_is_refused(
    server: Serving, voice: Voice, body: dict[str, object], advice: str
) -> None:
    """It was answered with an empty output, so that a misspelt `input` looked like a silent model."""
    with dial(server) as socket:
        told = turn(socket, **body)["error"]
    for more in ({}, {"stream": True}, {"background": True}):
        error = server.client().refused(400, "POST", "/v1/responses", json=body | more)
        assert (error["type"], error["code"], error["param"]) == ("invalid_request", "missing_field", "input")
        assert advice in error["message"]
        assert error == told
    assert voice.heard == []


@pytest.mark.parametrize("body", [{"instructions": "Greet."}, {"input": ""}, {"input": []}])
def test_a_request_with_little_to_answer_is_answered(server: Serving, body: dict[str, object]) -> None:
    assert server.client().ok("POST", "/v1/responses", json=body)["status"] == "completed"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/responses", "POST"),
        ("PUT", "/v1/responses", "POST"),
        ("OPTIONS", "/v1/responses", "POST"),
        ("PATCH", "/v1/responses/resp_1", "GET, DELETE"),
        ("GET", "/v1/responses/resp_1/cancel", "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/healthz", "GET"),
    ],
)
def test_a_wrong_method_is_405_and_says_which_are_right(
    server: Serving, method: str, path: str, allowed: str
) -> None:
    error = server.client().refused(405, method, path)
    assert error["code"] == "method_not_allowed"
    assert allowed in error["message"]
    assert server.client().request(method, path).headers["allow"] == allowed


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/nothing", "/v1/completions", "/v1/responses/a/b", "/v1/responses/{id}/x", "/%00"],
)
def test_an_unknown_path_is_404(server: Serving, path: str) -> None:
    error = server.client().refused(404, "POST", path, json={})
    assert (error["type"], error["code"]) == ("not_found", "unknown_path")


def test_a_final_slash_changes_nothing(server: Serving) -> None:
    assert server.client().ok("POST", "/v1/responses/", json={"input": "hi"})


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("stream", [False, True])
def test_the_upstreams_refusal_of_our_key_is_not_the_clients(
    server: Serving, voice: Voice, status: int, stream: bool
) -> None:
    voice.refuse(status, "Incorrect API key provided: sk-abcdef123456")
    error = server.client().refused(502, "POST", "/v1/responses", json={"input": "hi", "stream": stream})
    assert (error["type"], error["code"]) == ("server_error", "upstream_auth")
    assert "up:" in error["message"]
    assert "sk-abc" not in error["message"]


def test_an_unknown_model_is_404_and_the_message_lists_what_there_is(server: Serving, voice: Voice) -> None:
    client = server.client()
    for model in ("gpt-none", "none/some-model", "up/", ""):
        body = {"model": model, "input": "hi"}
        for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"):
            error = client.refused(404, "POST", path, json=body)
            assert (error["type"], error["code"], error["param"]) == ("not_found", "model_not_found", "model")
            assert "there is: model, full, scripted, up/…" in error["message"]
        with dial(server) as socket:
            envelope = turn(socket, **body)
            assert (envelope["status"], envelope["error"]["code"]) == (404, "model_not_found")
    assert voice.heard == []


def test_errors_speak_the_dialect_of_the_caller(server: Serving) -> None:
    theirs = server.client(X_Antiphon_Dialect="openai")
    assert theirs.refused(404, "GET", "/v1/responses/x")["type"] == "not_found_error"
    assert theirs.refused(400, "POST", "/v1/responses", json={"input": 1})["type"] == "invalid_request_error"


def test_the_client_is_told_what_was_wrong(server: Serving) -> None:
    client: Client = server.client()
    error = client.refused(400, "POST", "/v1/responses", json={"input": "x", "max_output_tokens": 3})
    assert error == {
        "type": "invalid_request",
        "message": "expected an integer of at least 16, got 3",
        "code": "invalid_value",
        "param": "max_output_tokens",
    }
