"""Large requests: what is done for each item is done in a thread of its own, in calls that are short."""

import gzip
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from antiphon.bridges.chat_completions import request as chat_completions
from antiphon.bridges.messages import request as messages
from antiphon.engine import context, engine
from antiphon.engine.background import job
from antiphon.providers import chat, exchange
from antiphon.spec import decode, long_json, strict_decoder
from antiphon.spec.limits import MAX_VALUES
from antiphon.wires.pieces import Pieces
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve

LOOP, APART = "antiphon-server", "antiphon-large"
MANY = [{"type": "message", "role": "user", "content": f"This is item {n}."} for n in range(6000)]


class Seen:
    """In which threads each piece of work was done, and how much was given to the decoder at once."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.threads: dict[str, set[str]] = {}
        self.longest = 0
        self._patch = patch
        self.watch(decode, "_check_body")
        self.watch(decode, "_plain_request")
        self.watch(context, "give_ids")
        self.watch(context, "decode_stored_items")
        self.watch(chat, "prepare")
        self.watch(exchange, "encode")
        self.watch(engine, "encode_all")
        self.watch(job, "encode_all")
        self.watch(strict_decoder, "_known_item")
        self.watch(long_json, "_string")
        self.watch(long_json, "_inner")
        self.watch(Pieces, "join")

    def watch(self, place: Any, name: str) -> None:
        real = getattr(place, name)

        def noted(*given: Any, **options: Any) -> Any:
            self.threads.setdefault(name, set()).add(threading.current_thread().name.partition("_")[0])
            if name in ("_known_item", "_plain_request", "_string", "_inner"):
                self.longest = max(self.longest, len(given[0]))
            return real(*given, **options)

        self._patch.setattr(place, name, noted)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def test_a_large_request_is_worked_on_apart_and_item_by_item(serve: Serve, voice: Voice, seen: Seen) -> None:
    serve(voice.toml).client().create(input=MANY)
    assert [message["content"] for message in voice.last["messages"]] == [one["content"] for one in MANY]
    assert set().union(*seen.threads.values()) == {APART}
    assert seen.threads.keys() >= {
        "_check_body",
        "give_ids",
        "prepare",
        "encode",
        "encode_all",
        "_known_item",
    }
    assert 0 < seen.longest < 1000


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"])
def test_large_bodies_of_the_other_doors_are_read_apart(
    serve: Serve, voice: Voice, seen: Seen, path: str
) -> None:
    seen.watch(chat_completions, "to_request")
    seen.watch(messages, "to_request")
    many = [{"role": "user", "content": f"This is message {n}, which has some words."} for n in range(6000)]
    body = {"model": "model", "max_tokens": 9, "messages": many}
    serve(voice.toml).client().ok("POST", path, json=body)
    assert set().union(*seen.threads.values()) == {APART}
    assert seen.threads.keys() >= {"to_request", "give_ids"}


FILE = "data:application/pdf;base64," + "QUJD" * 1_000_000
EMOJI = "\N{GRINNING FACE}" * 500_000
LONG: dict[str, Any] = {
    "text": EMOJI,
    "file": [{"type": "input_file", "filename": "a.pdf", "file_data": FILE}],
    "unknown": [{"type": "input_text", "text": "x", "vendor": [EMOJI, {"a": FILE}]}],
}


@pytest.mark.parametrize("content", LONG.values(), ids=LONG)
@pytest.mark.parametrize("transport", ["http", "gzip", "websocket"])
def test_a_long_value_is_read_and_written_in_slices(
    serve: Serve, voice: Voice, seen: Seen, content: Any, transport: str
) -> None:
    server = serve(voice.toml)
    body = {"input": [{"type": "message", "role": "user", "content": content}]}
    data = json.dumps(body, ensure_ascii=False).encode()
    if transport == "websocket":
        with connect(server.url.replace("http", "ws") + "/v1/responses", max_size=None) as socket:
            socket.send(json.dumps({"type": "response.create", **body}, ensure_ascii=False))
            kinds = [json.loads(message)["type"] for message in until_completed(socket)]
        assert kinds[-1] == "response.completed"
    else:
        headers = {"content-type": "application/json"}
        if transport == "gzip":
            data, headers["content-encoding"] = gzip.compress(data, 1), "gzip"
        answer = httpx.post(f"{server.url}/v1/responses", content=data, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text[:500]
    [message] = voice.last["messages"]
    if content is EMOJI:
        assert message["content"] == EMOJI
    elif content[0]["type"] == "input_file":
        assert message["content"][0]["file"]["file_data"] == FILE
    assert seen.threads["join"] == seen.threads["_string"] == seen.threads["encode_all"] == {APART}
    assert seen.longest <= long_json.SLICE + 2 < 256 * 1024


def until_completed(socket: Any) -> Iterator[str]:
    for message in socket:
        yield message
        if json.loads(message)["type"] in ("response.completed", "error"):
            return


def test_a_turn_after_a_large_one_is_worked_on_apart(serve: Serve, voice: Voice, seen: Seen) -> None:
    client = serve(voice.toml).client()
    made = client.create(input=MANY)
    seen.threads.clear()
    client.create(input="And now?", previous_response_id=made["id"])
    assert len(voice.last["messages"]) == len(MANY) + 2
    for name in ("give_ids", "decode_stored_items", "prepare", "encode", "encode_all"):
        assert seen.threads[name] == {APART}, name


def test_a_plain_question_with_thousands_of_tools_is_worked_on_apart(
    serve: Serve, voice: Voice, seen: Seen
) -> None:
    tools = [{"type": "function", "name": f"tool_{n}", "parameters": {"type": "object"}} for n in range(5000)]
    serve(voice.toml).client().create(input="Which?", tools=tools)
    assert len(voice.last["tools"]) == len(tools)
    for name in ("_check_body", "prepare", "encode", "encode_all"):
        assert seen.threads[name] == {APART}, name


def test_a_small_request_stays_on_the_event_loop(serve: Serve, voice: Voice, seen: Seen) -> None:
    serve(voice.toml).client().create(input=MANY[:10])
    assert set().union(*seen.threads.values()) == {LOOP}


def test_a_large_request_in_the_background_is_worked_on_apart(serve: Serve, voice: Voice, seen: Seen) -> None:
    client = serve(voice.toml).client()
    made = client.create(input=MANY, background=True)
    assert made["status"] == "queued"
    for name in ("_check_body", "give_ids", "encode_all"):
        assert seen.threads[name] == {APART}, name


@pytest.mark.parametrize(
    "wrong",
    [{"type": "message", "role": "user"}, {"type": "function_call_output", "call_id": "c", "output": ""}],
)
def test_a_mistake_in_a_large_request_is_told_as_in_a_small_one(
    serve: Serve, voice: Voice, wrong: dict[str, Any]
) -> None:
    client = serve(voice.toml).client()
    found = [
        client.refused(400, "POST", "/v1/responses", json={"input": [*before, wrong]})
        for before in (MANY[:5], MANY)
    ]
    assert found[0]["message"] == found[1]["message"]
    assert found[1]["param"] == found[0]["param"].replace("[5]", "[6000]")


def test_more_values_than_a_request_may_have_are_refused_before_any_is_read(
    serve: Serve, voice: Voice, seen: Seen
) -> None:
    body = {"input": [{"role": "user", "content": "hi"}] * (MAX_VALUES // 4)}
    error = serve(voice.toml).client().refused(400, "POST", "/v1/responses", json=body)
    assert error["code"] == "too_many_values"
    assert seen.threads == {"join": {APART}, "_check_body": {APART}}


def test_a_turn_tells_a_limited_number_of_receipts(serve: Serve, voice: Voice) -> None:
    client = serve(voice.toml, SERVER__RECEIPTS="true").client()
    made = client.create(input=[*MANY[:1], *({"type": "vendor:note", "n": n} for n in range(1000))])
    assert len(made["antiphon:receipts"]) == 257
    assert made["antiphon:receipts"][-1]["reason"] == "there is more of this kind: the first 256 are listed"
