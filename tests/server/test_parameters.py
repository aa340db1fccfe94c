"""Each request parameter is honoured, or refused with a reason, or dropped with a receipt."""

import json
import select
import socket
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.providers.base import AnsweringProvider, Capabilities, Sink, Turn, answer_from
from antiphon.stream.deltas import AnyDelta, Finish, TextDelta
from antiphon.wires.schema import json_schema
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import Json, dial, receipts, refusal, script, streamed, text_of, turn
from tests.server.servers import Client, Serving
from tests.server.upstream import END, Call, chunk
from tests.spec.validators import assert_valid_event

TOOLS = [{"type": "function", "name": "save"}]
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Counting(AnsweringProvider):
    """A provider whose tokens are words, 40 of which fit."""

    name = "counting"

    def __init__(self) -> None:
        self.capabilities = Capabilities(
            frozenset({"max_output_tokens"}), counts_tokens=True, context_window=40
        )
        self.given: list[str] = []

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await answer_from(self._batches(turn), sink)

    async def _batches(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        self.given = [text for item in turn.items for text in _words(item)]
        yield [TextDelta("ok"), Finish()]

    async def count_tokens(self, turn: Turn) -> int | None:
        return sum(len(text.split()) for item in turn.items for text in _words(item))


def _words(item: Any) -> list[str]:
    return [item.get_text()]


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    """`counting` is the provider above, in the place of one from the configuration."""
    toml = talking.toml.replace("[models]\n", '[models]\ncounting = "counting/any"\n')
    server = serve_all(toml + '[providers.counting]\ntype = "script"\n')
    engine = server.gateway.engine
    providers = {**engine.providers, "counting": Counting()}
    engine.settings = replace(engine.settings, providers=providers)
    return server


@pytest.fixture(scope="module")
def client(server: Serving) -> Client:
    return server.client()


@pytest.fixture(scope="module")
def curious(server: Serving) -> Client:
    """A client that asks for receipts."""
    return server.client(X_Antiphon_Receipts="1")


# --- text --------------------------------------------------------------------------------------------------


def schema_format(schema: Any = None, **more: Any) -> Json:
    return {"format": {"type": "json_schema", "name": "n", "schema": schema or NUMBER, **more}}


def test_json_schema_is_asked_for_and_an_answer_that_fits_passes(curious: Client, voice: Voice) -> None:
    voice.say('{"n": 1}')
    made = curious.create(input="hi", text=schema_format(strict=True))
    assert (made["status"], text_of(made), receipts(made)) == ("completed", '{"n": 1}', [])
    assert made["text"]["format"]["type"] == "json_schema"
    assert voice.last["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": NUMBER, "strict": True},
    }


@pytest.mark.parametrize("answer", ['{"n": "one"}', "no JSON at all", "[]", '{"n": 1} and more'])
def test_a_mismatch_is_a_receipt(curious: Client, voice: Voice, answer: str) -> None:
    voice.say(answer)
    made = curious.create(input="hi", text=schema_format())
    assert (made["status"], text_of(made)) == ("completed", answer)
    assert receipts(made) == [("text.format", "unmet")]


@pytest.mark.parametrize("answer", ['{"n": "one"}', "no JSON at all"])
def test_a_mismatch_with_a_strict_schema_fails(client: Client, voice: Voice, answer: str) -> None:
    voice.say(answer)
    request = {"input": "hi", "text": schema_format(strict=True)}
    error = client.refused(500, "POST", "/v1/responses", json=request)
    assert (error["type"], error["code"]) == ("model_error", "output_schema_mismatch")
    assert error["param"] == "text.format"
    events = streamed(client, **request)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["error"]["code"] == "output_schema_mismatch"
    assert text_of(events[-1]["response"]) == answer


def test_a_mismatch_is_told_in_few_words(client: Client, voice: Voice) -> None:
    voice.say(json.dumps({"n": "x" * 10_000}))
    body = {"input": "hi", "text": schema_format(strict=True)}
    assert len(client.refused(500, "POST", "/v1/responses", json=body)["message"]) < 500


@pytest.mark.parametrize(
    "steps",
    [
        [{"refusal": "I will not."}],
        [{"call": "save", "arguments": {}}],
        [{"text": '{"n": '}, {"finish": "length"}],
    ],
    ids=["refusal", "call", "cut"],
)
def test_what_is_no_answer_is_not_held_to_the_schema(client: Client, steps: list[Json]) -> None:
    made = client.create(model="scripted", input=script(*steps), text=schema_format(strict=True), tools=TOOLS)
    assert made["status"] == ("incomplete" if "finish" in steps[-1] else "completed")


def test_a_schema_never_makes_the_server_fetch_anything(curious: Client, voice: Voice) -> None:
    voice.say('{"n": 1}')
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        address = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/schema.json"
        for schema in ({"$ref": address}, {"$schema": address}, {"$dynamicRef": address}, {"$id": address}):
            made = curious.create(input="hi", text=schema_format(schema))
            assert made["status"] == "completed"
            if "$ref" in schema:
                assert receipts(made) == [("text.format", "unmet")]
                assert address in made["antiphon:receipts"][0]["reason"]
        assert select.select([elsewhere], [], [], 0)[0] == []


def test_a_schema_that_is_none_is_refused_before_the_model_hears_of_it(client: Client, voice: Voice) -> None:
    error = refusal(client, text=schema_format({"type": "number of things"}))
    assert error["param"] == "text.format.schema"
    assert voice.heard == []


def test_a_large_schema_and_the_answer_to_it_are_checked_in_a_child(
    serve: Serve, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[json_schema.Budget] = []

    class Noted(json_schema.Budget):
        def __init__(self, steps: int, seconds: float, *, expressions: bool) -> None:
            super().__init__(steps, seconds, expressions=expressions)
            here.append(self)

    monkeypatch.setattr(json_schema, "Budget", Noted)
    server = serve(voice.toml)
    client = server.client(X_Antiphon_Receipts="1")
    attack = {"type": [{"a": n} for n in range(1900)]}  # 24 kB, which took four seconds
    assert refusal(client, text=schema_format(attack))["param"] == "text.format.schema"
    voice.say('{"p1": 1}')
    large = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(200)}}
    assert receipts(client.create(input="hi", text=schema_format(large))) == [("text.format", "unmet")]
    assert here == []
    assert len(server.gateway.engine.schemas.pids) == 1


@pytest.mark.parametrize(("answer", "wanted"), [('{"a": 1}', []), ("[1]", [("text.format", "unmet")])])
def test_json_object(curious: Client, voice: Voice, answer: str, wanted: list[tuple[str, str]]) -> None:
    voice.say(answer)
    made = curious.create(input="hi", text={"format": {"type": "json_object"}})
    assert voice.last["response_format"] == {"type": "json_object"}
    assert receipts(made) == wanted


def test_verbosity(curious: Client, voice: Voice) -> None:
    made = curious.create(model="full", input="hi", text={"verbosity": "low"})
    assert (voice.last["verbosity"], made["text"]["verbosity"], receipts(made)) == ("low", "low", [])
    made = curious.create(input="hi", text={"verbosity": "low"})
    assert "verbosity" not in voice.last
    assert receipts(made) == [("text.verbosity", "dropped")]


# --- how much ----------------------------------------------------------------------------------------------


def test_max_output_tokens_reached_is_incomplete(client: Client, voice: Voice) -> None:
    voice.say("Once", " upon", reason="length")
    made = client.create(input="hi", max_output_tokens=16)
    assert voice.last["max_tokens"] == 16
    assert (made["status"], made["max_output_tokens"]) == ("incomplete", 16)
    assert made["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in made["output"]] == ["incomplete"]
    assert text_of(made) == "Once upon"
    assert streamed(client, input="hi", max_output_tokens=16)[-1]["type"] == "response.incomplete"
    assert refusal(client, max_output_tokens=15)["param"] == "max_output_tokens"


def turns(*counts: int) -> list[Json]:
    return [
        {"role": "user", "content": " ".join([f"turn{n}"] + ["word"] * (count - 1))}
        for n, count in enumerate(counts)
    ]


def test_truncation_auto_leaves_out_the_oldest(server: Serving, curious: Client) -> None:
    counting = server.gateway.engine.providers["counting"]
    assert isinstance(counting, Counting)
    made = curious.create(model="counting", input=turns(20, 10, 10), truncation="auto")
    assert (made["status"], made["truncation"]) == ("completed", "auto")
    assert receipts(made) == [("input", "truncated")]
    assert [text.split()[0] for text in counting.given] == ["turn1", "turn2"]
    # What was left out of this turn is still part of the conversation.
    listed = curious.ok("GET", f"/v1/responses/{made['id']}/input_items")
    assert len(listed["data"]) == 3


@pytest.mark.parametrize("request_", [{}, {"truncation": "disabled"}])
def test_without_truncation_a_long_context_is_refused(client: Client, request_: Json) -> None:
    error = refusal(client, model="counting", **request_ | {"input": turns(20, 10, 10)})
    assert (error["code"], error["param"]) == ("context_length_exceeded", "input")
    assert "40 tokens" in error["message"]
    assert "24" in error["message"]


def test_the_room_for_the_answer_counts(client: Client, curious: Client) -> None:
    made = curious.create(model="counting", input=turns(24), max_output_tokens=8192)
    assert receipts(made) == [("max_output_tokens", "rewritten")]
    assert made["max_output_tokens"] == 8192
    assert refusal(client, model="counting", input=turns(25))["param"] == "input"
    assert refusal(client, model="counting", input=turns(25), max_output_tokens=8192)["param"] == "input"


def test_truncation_where_nobody_can_count_is_a_receipt(curious: Client) -> None:
    assert receipts(curious.create(input="hi", truncation="auto")) == [("truncation", "dropped")]
    assert receipts(curious.create(input="hi", truncation="disabled")) == []


# --- what comes back ---------------------------------------------------------------------------------------


def with_logprobs(call: Call) -> None:
    call.accept()
    token = {"token": "Hi", "logprob": -0.1, "bytes": [72, 105]}
    said = {"content": [token | {"top_logprobs": [token, token | {"token": "Ho", "logprob": -2.5}]}]}
    choice = {"index": 0, "delta": {"content": "Hi"}, "logprobs": said, "finish_reason": None}
    call.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode() + chunk({}, "stop") + END)
    call.over.set()


def test_include_logprobs(client: Client, curious: Client, voice: Voice) -> None:
    voice.says = with_logprobs
    request = {"input": "hi", "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    made = client.create(**request)
    assert (voice.last["logprobs"], voice.last["top_logprobs"]) == (True, 2)
    assert made["top_logprobs"] == 2
    (logprob,) = made["output"][0]["content"][0]["logprobs"]
    assert (logprob["token"], logprob["logprob"]) == ("Hi", -0.1)
    assert [one["token"] for one in logprob["top_logprobs"]] == ["Hi", "Ho"]
    deltas = [event for event in streamed(client, **request) if event["type"].endswith("text.delta")]
    assert [one["logprobs"][0]["token"] for one in deltas] == ["Hi"]
    client.create(input="hi")
    assert "logprobs" not in voice.last
    dropped = curious.create(model="counting", **request)
    assert receipts(dropped) == [("top_logprobs", "dropped"), ("include", "dropped")]


@pytest.mark.parametrize("value", [21, -1, 1.5, "2"])
def test_top_logprobs_out_of_range_are_refused(client: Client, value: Any) -> None:
    assert refusal(client, top_logprobs=value)["param"] == "top_logprobs"


def test_an_unknown_include_is_refused(client: Client, voice: Voice) -> None:
    error = refusal(client, include=["message.output_text.logprobs", "everything"])
    assert (error["param"], error["code"]) == ("include[1]", "invalid_value")
    assert "'reasoning.encrypted_content'" in error["message"]
    assert voice.heard == []


def test_an_include_that_nothing_here_gives_is_a_receipt(curious: Client) -> None:
    made = curious.create(input="hi", include=["file_search_call.results", "reasoning.encrypted_content"])
    assert receipts(made) == [("include", "dropped")]
    assert "file_search_call.results" in made["antiphon:receipts"][0]["reason"]
    made = curious.create(model="full", input="hi", include=["reasoning.encrypted_content"])
    assert receipts(made) == [("include", "unmet")]


def test_included_reasoning_is_there(client: Client) -> None:
    made = client.create(
        model="scripted",
        input=script({"reasoning": "hm"}, {"signature": "sealed"}, {"text": "ok"}),
        include=["reasoning.encrypted_content"],
    )
    assert made["output"][0]["encrypted_content"].startswith("v1.")


def test_metadata_is_kept_and_limited(client: Client) -> None:
    made = client.create(input="hi", metadata={"order": "12", "empty": ""})
    assert made["metadata"] == {"order": "12", "empty": ""}
    assert client.ok("GET", f"/v1/responses/{made['id']}")["metadata"] == made["metadata"]
    assert client.create(input="hi")["metadata"] == {}
    assert refusal(client, metadata={str(n): "" for n in range(17)})["param"] == "metadata"
    assert refusal(client, metadata={"a": "x" * 513})["param"] == "metadata.a"
    assert refusal(client, metadata={"x" * 65: ""})["param"] == "metadata"
    assert refusal(client, metadata={"a": 1})["param"] == "metadata.a"


def test_store_false_writes_nothing(serve: Serve, voice: Voice, tmp_path: Path) -> None:
    server = serve(voice.toml)
    client, folder = server.client(), tmp_path / "server" / "data"

    def rows() -> dict[str, int]:
        with sqlite3.connect(f"file:{folder / 'antiphon.db'}?mode=ro", uri=True) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            counts = {
                name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for (name,) in tables
            }
        database.close()
        return counts

    before = rows()
    for stream in (False, True):
        answer = client.post(
            "/v1/responses", json={"input": "unforgettable", "store": False, "stream": stream}
        )
        assert answer.status_code == 200
    with dial(server) as socket:
        first = turn(socket, input="unforgettable", store=False)["response"]
        second = turn(socket, input="more", store=False, previous_response_id=first["id"])["response"]
    assert first["store"] is False
    assert second["previous_response_id"] == first["id"]
    assert rows() == before
    assert not any(b"unforgettable" in file.read_bytes() for file in folder.iterdir())
    kept = client.create(input="unforgettable")
    assert kept["store"] is True
    assert client.ok("GET", f"/v1/responses/{kept['id']}") == kept
    assert rows() != before
    assert any(b"unforgettable" in file.read_bytes() for file in folder.iterdir())


def test_background_needs_the_store(client: Client) -> None:
    error = refusal(client, background=True, store=False)
    assert (error["param"], error["code"]) == ("background", "background_needs_store")


# --- how the model works -----------------------------------------------------------------------------------


def test_sampling(curious: Client, voice: Voice) -> None:
    given = {"temperature": 0.2, "top_p": 0.5, "presence_penalty": 0.3, "frequency_penalty": -0.4}
    made = curious.create(input="hi", **given)
    assert {name: voice.last[name] for name in given} == given
    assert {name: made[name] for name in given} == given
    plain = curious.create(input="hi")
    assert not given.keys() & voice.last.keys()
    assert [plain[name] for name in given] == [1.0, 1.0, 0.0, 0.0]
    dropped = curious.create(model="counting", input="hi", **given)
    assert receipts(dropped) == [(name, "dropped") for name in given]


def test_instructions_come_first_and_are_not_inherited(client: Client, voice: Voice) -> None:
    first = client.create(input="hi", instructions="Be brief.")
    assert voice.last["messages"][0] == {"role": "system", "content": "Be brief."}
    assert first["instructions"] == "Be brief."
    second = client.create(input="more", previous_response_id=first["id"])
    assert [message["role"] for message in voice.last["messages"]] == ["user", "assistant", "user"]
    assert second["instructions"] is None


def test_reasoning(curious: Client, voice: Voice) -> None:
    made = curious.create(model="full", input="hi", reasoning={"effort": "xhigh"})
    assert voice.last["reasoning_effort"] == "xhigh"
    assert (made["reasoning"], receipts(made)) == ({"effort": "xhigh", "summary": None}, [])
    made = curious.create(model="full", input="hi", reasoning={"effort": "low", "summary": "auto"})
    assert receipts(made) == [("reasoning.summary", "dropped")]
    made = curious.create(input="hi", reasoning={"effort": "low"})
    assert voice.last["reasoning_effort"] == "low"
    assert receipts(made) == []
    assert receipts(curious.create(input="hi", reasoning={})) == []
    assert refusal(curious, reasoning={"effort": "heroic"})["param"] == "reasoning.effort"


def test_service_tier(curious: Client, voice: Voice) -> None:
    made = curious.create(model="full", input="hi", service_tier="priority")
    assert (voice.last["service_tier"], made["service_tier"]) == ("priority", "priority")
    made = curious.create(input="hi", service_tier="priority")
    assert "service_tier" not in voice.last
    # It says which tier was used, and nobody knew of another.
    assert (made["service_tier"], receipts(made)) == ("default", [("service_tier", "dropped")])
    for undemanding in ("auto", "default"):
        made = curious.create(input="hi", service_tier=undemanding)
        assert (made["service_tier"], receipts(made)) == ("default", [])
    assert refusal(curious, service_tier="golden")["param"] == "service_tier"


@pytest.mark.parametrize(
    ("name", "model", "field"),
    [
        ("prompt_cache_key", "full", "prompt_cache_key"),
        ("prompt_cache_key", "model", None),
        ("safety_identifier", "full", "safety_identifier"),
        ("safety_identifier", "model", "user"),
        ("safety_identifier", "counting", None),
    ],
)
def test_identifiers(curious: Client, voice: Voice, name: str, model: str, field: str | None) -> None:
    made = curious.create(input="hi", model=model, **{name: "user-7"})
    assert made[name] == "user-7"
    sent = [key for body in voice.heard for key, value in body.items() if value == "user-7"]
    assert sent == ([field] if field else [])
    assert receipts(made) == ([] if field else [(name, "dropped")])
    assert refusal(curious, **{name: "x" * 65})["param"] == name


def test_fields_outside_the_specification(curious: Client, voice: Voice) -> None:
    made = curious.create(input="hi", seed=7, stop=["x"], invented={"a": 1}, client_metadata={"b": 2})
    assert (voice.last["seed"], voice.last["stop"]) == (7, ["x"])
    assert not {"invented", "client_metadata"} & voice.last.keys()
    assert receipts(made) == [("invented", "dropped")]


# --- stream options ----------------------------------------------------------------------------------------

EVERYTHING = script(
    {"reasoning": "let me think about it", "chunk": 5},
    {"summary": "thought", "chunk": 2},
    {"text": 'A "long" word, and\n then another one: extraordinary', "chunk": 9},
    {"call": "save", "arguments": {"what": "this and that"}, "chunk": 6},
    {"text": "x" * 100},
)
PADDED = {
    "response.output_text.delta",
    "response.reasoning.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
}


def test_obfuscation_hides_the_length_of_every_delta(client: Client) -> None:
    wanted = {"model": "scripted", "input": EVERYTHING, "tools": TOOLS}
    events = streamed(client, stream_options={"include_obfuscation": True}, **wanted)
    padded = [event for event in events if event["type"].endswith(".delta")]
    assert {event["type"] for event in padded} == PADDED
    assert len({len(event["obfuscation"]) for event in padded}) > 2
    assert len({event["obfuscation"] for event in padded}) == len(padded)
    sizes = {len(json.dumps(event["delta"]) + event["obfuscation"]) for event in padded}
    assert sizes == {32, 128}
    for event in events:
        assert_valid_event(event)
        assert ("obfuscation" in event) == (event in padded)
    plain = streamed(client, **wanted)
    assert [event.get("delta") for event in plain] == [event.get("delta") for event in events]


@pytest.mark.parametrize("options", [None, {}, {"include_obfuscation": False}])
def test_without_being_asked_for_there_is_no_obfuscation(client: Client, options: Json | None) -> None:
    events = streamed(client, model="scripted", input=EVERYTHING, tools=TOOLS, stream_options=options)
    assert {event["type"] for event in events} >= PADDED
    assert not any("obfuscation" in event for event in events)


def test_obfuscation_stays_the_same_when_a_stream_is_read_again(server: Serving) -> None:
    client = server.client(X_Antiphon_Dialect="openai")
    events = streamed(
        client,
        model="scripted",
        input=script({"reasoning": "hm"}, {"text": "one two", "chunk": 3}),
        background=True,
        stream_options={"include_obfuscation": True},
    )
    deltas = [event for event in events if event["type"].endswith(".delta")]
    assert len(deltas) == 4
    assert all(event["obfuscation"] for event in deltas)
    with client.listen(f"/v1/responses/{events[0]['response']['id']}?stream=true") as stream:
        assert list(stream) == events
