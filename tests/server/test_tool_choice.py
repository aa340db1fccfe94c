"""Which tools a model may call, and how often, enforced on what it says."""

from typing import Any

import pytest

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import Json, calls_of, receipts, refusal, streamed
from tests.server.servers import Client, Serving

TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("look_up", "save", "send")
]


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.fixture(scope="module")
def client(server: Serving) -> Client:
    return server.client()


@pytest.fixture(scope="module")
def curious(server: Serving) -> Client:
    """A client that asks for receipts."""
    return server.client(X_Antiphon_Receipts="1")


def test_parallel_tool_calls(curious: Client, voice: Voice) -> None:
    voice.call(("look_up", "{}"), ("save", "{}"))
    made = curious.create(input="hi", tools=TOOLS)
    assert (calls_of(made), made["parallel_tool_calls"]) == (["look_up", "save"], True)
    assert "parallel_tool_calls" not in voice.last
    made = curious.create(input="hi", tools=TOOLS, parallel_tool_calls=False)
    assert voice.last["parallel_tool_calls"] is False
    assert (calls_of(made), made["parallel_tool_calls"]) == (["look_up"], False)
    assert (made["status"], receipts(made)) == ("completed", [("parallel_tool_calls", "suppressed")])


def test_max_tool_calls(curious: Client, voice: Voice) -> None:
    voice.call(("look_up", "{}"), ("save", "{}"), ("send", "{}"))
    made = curious.create(input="hi", tools=TOOLS, max_tool_calls=2)
    assert (calls_of(made), made["max_tool_calls"]) == (["look_up", "save"], 2)
    assert (made["status"], made["incomplete_details"]) == ("incomplete", {"reason": "max_tool_calls"})
    assert [item["status"] for item in made["output"]] == ["completed", "completed"]
    assert receipts(made) == [("max_tool_calls", "suppressed")]
    made = curious.create(input="hi", tools=TOOLS, max_tool_calls=3)
    assert (made["status"], len(calls_of(made)), receipts(made)) == ("completed", 3, [])
    assert refusal(curious, max_tool_calls=0)["param"] == "max_tool_calls"


def allowed(*names: str, mode: str = "auto") -> Json:
    return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": n} for n in names]}


@pytest.mark.parametrize(
    ("choice", "sent", "called"),
    [
        ("auto", "auto", ["look_up", "save"]),
        ("required", "required", ["look_up", "save"]),
        ("none", "none", []),
        (
            {"type": "function", "name": "save"},
            {"type": "function", "function": {"name": "save"}},
            ["save"],
        ),
        (allowed("save", "send"), "auto", ["save"]),
        (allowed("look_up", mode="required"), "required", ["look_up"]),
    ],
    ids=["auto", "required", "none", "function", "allowed_tools", "allowed_tools-required"],
)
def test_tool_choice_is_told_to_the_model_and_enforced_on_what_it_says(
    curious: Client, voice: Voice, choice: Any, sent: Any, called: list[str]
) -> None:
    voice.call(("look_up", "{}"), ("save", "{}"))
    made = curious.create(input="hi", tools=TOOLS, tool_choice=choice)
    assert voice.last["tool_choice"] == sent
    # The whole list goes to the model, whatever it may call of it: that keeps its prompt cache.
    assert [tool["function"]["name"] for tool in voice.last["tools"]] == ["look_up", "save", "send"]
    assert [tool["name"] for tool in made["tools"]] == ["look_up", "save", "send"]
    assert made["tool_choice"] == choice
    assert calls_of(made) == called
    suppressed = [("tool_choice", "suppressed")] * (2 - len(called))
    assert receipts(made) == suppressed
    events = streamed(curious, input="hi", tools=TOOLS, tool_choice=choice)
    assert calls_of(events[-1]["response"]) == called
    added = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    assert added == list(range(len(called)))


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "name": "send"}, allowed("send", mode="required")]
)
def test_a_required_call_that_does_not_come_is_an_error(client: Client, voice: Voice, choice: Any) -> None:
    body = {"input": "hi", "tools": TOOLS, "tool_choice": choice}
    error = client.refused(500, "POST", "/v1/responses", json=body)
    assert (error["code"], error["param"]) == ("tool_call_required", "tool_choice")
    voice.call(("send", "{}"))
    assert calls_of(client.create(**body)) == ["send"]


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"type": "function", "name": "nothing"}, "tool_choice.name"),
        (allowed("save", "nothing"), "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "tool_choice.tools"),
        ("any", "tool_choice"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(client: Client, choice: Any, param: str) -> None:
    assert refusal(client, tools=TOOLS, tool_choice=choice)["param"] == param
