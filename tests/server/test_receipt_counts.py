"""How many receipts there are, said to everybody: in a header, at the end of a stream, and in the log."""

import json
import logging
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from antiphon.engine.receipt_log import ReceiptLog
from antiphon.providers.base import Turn
from antiphon.server.api.openapi import document
from antiphon.server.endpoints import GROUPS
from antiphon.spec.request import Request
from antiphon.spec.response import Receipt
from antiphon.stream.sse import Decoder
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import Json, key_table
from tests.server.servers import Client, Serving
from tests.wires.hashbrown.frame_reader import unframed

COUNT = "x-antiphon-receipts"
TOOLS = [{"type": "function", "name": name} for name in ("save", "send")]
ODD: Json = {"input": "hi", "invented": 1, "service_tier": "priority"}
LATER: Json = {**ODD, "tools": TOOLS, "tool_choice": "none"}
"""Two things are dropped at once; a call that is suppressed comes later."""
USER = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.fixture
def client(server: Serving, voice: Voice) -> Client:
    return server.client()


def post(client: Client, path: str = "/v1/responses", **body: Any) -> httpx.Response:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer


def events(answer: httpx.Response) -> list[Json]:
    return [json.loads(event.data) for event in Decoder().feed(answer.content) if not event.is_done]


def test_a_plain_answer_says_how_many_receipts_there_are(client: Client, voice: Voice) -> None:
    voice.call(("send", "{}"))
    answer = post(client, **LATER)
    assert answer.headers[COUNT] == "3"
    assert not any(name.startswith("antiphon:") for name in answer.json())


def test_an_answer_without_receipts_says_nothing_of_them(client: Client) -> None:
    assert COUNT not in post(client, input="hi").headers
    assert COUNT not in post(client, input="hi", stream=True).headers
    assert COUNT not in post(client, "/api/v1/chat", messages=USER).headers


def test_the_head_of_a_stream_says_how_many_are_known(client: Client, voice: Voice) -> None:
    voice.call(("send", "{}"))
    answer = post(client, **LATER, stream=True)
    assert answer.headers[COUNT] == "2"
    for event in events(answer):
        assert not any(name.startswith("antiphon:") for name in event.get("response", {}))


@pytest.mark.parametrize("dialect", ["vtcode", "vertice"])
def test_the_end_of_a_stream_says_how_many_there_were_where_the_dialect_has_extensions(
    server: Serving, voice: Voice, dialect: str
) -> None:
    voice.call(("send", "{}"))
    client = server.client(X_Antiphon_Dialect=dialect)
    first, *_, last = events(post(client, **LATER, stream=True))
    assert "antiphon:receipt_count" not in first["response"]
    assert last["response"]["antiphon:receipt_count"] == 3
    assert "antiphon:receipt_count" not in server.client().ok(
        "GET", f"/v1/responses/{last['response']['id']}"
    )


def test_the_end_of_a_turn_on_a_websocket_says_it_too(server: Serving, voice: Voice) -> None:
    url = server.url.replace("http", "ws", 1) + "/v1/responses"
    voice.call(("send", "{}"))
    with connect(url, additional_headers={"X-Antiphon-Dialect": "vertice"}, proxy=None) as socket:
        socket.send(json.dumps({"type": "response.create", **LATER}))
        event: Json = {"type": ""}
        while event["type"] != "response.completed":
            event = json.loads(socket.recv())
    assert event["response"]["antiphon:receipt_count"] == 3


def test_a_background_response_says_how_many_are_known(client: Client, voice: Voice) -> None:
    assert post(client, **ODD, background=True).headers[COUNT] == "2"
    assert post(client, **ODD, background=True, stream=True).headers[COUNT] == "2"


def test_a_stored_response_with_receipts_says_how_many(server: Serving, voice: Voice) -> None:
    made = server.client(X_Antiphon_Receipts="1").create(**ODD)
    answer = server.client().get(f"/v1/responses/{made['id']}")
    assert answer.headers[COUNT] == "2"
    assert "antiphon:receipts" not in answer.json()


def test_chats_of_the_ai_sdk_say_it(client: Client) -> None:
    odd = {"messages": USER, "service_tier": "priority"}
    answer = post(client, "/api/v1/chat", **odd)
    assert answer.headers[COUNT] == "1"
    assert events(answer)[-1]["messageMetadata"]["receipts"] == 1
    answer = post(client, "/api/v1/chat?protocol=data-v1", **odd)
    assert answer.headers[COUNT] == "1"
    assert '8:[{"receipts":1}]\n' in answer.text
    plain = post(client, "/api/v1/chat", **odd, stream=False)
    assert plain.headers[COUNT] == "1"
    assert "antiphon:receipt_count" not in plain.json()


def test_hashbrowns_frames_say_it(client: Client, voice: Voice) -> None:
    voice.call(("send", "{}"))
    asked = {"messages": USER, "tools": [{"name": "send"}], "toolChoice": "none"}
    answer = post(client, "/api/hashbrown?dialect=open-responses&threads=off", **asked)
    assert COUNT not in answer.headers
    *_, last = unframed(answer.content)
    assert last["response"]["antiphon:receipt_count"] == 1


def test_the_last_line_for_vs_code_says_it(client: Client) -> None:
    named = [{"role": 1, "name": "Ann", "content": "hi"}]
    answer = post(client, "/api/vscode/chat", messages=named)
    assert answer.headers[COUNT] == "1"
    assert json.loads(answer.text.splitlines()[-1])["receiptCount"] == 1


def test_a_page_may_read_the_header(serve: Serve, voice: Voice) -> None:
    client = serve(voice.toml, SERVER__ORIGINS="https://app.example").client(Origin="https://app.example")
    assert COUNT in post(client, **ODD).headers["access-control-expose-headers"]


def test_the_description_of_the_api_names_the_header() -> None:
    told = json.loads(document(GROUPS))
    assert "X-Antiphon-Receipts" in told["components"]["headers"]
    for path in (
        "/v1/responses",
        "/v1/responses/compact",
        "/api/v1/chat",
        "/api/hashbrown",
        "/api/vscode/chat",
    ):
        assert "X-Antiphon-Receipts" in told["paths"][path]["post"]["responses"]["200"]["headers"]
        assert "X-Antiphon-Receipts" not in told["paths"][path]["post"]["responses"]["400"]["headers"]


# --- the log ----------------------------------------------------------------------------------------------


def test_the_log_says_each_once_for_a_key_a_model_and_a_reason(
    serve: Serve, voice: Voice, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "antiphon.engine.receipt_log")
    server = serve(voice.toml + key_table("alice") + key_table("bob", tenant="alice"))
    alice = server.client("sk-alice")
    for _ in range(3):
        post(alice, **ODD)
        post(alice, **ODD, stream=True)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("receipt for key 'alice', model 'some-model': up dropped ")
    post(alice, **ODD, model="full")
    post(server.client("sk-bob"), **ODD)
    assert len(caplog.records) == 2 + 1 + 2


def test_the_log_quotes_nothing_that_was_said(
    serve: Serve, voice: Voice, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "antiphon.engine.receipt_log")
    voice.say('{"word": "confidential"}')
    schema = {"type": "object", "properties": {"word": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "f", "schema": schema, "strict": False}
    answer = post(serve(voice.toml).client(), input="a secret", text={"format": form})
    assert answer.headers[COUNT] == "1"
    (record,) = caplog.records
    assert "the answer does not fit" in record.getMessage()
    assert "confidential" not in record.getMessage()
    assert "secret" not in record.getMessage()


def test_the_log_forgets_the_oldest(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon.engine.receipt_log")
    told = ReceiptLog(most=2)
    turn = Turn("m", Request(), [], tenant="t")
    for reason in ("a", "b", "a", "c", "b", "a", "line\nbreak"):
        told(turn, Receipt(param="p", action="dropped", reason=reason, provider="up"))
    reasons = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert reasons == ["a", "b", "c", "a", r"line\nbreak"]
    assert len(told._logged) == 2


def test_the_log_has_no_long_name_of_a_model(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon.engine.receipt_log")
    told = ReceiptLog()
    told(Turn("m" * 100_000, Request(), []), Receipt(param="p", action="dropped", reason="r", provider="up"))
    assert len(caplog.records[0].getMessage()) < 1000
    assert all(len(part) < 1000 for key in told._logged for part in key)
