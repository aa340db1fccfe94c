"""What the reader of Messages bodies makes of ids, and of places that errors and receipts name."""

import json
import re
from typing import Any

import pytest

from antiphon.bridges.messages.request import read_messages
from antiphon.spec.content import InputText
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message
from tests.bridges.scripts import TOML, said
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import Client
from tests.server.upstream import Upstream

PATH = "/v1/messages"
Json = dict[str, Any]

WORDS = {"media_type": "text/plain", "data": "It rained."}
DOCUMENT = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


@pytest.fixture(scope="module")
def client(serve_all: Serve) -> Client:
    return serve_all(TOML).client()


def body(*messages: Json, **more: Any) -> Json:
    return {"model": "demo", "max_tokens": 9, "messages": messages, **more}


def used(id: str) -> Json:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {}}]}


def gave(id: str, output: Any = "ok") -> Json:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]}


def test_an_id_that_is_used_again_and_again_is_another_call_each_time() -> None:
    """A session that began elsewhere has `call_0` in each of its turns."""
    turns = [turn for _ in range(4) for turn in (used("call_0"), gave("call_0"))]
    asked = json.dumps(body({"role": "user", "content": "Hi"}, *turns)).encode()
    items = read_messages(asked).request.input or []
    calls = [item.call_id for item in items if isinstance(item, FunctionCall)]
    results = [item.call_id for item in items if isinstance(item, FunctionCallOutput)]
    assert calls == results
    assert len(set(calls)) == 4
    again = read_messages(asked).request.input or []
    assert [item.call_id for item in again if isinstance(item, FunctionCall)] == calls


def test_the_words_about_a_document_stand_before_its_own() -> None:
    """What a client says in `context` was told to providers of this API alone."""
    source = {"type": "text", "media_type": "text/plain", "data": "It rains."}
    document = {"type": "document", "title": "Report", "context": "From Ann.", "source": source}
    asked = json.dumps(body({"role": "user", "content": [document]})).encode()
    (message,) = [one for one in read_messages(asked).request.input or [] if isinstance(one, Message)]
    told = [part.text for part in message.content if isinstance(part, InputText)]
    assert told == ["Report\nFrom Ann.\nIt rains."]


def test_calls_of_one_message_that_share_an_id_get_their_results_in_order() -> None:
    both = {"role": "assistant", "content": [*used("x")["content"], *used("x")["content"]]}
    results = {"role": "user", "content": [*gave("x", "first")["content"], *gave("x", "second")["content"]]}
    asked = json.dumps(body({"role": "user", "content": "Hi"}, both, results)).encode()
    items = read_messages(asked).request.input or []
    calls = [item.call_id for item in items if isinstance(item, FunctionCall)]
    told = [(item.call_id, item.output) for item in items if isinstance(item, FunctionCallOutput)]
    assert len(set(calls)) == 2
    assert told == [(calls[0], "first"), (calls[1], "second")]


@pytest.mark.parametrize(
    ("messages", "more", "param"),
    [
        ([used("toolu_1")], {}, "messages[0].content[0].id"),
        ([gave("toolu_1")], {}, "messages[0].content[0].tool_use_id"),
        (
            [{"role": "user", "content": "Hi"}],
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "x"}}}},
            "output_config.format.schema",
        ),
    ],
)
def test_an_error_of_the_run_names_the_place_in_this_body(
    client: Client, messages: list[Json], more: Json, param: str
) -> None:
    error = client.refused(400, "POST", PATH, json=body(*messages, **more))
    assert error["param"] == param
    assert not {"function_call_output", "call_id", "text.format"} & set(error["message"].split())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_receipts_name_the_place_in_this_body(serve: Serve, upstream: Upstream, stream: bool) -> None:
    asked = body(
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "w", "input": {}}]},
        {"role": "user", "content": [{"type": "text", "text": "And?"}]},
        model="model",
        thinking={"type": "adaptive", "display": "summarized"},
        stream=stream,
    )
    upstream.answer = "Hello."
    client = serve(upstream.toml).client(X_Antiphon_Receipts="1")
    answer = client.post(PATH, json=asked).text
    told = json.loads(re.search(r'"antiphon:receipts":(\[.*?\}\])', answer)[1])  # type: ignore[index]
    assert [one["param"] for one in told] == ["messages[1].content[0]", "thinking.display"]


def test_long_texts_and_settings_are_refused_as_they_are_elsewhere(client: Client) -> None:
    long = "x" * 10_485_761
    for message, param in (
        ({"role": "user", "content": long}, "messages[0].content"),
        ({"role": "user", "content": [{"type": "text", "text": long}]}, "messages[0].content[0].text"),
        (gave("toolu_1", long), "messages[0].content[0].content"),
    ):
        assert client.refused(400, "POST", PATH, json=body(message))["param"] == param
    tool = {"name": "f", "description": "x" * 4_200_000, "input_schema": {"type": "object"}}
    refused = client.refused(400, "POST", PATH, json=body({"role": "user", "content": "Hi"}, tools=[tool]))
    assert "at most 4,194,304 bytes" in refused["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_picture_that_no_block_can_hold_leaves_a_receipt(client: Client, stream: bool) -> None:
    """It was lost without a word; the stored response still has it."""
    drawn = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}
    asked = body({"role": "user", "content": said([{"text": "Here."}, {"item": drawn}])}, stream=stream)
    answer = client.post(PATH, json=asked, headers={"X-Antiphon-Receipts": "1"})
    told = json.loads(re.search(r'"antiphon:receipts":(\[.*?\}\])', answer.text)[1])  # type: ignore[index]
    assert [(one["param"], one["action"]) for one in told] == [("output[1]", "suppressed")]
    assert stream or answer.headers["x-antiphon-receipts"] == "1"
    id = re.search(r'"id":"msg_(\w+)"', answer.text)[1]  # type: ignore[index]
    assert client.ok("GET", f"/v1/responses/resp_{id}")["output"][1]["result"] == "aGk="


@pytest.mark.parametrize("field", ["max_tokens", "top_k"])
def test_numbers_that_no_json_reader_keeps_are_refused(client: Client, field: str) -> None:
    asked = body({"role": "user", "content": "Hi"}, **{field: 10**30})
    assert client.refused(400, "POST", PATH, json=asked)["param"] == field


def test_thinking_of_somebody_else_is_refused_in_the_words_of_this_api(serve: Serve) -> None:
    server = serve(TOML + key_table("alice") + key_table("bob"))
    thought = [{"reasoning": "Hm."}, {"signature": "proof"}, {"text": "Yes."}]
    asked = {"role": "user", "content": said(thought)}
    message = server.client("sk-alice").ok("POST", PATH, json=body(asked))
    turns = [
        asked,
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": "Go on."},
    ]
    assert server.client("sk-alice").post(PATH, json=body(*turns)).status_code == 200
    refused = server.client("sk-bob").refused(400, "POST", PATH, json=body(*turns))
    assert refused["message"].startswith("messages.1.content.0: Invalid `signature` in `thinking` block")
    assert "Hm." not in refused["message"]


def picture(source: Any) -> Json:
    return {"messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]}


def result(**more: Any) -> Json:
    block = {"type": "tool_result", "tool_use_id": "a", **more}
    return {"messages": [{"role": "user", "content": "Hi"}, used("a"), {"role": "user", "content": [block]}]}


BAD = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%%%%"}}
HI = {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([{"role": "user", "content": [HI, BAD]}], "messages[0].content[1].source"),
        (
            [{"role": "user", "content": "Hi"}, used("a"), gave("a", [HI, BAD])],
            "messages[2].content[0].content[1].source",
        ),
        (
            [
                {"role": "user", "content": "Hi"},
                used("a"),
                {"role": "user", "content": [*gave("a")["content"], HI, BAD]},
            ],
            "messages[2].content[2].source",
        ),
    ],
)
def test_a_bad_picture_is_named_by_its_block(client: Client, messages: list[Json], param: str) -> None:
    """The error named the whole content."""
    assert client.refused(400, "POST", PATH, json=body(*messages))["param"] == param


TOOL = {"name": "f", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"thinking": {"type": 5}}, "thinking.type"),
        ({"thinking": {}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": "x"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": True}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "adaptive", "display": 1}}, "thinking.display"),
        (result(is_error="false"), "messages[2].content[0].is_error"),
        (result(cache_control=1), "messages[2].content[0].cache_control"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": "false"}},
            "tool_choice.disable_parallel_tool_use",
        ),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": 5}}, "tool_choice.name"),
        ({"output_config": {"effort": 5}}, "output_config.effort"),
        ({"output_format": {"type": "zzz"}}, "output_format.type"),
        ({"tools": [{**TOOL, "description": 0}]}, "tools[0].description"),
        ({"tools": [{**TOOL, "strict": "yes"}]}, "tools[0].strict"),
        ({"metadata": {"user_id": []}}, "metadata.user_id"),
        ({"context_management": 5}, "context_management"),
        ({"mcp_servers": {}}, "mcp_servers"),
        (picture({}), "messages[0].content[0].source.type"),
        (picture({"type": ["url"]}), "messages[0].content[0].source.type"),
    ],
)
def test_a_known_field_of_the_wrong_type_is_refused(client: Client, more: Json, place: str) -> None:
    """They were taken as if they were not there."""
    answer = client.post(PATH, json={**body({"role": "user", "content": "Hi"}), **more})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", place)


@pytest.mark.parametrize(
    ("more", "param"),
    [({"thinking": {"type": "zzz"}}, "thinking"), ({"output_config": {"effort": "ultra"}}, "output_config")],
)
def test_a_kind_of_thinking_to_come_leaves_a_receipt(
    serve: Serve, upstream: Upstream, more: Json, param: str
) -> None:
    """Other providers were not given it, and nothing was said."""
    upstream.answer = "Hello."
    client = serve(upstream.toml).client(X_Antiphon_Receipts="1")
    asked = body({"role": "user", "content": "Hi"}, model="model", **more)
    receipts = client.ok("POST", PATH, json=asked)["antiphon:receipts"]
    assert [one["param"] for one in receipts] == [param]


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({**DOCUMENT, "citations": {"enabled": True}}, "citations"),
        ({**DOCUMENT, "source": {"type": "text", **WORDS}, "citations": {"enabled": True}}, "citations"),
        ({**DOCUMENT, "context": "Of last year."}, "context"),
        ({**PICTURE, "transformations": {"oversized_image": "error"}}, "transformations"),
        ({**DOCUMENT, "citations": {"enabled": False}, "context": None}, None),
        ({**DOCUMENT, "source": {"type": "text", **WORDS}, "context": "Of last year."}, None),
        ({**PICTURE, "transformations": {"oversized_image": "downsize"}}, None),
    ],
)
@pytest.mark.parametrize("within", ["message", "tool_result"])
def test_a_field_of_a_block_that_means_something_leaves_a_receipt(
    serve: Serve, upstream: Upstream, block: Json, field: str | None, within: str
) -> None:
    """It was dropped behind a 200: the answer had no citations, and nothing said why."""
    upstream.answer = "Hello."
    client = serve(upstream.toml).client(X_Antiphon_Receipts="1")
    asked = body({"role": "user", "content": [block]}, model="model")
    place = "messages[0].content[0]"
    if within == "tool_result":
        result = {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "x", "content": [block]}],
        }
        asked, place = body(used("x"), result, model="model"), "messages[1].content[0].content[0]"
    receipts = client.ok("POST", PATH, json=asked)["antiphon:receipts"]
    told = [one["param"] for one in receipts if one["action"] == "dropped"]
    assert told == ([] if field is None else [f"{place}.{field}"])


def test_what_a_system_message_says_of_its_answer_leaves_a_receipt(serve: Serve, upstream: Upstream) -> None:
    """Its effort was dropped behind a 200, on every provider."""
    upstream.answer = "Hello."
    client = serve(upstream.toml).client(X_Antiphon_Receipts="1")
    fields = {"output_config": {"effort": "low"}, "clear_at": "next_user_message"}
    hurry = {"role": "system", "content": [{"type": "text", "text": "Be quick."}]}
    asked = body({"role": "user", "content": "Hi"}, {**hurry, **fields}, model="model")
    receipts = client.ok("POST", PATH, json=asked)["antiphon:receipts"]
    assert [one["param"] for one in receipts] == ["messages[1].output_config", "messages[1].clear_at"]
    usual = body({"role": "user", "content": "Hi"}, {**hurry, "clear_at": "never"}, model="model")
    assert client.ok("POST", PATH, json=usual)["antiphon:receipts"] == []


def test_null_is_as_good_as_nothing(client: Client) -> None:
    tool = {**TOOL, "description": None, "strict": None, "cache_control": None}
    asked = body(
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": None}]},
        tools=[tool],
        metadata={"user_id": None},
        output_config={"effort": None, "format": None},
        thinking={"type": "adaptive", "display": None},
    )
    assert client.post(PATH, json=asked).status_code == 200
