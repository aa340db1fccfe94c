"""What `/api/hashbrown` makes of an upstream's own errors, call ids and chunks."""

import json
import threading
from typing import Any

import pytest

from tests.server.conftest import Serve
from tests.server.servers import Client
from tests.server.upstream import END, Call, Upstream, chunk
from tests.wires.hashbrown.frame_reader import Frame, folded, message, unframed

OPEN = "?dialect=open-responses"


@pytest.fixture
def client(serve: Serve, upstream: Upstream) -> Client:
    return serve(upstream.toml).client()


def ask(client: Client, upstream: Upstream, query: str, *said: bytes) -> list[Frame]:
    """The frames of an answer in which the upstream sends exactly these bytes."""

    def play() -> None:
        call: Call = upstream.calls.get()
        call.accept()
        for data in said:
            call.write(data)
        call.over.set()

    playing = threading.Thread(target=play)
    playing.start()
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    answer = client.post(f"/api/hashbrown{query}", json=body)
    playing.join()
    assert answer.status_code == 200, answer.text
    folded(answer.content)
    return unframed(answer.content)


def complaint(**error: Any) -> bytes:
    return b"data: " + json.dumps({"error": error}).encode() + b"\n\n"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            {"type": "overloaded_error", "message": "Overloaded"},
            {"type": "overloaded_error", "message": "Overloaded"},
        ),
        (
            {"type": "insufficient_quota", "code": "quota_used_up", "message": "No money is left."},
            {"type": "insufficient_quota", "code": "quota_used_up", "message": "No money is left."},
        ),
        (
            {"status": "UNAVAILABLE", "code": 503, "message": "Try later."},
            {"type": "UNAVAILABLE", "code": "503", "message": "Try later."},
        ),
        ({"message": "It broke."}, {"type": "model_error", "code": "upstream_error", "message": "It broke."}),
    ],
    ids=["a type", "a type and a code", "a status", "words alone"],
)
def test_an_error_frame_has_the_providers_own_type_code_and_message(
    client: Client, upstream: Upstream, error: dict[str, Any], told: dict[str, str]
) -> None:
    said = (chunk({"content": "Hel"}), complaint(**error))
    *_, last = ask(client, upstream, OPEN, *said)
    assert last == {"type": "error", "error": told}
    *_, last = ask(client, upstream, "", *said)
    assert last == {"type": "generation-error", "error": told["message"]}


def test_the_api_itself_keeps_its_own_words(client: Client, upstream: Upstream) -> None:
    upstream_error = complaint(type="overloaded_error", message="Overloaded")
    frames = ask(client, upstream, OPEN, chunk({"content": "Hel"}), upstream_error)
    assert frames[-1]["error"]["type"] == "overloaded_error"
    playing = threading.Thread(target=lambda: _fail(upstream, upstream_error))
    playing.start()
    with client.listen("/v1/responses", input="Hi", stream=True) as stream:
        failed = [event for event in stream if event["type"] == "error"]
    playing.join()
    assert failed[0]["error"] == {
        "type": "server_error",
        "message": "up: Overloaded",
        "code": "model_overloaded",
        "param": None,
    }


def _fail(upstream: Upstream, error: bytes) -> None:
    call: Call = upstream.calls.get()
    call.say("Hel")
    call.write(error)
    call.over.set()


def test_the_id_of_a_call_is_the_providers_in_every_frame(client: Client, upstream: Upstream) -> None:
    function = {"name": "look", "arguments": '{"a":'}
    piece = {"index": 0, "id": "toolu_7", "type": "function", "function": function}
    more = {"index": 0, "function": {"arguments": "1}"}}
    frames = ask(
        client,
        upstream,
        OPEN,
        chunk({"content": "Look."}),
        chunk({"tool_calls": [piece]}),
        chunk({"tool_calls": [more]}),
        chunk({}, "tool_calls") + END,
    )
    items = [frame["item"] for frame in frames if frame["type"].startswith("response.output_item.")]
    calls = [item for item in items if item["type"] == "function_call"]
    assert [(call["id"], call["call_id"]) for call in calls] == [("toolu_7", "toolu_7")] * 2
    told = [frame for frame in frames if "function_call_arguments" in frame["type"]]
    assert [frame["itemId"] for frame in told] == ["toolu_7"] * len(told)
    assert "".join(frame.get("delta", "") for frame in told) == '{"a":1}'
    (end,) = [frame for frame in frames if frame["type"] == "response.completed"]
    text, call = end["response"]["output"]
    assert (call["id"], call["call_id"]) == ("toolu_7", "toolu_7")
    assert text["id"].startswith("msg_")


CHUNKS = (
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hel"}),
    chunk({"content": ""}),
    chunk({"content": "lo"}),
    chunk({}, "stop"),
    END,
)


@pytest.mark.parametrize("dialect", ["generation", "open-responses"])
@pytest.mark.parametrize(
    ("choice", "pieces"),
    [("", ["Hel", "lo"]), ("off", ["Hel", "lo"]), ("on", ["Hel", "", "lo", ""])],
    ids=["by default", "off", "on"],
)
def test_chunk_boundaries_are_preserved_on_request(
    client: Client, upstream: Upstream, dialect: str, choice: str, pieces: list[str]
) -> None:
    query = f"?dialect={dialect}" + (f"&preserve_chunk_boundaries={choice}" if choice else "")
    frames = ask(client, upstream, query, *CHUNKS)
    if dialect == "generation":
        assert message(frames)["content"] == "Hello"
        deltas = [f["chunk"]["choices"][0]["delta"] for f in frames if f["type"] == "generation-chunk"]
        assert [one["content"] for one in deltas[1:] if "content" in one] == pieces
    else:
        told = [frame for frame in frames if frame["type"] == "response.output_text.delta"]
        assert [frame["delta"] for frame in told] == pieces
        (done,) = [frame for frame in frames if frame["type"] == "response.output_text.done"]
        assert done["text"] == "Hello"
