"""The real clients of the Vercel AI SDK, under Node.js, against a gateway: versions 5 to 7 and version 4."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from antiphon.bridges.ai_sdk import chats
from tests.bridges.javascript import needs_node, run_node
from tests.bridges.scripts import ENDLESS, EVERYTHING, FAILURE, ROUND, TOML, WEATHER, Json, said
from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Serving, until
from tests.server.upstream import Upstream

pytestmark = needs_node

OUTPUTS = {"get_weather": {"degrees": 18}}
# "react" is `Chat` of @ai-sdk/react over AI SDK 7; the others are what it is made of, in their own version.
UI_CLIENTS = ["react", "ai6", "ai5"]


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


def chat(server: Serving, client: str, *texts: str, **plan: Any) -> Json:
    """What a front end has in the end, after its user has said this."""
    plan = {"api": f"{server.url}/api/v1/chat", "id": f"{client}-{abs(hash(texts))}", **plan}
    steps: list[Json] = plan.pop("steps", None) or [{"text": text} for text in texts]
    if client == "ai4":
        plan["headers"] = {"X-Antiphon-Protocol": "data-v1"}
        seen: Json = run_node("ai_v1.mjs", plan | {"steps": steps})
    else:
        seen = run_node("ai_ui.mjs", client, plan | {"steps": steps})
    return seen


def parts(message: Json, kind: str) -> list[Json]:
    return [part for part in message["parts"] if part["type"] == kind]


def names(seen: Json) -> list[str]:
    return [name for name, _ in seen["parts"]]


# --- AI SDK 5 to 7 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_text_reasoning_sources_and_data_reach_the_message(server: Serving, client: str) -> None:
    seen = chat(server, client, said(EVERYTHING))
    assert seen["errors"] == []
    user, answer = seen["messages"]
    assert user["role"], answer["role"] == ("user", "assistant")
    assert [part["type"] for part in answer["parts"]] == [
        "step-start",
        "reasoning",
        "text",
        "source-url",
        "data-acme:search",
    ]
    (reasoning,), (text,) = parts(answer, "reasoning"), parts(answer, "text")
    assert reasoning["text"] == "Weather,\nthen. Ünïcode"
    assert text["text"] == "It is «18 °C» \U0001f324.\nBye"
    assert reasoning["state"] == text["state"] == "done"
    assert reasoning["providerMetadata"]["antiphon"]["encryptedContent"]
    assert parts(answer, "source-url")[0]["url"] == "https://w.example"
    assert parts(answer, "data-acme:search")[0]["data"]["query"] == "paris"
    assert {"type": "data-acme:progress", "data": {"done": 1}, "transient": True} in seen["data"]
    assert answer["id"] == answer["metadata"]["responseId"]
    assert answer["metadata"]["model"] == "demo"
    assert answer["metadata"]["usage"]["totalTokens"] == 18
    (finish,) = seen["finishes"]
    assert not finish["isAbort"]
    assert not finish["isError"]
    assert finish["finishReason"] == "stop"


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_a_tool_round_trip_goes_on_in_the_same_message(server: Serving, client: str) -> None:
    seen = chat(server, client, said(ROUND), outputs=OUTPUTS, body={"tools": [WEATHER]})
    assert seen["errors"] == []
    assert [call["toolCallId"] for call in seen["calls"]] == ["call_paris", "call_tokyo"]
    assert [call["input"] for call in seen["calls"]] == [{"city": "Paris"}, {"city": "Tokyo"}]
    _, answer = seen["messages"]
    calls = parts(answer, "tool-get_weather")
    assert [part["state"] for part in calls] == ["output-available"] * 2
    assert [part["output"] for part in calls] == [{"degrees": 18}] * 2
    assert [part["text"] for part in parts(answer, "text")] == ["Let me look.", "Paris 18, Tokyo 25."]
    assert len(parts(answer, "step-start")) == 2
    assert len(seen["requests"]) == 2


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_a_tool_that_nobody_declared_is_dynamic(server: Serving, client: str) -> None:
    seen = chat(server, client, said(ROUND), outputs=OUTPUTS)
    _, answer = seen["messages"]
    assert [part["toolName"] for part in parts(answer, "dynamic-tool")] == ["get_weather"] * 2
    assert parts(answer, "text")[-1]["text"] == "Paris 18, Tokyo 25."


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_arguments_that_are_no_json_are_an_error_of_the_tool(server: Serving, client: str) -> None:
    wrong = {"call": "get_weather", "arguments": "{oops", "id": "call_1"}
    turns = [
        {"when": {"last": "message"}, "steps": [wrong]},
        {"when": {"contains": "not valid JSON"}, "steps": [{"text": "I am sorry."}]},
    ]
    seen = chat(server, client, said(turns))
    (tool,) = parts(seen["messages"][1], "dynamic-tool")
    assert tool["state"] == "output-error"
    assert "not valid JSON" in tool["errorText"]
    assert seen["calls"] == []
    assert parts(seen["messages"][1], "text")[0]["text"] == "I am sorry."


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_an_error_in_the_middle_is_told_and_the_text_stays(server: Serving, client: str) -> None:
    seen = chat(server, client, said(FAILURE))
    assert seen["errors"] == ["the model is overloaded"]
    assert seen["status"] == "error"
    assert parts(seen["messages"][1], "text")[0]["text"] == "Once upon"


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_an_error_before_the_first_byte_is_json(server: Serving, client: str) -> None:
    seen = chat(server, client, "hi", body={"model": "nope"})
    (error,) = seen["errors"]
    assert '"code":"model_not_found"' in error
    assert '"param":"model"' in error


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_an_abort_stops_the_model_and_the_chat_goes_on(server: Serving, client: str) -> None:
    texts = said(ENDLESS), said([{"text": "Fine."}])
    seen = chat(server, client, *texts, stopAt="word ", id=f"stop-{client}")
    assert seen["errors"] == []
    assert seen["finishes"][0]["isAbort"]
    until(lambda: not server.gateway._runs)
    _, cut, _, answer = seen["messages"]
    assert parts(cut, "text")[0]["text"].startswith("word ")
    assert parts(answer, "text")[0]["text"] == "Fine."


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_a_chat_of_several_turns_is_not_doubled(server: Serving, client: str) -> None:
    texts = [said([{"text": f"Answer {n}"}]) for n in range(3)]
    chat(server, client, *texts, id=f"turns-{client}")
    history = stored_texts(server, f"turns-{client}")
    assert [text for role, text in history if role == "assistant"] == ["Answer 0", "Answer 1", "Answer 2"]
    assert [text for role, text in history if role == "user"] == texts


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_only_the_last_message_continues_from_the_store(server: Serving, client: str) -> None:
    texts = [said([{"text": "One"}]), said(ROUND), said([{"text": "Three"}])]
    seen = chat(
        server, client, *texts, id=f"last-{client}", onlyLast=True, outputs=OUTPUTS, body={"tools": [WEATHER]}
    )
    assert seen["errors"] == []
    assert all("messages" not in request for request in seen["requests"])
    history = stored_texts(server, f"last-{client}")
    said_back = [text for role, text in history if role == "assistant"]
    assert said_back == ["One", "Let me look.", "Paris 18, Tokyo 25.", "Three"]


@pytest.mark.parametrize("client", UI_CLIENTS)
def test_a_regenerated_answer_takes_the_place_of_the_first(server: Serving, client: str) -> None:
    steps = [{"text": "Tell me."}, {"regenerate": True}]
    seen = chat(server, client, steps=steps, id=f"again-{client}")
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
    assert stored_texts(server, f"again-{client}") == [("user", "Tell me."), ("assistant", "Tell me.")]


@pytest.mark.parametrize("client", [*UI_CLIENTS, "ai4"])
def test_a_running_answer_is_taken_up_by_another_page(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    found = threading.Event()
    running = chats.running

    async def watched(*arguments: Any) -> Any:
        answer = await running(*arguments)
        if answer is not None:
            found.set()
        return answer

    monkeypatch.setattr(chats, "running", watched)
    server = serve(upstream.toml)
    plan: Json = {"id": "c1", "body": {"resumable": True}}
    with ThreadPoolExecutor(2) as pages:
        first = pages.submit(chat, server, client, "Go on", stopAt="Once ", **plan)
        call = upstream.next()
        call.say("Once ")
        (question, _) = first.result()["messages"]
        plan["messages"] = [question]
        second = pages.submit(chat, server, client, steps=[{"resume": True}], **plan)
        assert found.wait(4 * DEADLINE)
        call.finish("upon a time")
        seen = second.result()
    assert seen["errors"] == []
    (part,) = parts(seen["messages"][1], "text")
    assert part["text"] == "Once upon a time"
    third = chat(server, client, steps=[{"resume": True}], **plan)
    assert third["errors"] == []
    assert len(third["messages"]) == 1


def stored_texts(server: Serving, id: str) -> list[tuple[str, str]]:
    """The messages of a chat, as the store has them."""
    client, path = server.client(), f"/v1/antiphon/chats/{chats.chat_id('', id)}"
    nodes = {node["id"]: node for node in client.ok("GET", f"{path}/responses?limit=100")["data"]}
    items: list[Json] = []
    last = client.ok("GET", path)["current"]
    while last is not None:
        items = nodes[last]["input"] + nodes[last]["output"] + items
        last = nodes[last]["previous_response_id"]
    return [
        (item["role"], "".join(part["text"] for part in item["content"]))
        for item in items
        if item["type"] == "message"
    ]


# --- AI SDK 4 ---------------------------------------------------------------------------------------------


def test_v1_text_reasoning_sources_and_data_reach_the_message(server: Serving) -> None:
    seen = chat(server, "ai4", said(EVERYTHING))
    assert seen["errors"] == []
    _, answer = seen["messages"]
    assert answer["content"] == "It is «18 °C» \U0001f324.\nBye"
    assert answer["reasoning"] == "Weather,\nthen. Ünïcode"
    (reasoning,), (source,) = parts(answer, "reasoning"), parts(answer, "source")
    assert reasoning["details"][0]["signature"]
    assert source["source"]["url"] == "https://w.example"
    response, search = answer["annotations"]
    assert response["responseId"] == answer["id"]
    assert search["query"] == "paris"
    assert seen["data"] == [{"type": "acme:progress", "done": 1}]
    (finish,) = seen["finishes"]
    assert finish["finishReason"] == "stop"
    assert finish["usage"] == {"promptTokens": 11, "completionTokens": 7, "totalTokens": 18}
    assert names(seen)[0] == "StartStep"
    assert names(seen)[-2:] == ["FinishStep", "FinishMessage"]


def test_v1_a_tool_round_trip_goes_on_in_the_same_message(server: Serving) -> None:
    seen = chat(server, "ai4", said(ROUND), outputs=OUTPUTS, body={"tools": [WEATHER]})
    assert seen["errors"] == []
    assert [call["args"] for call in seen["calls"]] == [{"city": "Paris"}, {"city": "Tokyo"}]
    _, answer = seen["messages"]
    made = [part["toolInvocation"] for part in parts(answer, "tool-invocation")]
    assert [one["state"] for one in made] == ["result", "result"]
    assert [part["text"] for part in parts(answer, "text")] == ["Let me look.", "Paris 18, Tokyo 25."]
    assert {"ToolCallStreamingStart", "ToolCallDelta", "ToolCall"} <= set(names(seen))


def test_v1_arguments_that_are_no_json_are_the_result_of_the_tool(server: Serving) -> None:
    wrong = {"call": "get_weather", "arguments": "[1]", "id": "call_1"}
    turns = [
        {"when": {"last": "message"}, "steps": [wrong]},
        {"when": {"contains": "not a JSON object"}, "steps": [{"text": "I am sorry."}]},
    ]
    seen = chat(server, "ai4", said(turns))
    assert seen["errors"] == []
    assert seen["calls"] == []
    assert seen["messages"][1]["content"] == "I am sorry."


def test_v1_an_error_in_the_middle_is_told_and_the_text_stays(server: Serving) -> None:
    seen = chat(server, "ai4", said(FAILURE))
    assert seen["errors"] == ["the model is overloaded"]
    assert seen["messages"][1]["content"] == "Once upon"
    assert names(seen)[-3:] == ["Error", "FinishStep", "FinishMessage"]
    assert seen["parts"][-1][1]["finishReason"] == "error"


def test_v1_an_error_before_the_first_byte_is_json(server: Serving) -> None:
    seen = chat(server, "ai4", "hi", body={"model": "nope"})
    assert '"code":"model_not_found"' in seen["errors"][0]


def test_v1_an_abort_stops_the_model_and_the_chat_goes_on(server: Serving) -> None:
    texts = said(ENDLESS), said([{"text": "Fine."}])
    seen = chat(server, "ai4", *texts, stopAt="word ", id="stop-ai4")
    assert seen["errors"] == ["AbortError"]
    until(lambda: not server.gateway._runs)
    assert seen["messages"][1]["content"].startswith("word ")
    assert seen["messages"][3]["content"] == "Fine."


def test_v1_a_chat_of_several_turns_is_not_doubled(server: Serving) -> None:
    texts = [said([{"reasoning": "Hm."}, {"text": f"Answer {n}"}]) for n in range(3)]
    chat(server, "ai4", *texts, id="turns-ai4")
    history = stored_texts(server, "turns-ai4")
    assert [text for role, text in history if role == "assistant"] == ["Answer 0", "Answer 1", "Answer 2"]
    assert [text for role, text in history if role == "user"] == texts


def test_version_1_is_for_ai_sdk_4_and_newer_clients_need_the_ui_stream(server: Serving) -> None:
    """The front end of the guide is on AI SDK 6, which cannot read v1; each reads its own stream only."""
    text = said([{"text": "Hello"}])
    old = {"X-Antiphon-Protocol": "data-v1"}
    assert chat(server, "ai4", text)["messages"][1]["content"] == "Hello"
    assert len(chat(server, "ai6", text, headers=old, id="v1-for-ai6")["messages"]) == 1
    (answer,) = chat(server, "ai6", text, id="ui-for-ai6")["messages"][1:]
    assert parts(answer, "text")[0]["text"] == "Hello"
