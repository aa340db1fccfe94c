"""Hashbrown's own client, from its package, in whole chats with the gateway."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bridges.javascript import needs_node, run_node
from tests.bridges.scripts import TOML
from tests.server.http_calls import script
from tests.server.servers import Serving, configure, until

pytestmark = needs_node

Json = dict[str, Any]

TOOL: Json = {"name": "weather", "fields": {"city": "string"}, "result": {"sky": "blue"}}
STORED = ["thread-save-start", "thread-save-success"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(configure(tmp_path_factory.mktemp("gateway"), TOML)) as serving:
        yield serving


def chat(gateway: Serving, query: str = "", **plan: Any) -> Json:
    made: Json = run_node("hashbrown.mjs", f"{gateway.url}/api/hashbrown{query}", plan)
    return made


def played(*turns: Json) -> str:
    return f"```script\n{json.dumps({'turns': turns})}\n```"


def contents(result: Json) -> list[Any]:
    return [message["content"] for message in result["messages"]]


def test_text_comes_in_pieces_and_is_one_message(gateway: Serving) -> None:
    result = chat(gateway, says=[script({"text": "Hello, wörld 🙂", "chunk": 2})])
    assert result["messages"][1] == {"role": "assistant", "content": "Hello, wörld 🙂", "toolCalls": []}
    assert result["error"] is None
    kinds = result["frames"][0]
    assert kinds[0] == "generation-start"
    assert kinds[-3:] == ["generation-finish", *STORED]
    assert kinds.count("generation-chunk") > 5


def test_reasoning_does_not_disturb_the_answer(gateway: Serving) -> None:
    result = chat(gateway, says=[script({"reasoning": "hm", "chunk": 1}, {"text": "Yes."})])
    assert contents(result)[1] == "Yes."


def test_a_whole_chat_with_a_tool_and_structured_output_in_one_thread_over_two_turns(
    gateway: Serving,
) -> None:
    call = {"call": "weather", "arguments": {"city": "Oslo"}, "id": "call_1", "chunk": 3}
    prompt = played(
        {
            "when": {"last": "function_call_output"},
            "steps": [{"text": '{"sky":"blue","degrees":7}', "chunk": 4}],
        },
        {"when": {"turn": 3}, "steps": [{"text": '{"sky":"grey","degrees":3}'}]},
        {"steps": [{"reasoning": "hm"}, {"signature": "sealed"}, call]},
    )
    schema = {"sky": "string", "degrees": "number"}
    result = chat(gateway, says=[prompt, "And tomorrow?"], tools=[TOOL], schema=schema)

    assert result["error"] is None
    asked, called, answer, again, last = result["messages"]
    assert (asked["role"], again["content"]) == ("user", "And tomorrow?")
    assert called["toolCalls"] == [
        {
            "role": "tool",
            "status": "done",
            "name": "weather",
            "toolCallId": "call_1",
            "args": {"city": "Oslo"},
            "result": {"status": "fulfilled", "value": {"sky": "blue", "args": {"city": "Oslo"}}},
        }
    ]
    assert answer["content"] == {"sky": "blue", "degrees": 7}
    assert last["content"] == {"sky": "grey", "degrees": 3}

    first, second, third = result["sent"]
    assert "threadId" not in first
    assert second["threadId"] == third["threadId"] == result["threadId"]
    assert [message["role"] for message in second["messages"]] == ["tool"]
    assert third["messages"] == [{"role": "user", "content": "And tomorrow?"}]
    assert all(kinds[-2:] == STORED for kinds in result["frames"])
    assert all(kinds[:2] == ["thread-load-start", "thread-load-success"] for kinds in result["frames"][1:])

    loaded = chat(gateway, threadId=result["threadId"], tools=[TOOL], schema=schema)
    called["toolCalls"][0]["args"] = None  # the client itself does not read these out of a thread
    assert loaded["messages"] == result["messages"]
    assert loaded["frames"] == [["thread-load-start", "thread-load-success"]]


def test_a_chat_without_threads_sends_its_whole_history(gateway: Serving) -> None:
    steps = [{"reasoning": "hm"}, {"signature": "sealed"}, {"call": "weather", "arguments": {"city": "Oslo"}}]
    prompt = played(
        {"when": {"last": "function_call_output"}, "steps": [{"text": "Blue."}]}, {"steps": steps}
    )
    result = chat(gateway, "?threads=off", says=[prompt, script({"echo": True})], tools=[TOOL])
    assert result["error"] is None
    assert result["threadId"] is None
    assert [message["role"] for message in result["sent"][1]["messages"]] == ["user", "assistant", "tool"]
    # The client carries the proof of the reasoning for us.
    assert result["sent"][1]["messages"][1]["toolCalls"][0]["metadata"]["antiphon:reasoning"]
    assert contents(result)[2] == "Blue."


def test_two_tools_at_once(gateway: Serving) -> None:
    calls = [{"call": "weather", "arguments": {"city": city}, "chunk": 5} for city in ("Oslo", "Rome")]
    prompt = played(
        {"when": {"last": "function_call_output"}, "steps": [{"text": "Both."}]},
        {"steps": [{"calls": calls}]},
    )
    result = chat(gateway, says=[prompt], tools=[TOOL])
    assert [call["args"]["city"] for call in result["messages"][1]["toolCalls"]] == ["Oslo", "Rome"]
    assert contents(result)[-1] == "Both."


def test_a_tool_that_throws_is_told_as_rejected(gateway: Serving) -> None:
    prompt = played(
        {"when": {"last": "function_call_output"}, "steps": [{"echo": True}]},
        {"steps": [{"call": "weather", "arguments": {"city": "Oslo"}}]},
    )
    result = chat(gateway, says=[prompt], tools=[{**TOOL, "throws": "no network"}])
    assert json.loads(contents(result)[-1])["status"] == "rejected"


def test_a_tool_without_arguments_is_called(gateway: Serving) -> None:
    prompt = played(
        {"when": {"last": "function_call_output"}, "steps": [{"text": "Noon."}]}, {"steps": [{"call": "now"}]}
    )
    result = chat(gateway, says=[prompt], tools=[{"name": "now", "fields": {}, "result": {"hour": 12}}])
    assert result["messages"][1]["toolCalls"][0]["result"]["status"] == "fulfilled"
    assert contents(result)[-1] == "Noon."


def test_emulated_structured_output_over_two_turns(gateway: Serving) -> None:
    answer = script({"call": "output", "arguments": {"sky": "blue"}, "chunk": 3})
    result = chat(gateway, says=[answer, answer], schema={"sky": "string"}, emulate=True)
    assert result["error"] is None
    assert contents(result)[1::2] == [{"sky": "blue"}, {"sky": "blue"}]


def test_an_error_before_the_answer_is_shown_and_tried_again(gateway: Serving) -> None:
    early = script({"error": {"message": "too busy", "status": 429}})
    result = chat(gateway, says=[early], retries=1)
    assert result["messages"][-1]["role"] == "error"
    assert result["error"] == "too busy"
    assert result["frames"] == [["generation-error"], ["generation-error"]]


def test_an_error_in_the_middle_is_shown_and_tried_again(gateway: Serving) -> None:
    late = script({"text": "Hel"}, {"error": {"message": "it broke"}})
    result = chat(gateway, says=[late], retries=1)
    assert result["error"] == "it broke"
    assert result["exhausted"] is True
    assert [kinds[-1] for kinds in result["frames"]] == ["generation-error", "generation-error"]


def test_bad_input_is_an_error_and_not_a_broken_stream(gateway: Serving) -> None:
    result = chat(gateway, "?dialect=morse", says=["Hi"])
    assert "(400)" in result["error"]
    assert '"param":"dialect"' in result["error"]


def test_an_unknown_thread_is_an_error_of_the_thread(gateway: Serving) -> None:
    result = chat(gateway, threadId="nowhere")
    assert result["threadLoadError"] == "The thread 'nowhere' does not exist."


def test_an_abort_ends_the_run(gateway: Serving) -> None:
    endless = script({"text": "word ", "times": 2000, "delay": 0.02})
    result = chat(gateway, says=[endless], stopAt="word word")
    assert result["error"] is None
    assert "generation-finish" not in result["frames"][0]
    until(lambda: not gateway.gateway._runs)


def test_the_released_client_hears_nothing_of_the_other_dialect(gateway: Serving) -> None:
    """Which is why `generation` is the default."""
    hello = script({"text": "Hello"})
    result = chat(
        gateway, "?dialect=open-responses&threads=off", messages=[{"role": "user", "content": hello}]
    )
    assert result["messages"] == [{"role": "user", "content": hello}]
    assert "response.output_text.delta" in result["frames"][0]
