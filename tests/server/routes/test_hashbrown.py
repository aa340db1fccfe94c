"""`POST /api/hashbrown`: frames, threads in the store, and errors, over real sockets."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.wires.hashbrown.frames import NO_THREADS
from tests.bridges.scripts import TOML
from tests.server.conftest import Serve
from tests.server.http_calls import key_table, script
from tests.server.servers import Client, Serving, until
from tests.wires.hashbrown.frame_reader import Frame, folded, frame_types, message, unframed

Json = dict[str, Any]

PATH = "/api/hashbrown"
HELLO = script({"text": "Hello", "chunk": 2})
SAVED = ["thread-save-start", "thread-save-success"]
TOOL: Json = {"name": "weather", "description": "Looks out.", "parameters": {"type": "object"}}


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


@pytest.fixture
def client(server: Serving) -> Iterator[Client]:
    with server.client() as client:
        yield client


def ask(client: Client, *messages: Json | str, query: str = "", **fields: Any) -> list[Frame]:
    sent = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
    answer = client.post(PATH + query, json={"operation": "generate", "messages": sent, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    folded(answer.content)
    return unframed(answer.content)


def load(client: Client, id: str, query: str = "") -> list[Frame]:
    body = {"operation": "load-thread", "model": "", "system": "", "messages": [], "threadId": id}
    answer = client.post(PATH + query, json=body)
    assert answer.status_code == 200, answer.text
    return unframed(answer.content)


def thread_of(frames: list[Frame]) -> str:
    assert frames[-1]["type"] == "thread-save-success", frames[-1]
    return str(frames[-1]["threadId"])


def refused(client: Client, body: Json, query: str = "", status: int = 400) -> Json:
    return client.refused(status, "POST", PATH + query, json=body)


def failed(client: Client, body: Json) -> Json:
    """The error of an answer that is one frame, which both dialects have."""
    texts = []
    for dialect in ("generation", "open-responses"):
        answer = client.post(f"{PATH}?dialect={dialect}", json=body)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream")
        folded(answer.content)
        (frame,) = unframed(answer.content)
        texts.append(frame["error"])
    text, error = texts
    assert text == (f"{error['param']}: {error['message']}" if "param" in error else error["message"])
    return dict(error)


def played(*turns: Json) -> str:
    """A prompt with a script of several turns."""
    return f"```script\n{json.dumps({'turns': turns})}\n```"


# --- dialects ---------------------------------------------------------------------------------------------


def test_the_default_is_what_the_released_client_reads(client: Client) -> None:
    frames = ask(client, HELLO, query="?threads=off")
    assert set(frame_types(frames)) == {"generation-start", "generation-chunk", "generation-finish"}
    assert message(frames)["content"] == "Hello"
    assert ask(client, HELLO, query="?threads=off&dialect=generation") == frames


def test_the_other_dialect_is_chosen_by_the_request(client: Client) -> None:
    frames = ask(client, HELLO, query="?dialect=open-responses&threads=off")
    assert frames[0]["type"] == "response.created"
    assert frames[-1]["type"] == "response.completed"
    assert "".join(f["delta"] for f in frames if f["type"] == "response.output_text.delta") == "Hello"


@pytest.mark.parametrize("dialect", ["generation", "open-responses"])
def test_threads_are_there_in_both_dialects(client: Client, dialect: str) -> None:
    first = ask(client, HELLO, query=f"?dialect={dialect}")
    assert frame_types(first)[-2:] == SAVED
    id = thread_of(first)
    second = ask(client, HELLO, query=f"?dialect={dialect}", threadId=id)
    assert frame_types(second)[:2] == ["thread-load-start", "thread-load-success"]
    assert frame_types(second)[-2:] == SAVED


@pytest.mark.parametrize("dialect", ["generation", "open-responses"])
def test_threads_can_be_off(client: Client, dialect: str) -> None:
    frames = ask(client, HELLO, query=f"?threads=off&dialect={dialect}", threadId="t")
    assert not any(kind.startswith("thread-") for kind in frame_types(frames))


@pytest.mark.parametrize("query", ["dialect=sse", "threads=maybe", "content_filter=x"])
def test_an_unknown_choice_is_refused_by_name(client: Client, query: str) -> None:
    name, _, value = query.partition("=")
    error = refused(client, {"messages": [{"role": "user", "content": "Hi"}]}, "?" + query)
    assert error["param"] == name
    assert repr(value) in error["message"]


def test_the_content_filter_can_be_told_as_sse_does(client: Client) -> None:
    cut = script({"text": "Hel"}, {"finish": "content_filter"})
    failed = ask(client, cut, query="?dialect=open-responses")
    assert failed[-1]["type"] == "response.failed"  # and so nothing is saved
    frames = ask(client, cut, query="?dialect=open-responses&content_filter=incomplete")
    assert frame_types(frames)[-3:] == ["response.incomplete", *SAVED]


# --- what is asked ----------------------------------------------------------------------------------------


def test_a_tool_call_and_its_result(client: Client) -> None:
    steps = {"call": "weather", "arguments": {"city": "Oslo"}, "id": "call_1", "chunk": 4}
    prompt = played({"when": {"last": "function_call_output"}, "steps": [{"echo": True}]}, {"steps": [steps]})
    first = ask(client, prompt, tools=[TOOL], query="?threads=off")
    made = message(first)
    assert made["toolCalls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}'}
    result = {
        "role": "tool",
        "content": {"status": "fulfilled", "value": "sun"},
        "toolCallId": "call_1",
        "toolName": "weather",
    }
    second = ask(client, prompt, made, result, tools=[TOOL], query="?threads=off")
    assert message(second)["content"] == '{"status":"fulfilled","value":"sun"}'


def test_structured_output_is_held_to_its_schema(client: Client) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    good = ask(client, script({"text": '{"n":1}'}), responseFormat=schema)
    assert message(good)["content"] == '{"n":1}'
    bad = ask(client, script({"text": '{"n":"one"}'}), responseFormat=schema)
    assert bad[-1]["type"] == "generation-error"
    assert "does not fit" in bad[-1]["error"]


def test_the_system_prompt_reaches_the_model(client: Client) -> None:
    frames = ask(client, "Hi", system=script({"text": "as told"}))
    assert message(frames)["content"] == "as told"


def test_reasoning_has_no_place_in_generation_frames_and_its_own_in_the_other(client: Client) -> None:
    thinking = script({"reasoning": "hm"}, {"text": "Yes"})
    assert message(ask(client, thinking))["content"] == "Yes"
    frames = ask(client, thinking, query="?dialect=open-responses")
    assert [f["delta"] for f in frames if f["type"] == "response.reasoning.delta"] == ["hm"]


def test_the_proof_of_reasoning_comes_back_with_the_history(client: Client) -> None:
    steps = [{"reasoning": "hm"}, {"signature": "proof"}, {"call": "weather", "id": "call_1"}]
    prompt = played({"when": {"turn": 2}, "steps": [{"text": "done"}]}, {"steps": steps})
    made = message(ask(client, prompt, tools=[TOOL], query="?threads=off"))
    assert made["toolCalls"][0]["metadata"]
    result = {"role": "tool", "content": {"status": "fulfilled"}, "toolCallId": "call_1", "toolName": "w"}
    # A seal that is broken is refused, so it is really opened.
    assert message(ask(client, prompt, made, result, query="?threads=off"))["content"] == "done"
    made["toolCalls"][0]["metadata"]["antiphon:reasoning"][0]["proof"] += "x"
    body = {"messages": [{"role": "user", "content": prompt}, made, result]}
    error = failed(client, body)
    assert (error["code"], error["param"]) == ("invalid_encrypted_content", "messages[1]")


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "error", "content": "it broke"}]}, "messages"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
        (
            {"messages": [{"role": "tool", "content": {}, "toolCallId": "c", "toolName": "t"}]},
            "messages[0].toolCallId",
        ),
        ({"operation": "load-thread"}, "threadId"),
        ({"messages": [{"role": "user", "content": "Hi"}], "toolChoice": "required"}, "toolChoice"),
        ({"messages": [{"role": "user", "content": "Hi"}], "responseFormat": {"type": 7}}, "responseFormat"),
    ],
    ids=str,
)
def test_bad_input_is_one_frame_with_its_place(client: Client, body: Json, param: str) -> None:
    assert failed(client, body)["param"] == param


def test_an_unknown_model_is_one_frame(client: Client) -> None:
    body = {"model": "nope", "messages": [{"role": "user", "content": "Hi"}]}
    error = failed(client, body)
    assert (error["type"], error["code"], error["param"]) == ("not_found", "model_not_found", "model")


def test_an_error_before_the_first_frame_is_one_frame(client: Client) -> None:
    early = script({"error": {"message": "busy", "status": 429, "retry_after": 3}})
    error = failed(client, {"messages": [{"role": "user", "content": early}]})
    assert (error["message"], error["headers"]) == ("busy", {"retry-after": "3"})


def test_a_thread_that_was_loaded_is_not_told_of_before_an_early_error(client: Client) -> None:
    id = thread_of(ask(client, HELLO))
    early = script({"error": {"message": "busy", "status": 503}})
    error = failed(client, {"messages": [{"role": "user", "content": early}], "threadId": id})
    assert error["message"] == "busy"


@pytest.mark.parametrize("dialect", ["generation", "open-responses"])
def test_a_later_error_is_the_last_frame_and_nothing_is_saved(client: Client, dialect: str) -> None:
    late = script({"text": "Hel"}, {"error": {"message": "it broke"}})
    id = thread_of(ask(client, HELLO))
    frames = ask(client, late, threadId=id, query=f"?dialect={dialect}")
    assert frames[-1]["type"] == ("generation-error" if dialect == "generation" else "error")
    (_, loaded) = load(client, id)
    assert len(loaded["thread"]) == 2


def test_get_is_not_possible(client: Client) -> None:
    assert client.get(PATH).status_code == 405


# --- threads ----------------------------------------------------------------------------------------------


def test_a_thread_is_loaded_and_told_only_when_asked_for(client: Client) -> None:
    id = thread_of(ask(client, HELLO))
    frames = ask(client, HELLO, threadId=id)
    assert frames[1] == {"type": "thread-load-success"}
    assert frame_types(frames)[2] == "generation-start"
    start, loaded = load(client, id)
    assert start == {"type": "thread-load-start"}
    said = {"role": "assistant", "content": "Hello", "toolCalls": []}
    asked = {"role": "user", "content": HELLO}
    assert loaded == {"type": "thread-load-success", "thread": [asked, said, asked, said]}


@pytest.mark.parametrize("operation", ["generate", "load-thread"])
def test_a_thread_that_cannot_be_loaded_ends_the_answer(client: Client, operation: str) -> None:
    body = {"operation": operation, "threadId": "nowhere", "messages": [{"role": "user", "content": "Hi"}]}
    frames = unframed(client.post(PATH, json=body).content)
    assert frame_types(frames) == ["thread-load-start", "thread-load-failure"]
    assert "'nowhere' does not exist" in frames[1]["error"]


def test_without_threads_none_can_be_loaded(client: Client) -> None:
    id = thread_of(ask(client, HELLO))
    assert load(client, id, "?threads=off")[1] == {"type": "thread-load-failure", "error": NO_THREADS}


def test_what_the_thread_holds_already_is_not_doubled(client: Client) -> None:
    id = thread_of(ask(client, HELLO))
    said = {"role": "assistant", "content": "Hello"}
    ask(client, {"role": "user", "content": HELLO}, said, "And now?", threadId=id)
    (_, loaded) = load(client, id)
    assert [one["content"] for one in loaded["thread"]] == [HELLO, "Hello", "And now?", "Hello"]


def test_two_turns_have_one_id_and_one_thread(client: Client) -> None:
    """The second turn brings only what is new; the model is given both."""
    prompt = played({"when": {"turn": 2}, "steps": [{"text": "again"}]}, {"steps": [{"text": "first"}]})
    one = ask(client, prompt)
    two = ask(client, "And now?", threadId=thread_of(one))
    assert thread_of(one) == thread_of(two)
    assert message(two)["content"] == "again"
    (_, loaded) = load(client, thread_of(one))
    assert [m["content"] for m in loaded["thread"]] == [prompt, "first", "And now?", "again"]


def test_a_tool_round_trip_in_a_thread_sends_only_the_result(client: Client) -> None:
    prompt = played(
        {"when": {"last": "function_call_output"}, "steps": [{"text": "sunny"}]},
        {"steps": [{"reasoning": "hm"}, {"signature": "s"}, {"call": "weather", "id": "call_1"}]},
    )
    id = thread_of(ask(client, prompt, tools=[TOOL]))
    result = {
        "role": "tool",
        "content": {"status": "rejected", "reason": "fog"},
        "toolCallId": "call_1",
        "toolName": "weather",
    }
    frames = ask(client, result, tools=[TOOL], threadId=id)
    assert message(frames)["content"] == "sunny"
    (_, loaded) = load(client, id)
    assert [one["role"] for one in loaded["thread"]] == ["user", "assistant", "tool", "assistant"]
    assert loaded["thread"][2] == result


def test_a_thread_goes_on_when_the_user_did_not_wait_for_the_tool(client: Client) -> None:
    prompt = played({"when": {"turn": 2}, "steps": [{"text": "ok"}]}, {"steps": [{"call": "weather"}]})
    id = thread_of(ask(client, prompt, tools=[TOOL]))
    assert message(ask(client, "Never mind.", threadId=id))["content"] == "ok"
    assert message(ask(client, HELLO, threadId=id))["content"] == "Hello"


def test_an_emulated_structured_output_does_not_wait_for_a_result(client: Client) -> None:
    output = {**TOOL, "name": "output"}
    id = thread_of(ask(client, script({"call": "output", "arguments": {"n": 1}}), tools=[output]))
    assert message(ask(client, HELLO, threadId=id))["content"] == "Hello"
    (_, loaded) = load(client, id)
    assert loaded["thread"][1]["content"] == '{"n":1}'


def test_a_thread_is_a_conversation_of_the_store(client: Client) -> None:
    id = thread_of(ask(client, HELLO))
    items = client.ok("GET", f"/v1/conversations/{id}/items?order=asc")["data"]
    assert [item["role"] for item in items] == ["user", "assistant"]
    client.ok("POST", f"/v1/conversations/{id}/items", json={"items": [{"role": "user", "content": "Hm."}]})
    (_, loaded) = load(client, id)
    assert loaded["thread"][-1] == {"role": "user", "content": "Hm."}
    client.ok("DELETE", f"/v1/conversations/{id}")
    assert load(client, id)[1]["type"] == "thread-load-failure"


def test_a_thread_that_cannot_be_saved_is_told_after_the_answer(server: Serving) -> None:
    client = server.client()
    slow = script({"text": "Hel"}, {"delay": 0.3}, {"text": "lo"})
    id = thread_of(ask(client, HELLO))
    body = {"messages": [{"role": "user", "content": slow}], "threadId": id}
    with client.stream("POST", PATH, json=body) as answer:
        pieces = answer.iter_raw()
        data = next(pieces)
        server.client().ok("DELETE", f"/v1/conversations/{id}")
        data += b"".join(pieces)
    kinds = frame_types(unframed(data))
    assert kinds[-3:] == ["generation-finish", "thread-save-start", "thread-save-failure"]


def test_one_tenant_cannot_load_the_thread_of_another(serve: Serve) -> None:
    server = serve(TOML + key_table("ann", tenant="a") + key_table("bob", tenant="b"))
    ann, bob = server.client("sk-ann"), server.client("sk-bob")
    id = thread_of(ask(ann, HELLO))
    assert load(ann, id)[1]["type"] == "thread-load-success"
    assert load(bob, id)[1]["type"] == "thread-load-failure"
    assert server.client().post(PATH, json={}).status_code == 401


# --- the stream itself ------------------------------------------------------------------------------------


def test_a_client_that_goes_away_ends_the_run_and_saves_nothing(server: Serving) -> None:
    client = server.client()
    id = thread_of(ask(client, HELLO))
    endless = script({"text": "word ", "times": 1000, "delay": 0.05})
    body = {"messages": [{"role": "user", "content": endless}], "threadId": id}
    with client.stream("POST", PATH, json=body) as answer:
        chunks = answer.iter_raw()  # let go of, it would close the connection
        next(chunks)
        assert server.gateway._runs
    until(lambda: not server.gateway._runs)
    (_, loaded) = load(server.client(), id)
    assert len(loaded["thread"]) == 2


def test_frames_come_while_nothing_is_said(serve: Serve) -> None:
    server = serve(TOML, SERVER__KEEPALIVE="0.05")
    frames = ask(server.client(), script({"text": "a"}, {"delay": 0.3}, {"text": "b"}))
    assert "keepalive" in frame_types(frames)
    assert message(frames)["content"] == "ab"
