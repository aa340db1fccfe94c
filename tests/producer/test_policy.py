"""A producer's answers are held to what the request says of calls, outputs and formats."""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from antiphon.client.agent import Agent
from antiphon.client.tools import tool
from antiphon.producer import ResponsesApp, stream_open_responses
from antiphon.producer.produce import Said
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.decode import decode_request
from antiphon.spec.items import FunctionCallOutput
from antiphon.spec.request import Request
from antiphon.stream.auditor import audit_sse
from antiphon.stream.deltas import CallDelta, Finish, ItemDelta, ItemEnd, TextDelta
from tests.client.scripted_model import ScriptedModel, call, say
from tests.producer.serving import serving
from tests.server.servers import Client

TOOLS = [{"type": "function", "name": name} for name in ("look_up", "save")]
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
HELLO = {"role": "user", "content": "Hi"}


def app(*said: Said, **options: Any) -> ResponsesApp:
    """An agent that always says the same."""

    async def answer(request: Request) -> AsyncIterator[Said]:
        for one in said:
            yield one

    return ResponsesApp(answer, **options)


def form(schema: Any = NUMBER, *, strict: bool = True) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": strict}}


def allowed(*names: str, mode: str = "auto") -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": n} for n in names]}


def calling(*names: str) -> list[Said]:
    return [CallDelta(n, "{}", name=name, call_id=f"c{n}") for n, name in enumerate(names)]


def names(response: Any) -> list[str]:
    return [item["name"] for item in response["output"] if item["type"] == "function_call"]


def suppressed(response: Any) -> list[str]:
    receipts = response["antiphon:receipts"]
    return [receipt["param"] for receipt in receipts if receipt["action"] == "suppressed"]


@pytest.mark.parametrize(
    ("choice", "made"),
    [
        ({"tool_choice": "none"}, []),
        ({"tool_choice": {"type": "function", "name": "save"}}, ["save"]),
        ({"tool_choice": allowed("look_up")}, ["look_up"]),
        ({"tool_choice": allowed("save", mode="required")}, ["save"]),
        ({"parallel_tool_calls": False}, ["look_up"]),
    ],
    ids=["none", "named", "allowed", "allowed and required", "one at a time"],
)
def test_a_call_that_the_request_forbids_is_suppressed_with_a_receipt(
    choice: dict[str, Any], made: list[str]
) -> None:
    with serving(app(*calling("look_up", "save"))) as url, Client(url) as client:
        response = client.create(input="Hi", tools=TOOLS, **choice)
        with client.listen("/v1/responses", input="Hi", tools=TOOLS, stream=True, **choice) as stream:
            events = list(stream)
    assert names(response) == names(events[-1]["response"]) == made
    assert set(suppressed(response)) == set(choice)
    assert audit_sse(stream.body) == []


def test_the_output_of_a_call_that_was_suppressed_is_too() -> None:
    ran = ItemDelta(FunctionCallOutput(call_id="c0", output="done", status="completed"))
    with serving(app(*calling("look_up"), ItemEnd(0), ran, "Done.")) as url, Client(url) as client:
        response = client.create(input="Hi", tools=TOOLS, tool_choice="none")
    assert [item["type"] for item in response["output"]] == ["message"]


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "name": "save"}, allowed("save", mode="required")]
)
def test_a_required_call_that_does_not_come_is_the_models_error(choice: Any) -> None:
    with serving(app("Hello.")) as url, Client(url) as client:
        body = {"input": "Hi", "tools": TOOLS, "tool_choice": choice}
        error = client.refused(500, "POST", "/v1/responses", json=body)
    assert (error["type"], error["code"], error["param"]) == (
        "model_error",
        "tool_call_required",
        "tool_choice",
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "lost"}}, "tool_choice.name"),
        ({"tools": TOOLS, "tool_choice": allowed("lost")}, "tool_choice.tools"),
        ({"text": form({"type": 5})}, "text.format.schema"),
        (
            {"input": [{"type": "function_call_output", "call_id": "lost", "output": "x"}]},
            "input[0].call_id",
        ),
        (
            {"input": [HELLO, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]},
            "input[1].call_id",
        ),
    ],
    ids=["required", "named", "allowed", "schema", "output without a call", "call without an output"],
)
def test_what_nobody_could_follow_is_refused_before_the_agent_is_asked(
    body: dict[str, Any], param: str
) -> None:
    asked: list[Request] = []

    async def answer(request: Request) -> AsyncIterator[str]:
        asked.append(request)
        yield "Hello."

    with serving(ResponsesApp(answer)) as url, Client(url) as client:
        error = client.refused(400, "POST", "/v1/responses", json={"input": "Hi", **body})
    assert (error["type"], error["param"], asked) == ("invalid_request", param, [])


def test_an_answer_that_does_not_fit_a_strict_schema_fails() -> None:
    with serving(app('{"n": ', '"one"}')) as url, Client(url) as client:
        error = client.refused(500, "POST", "/v1/responses", json={"input": "Hi", "text": form()})
        with client.listen("/v1/responses", input="Hi", text=form(), stream=True) as stream:
            events = list(stream)
        lenient = client.create(input="Hi", text=form(strict=False))
    assert (error["code"], error["param"]) == ("output_schema_mismatch", "text.format")
    assert audit_sse(stream.body) == []
    assert events[-1]["type"] == "response.failed"
    assert lenient["status"] == "completed"
    assert ("text.format", "unmet") in [(r["param"], r["action"]) for r in lenient["antiphon:receipts"]]


@pytest.mark.parametrize("end", [[], [Finish()]], ids=["no finish", "a finish"])
def test_an_answer_that_fits_is_completed(end: list[Said]) -> None:
    with serving(app('{"n": ', "1}", *end)) as url, Client(url) as client:
        assert client.create(input="Hi", text=form())["status"] == "completed"
        assert client.create(input="Hi", text={"format": {"type": "json_object"}})["status"] == "completed"


def test_a_large_schema_is_checked_in_a_process_that_ends_with_the_server() -> None:
    large = NUMBER | {"$defs": {f"d{n}": {"type": "string"} for n in range(200)}}
    made = app('{"n": 1}')
    with serving(made) as url, Client(url) as client:
        assert client.create(input="Hi", text=form(large))["status"] == "completed"
        (child,) = made._answers._schemas.pids
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_without_the_library_for_it_a_schema_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with serving(app('{"n": 1}')) as url, Client(url) as client:
        error = client.refused(400, "POST", "/v1/responses", json={"input": "Hi", "text": form()})
        assert client.create(input="Hi", text={"format": {"type": "json_object"}})["status"] == "completed"
    assert (error["code"], error["param"]) == ("unsupported_parameter", "text.format")
    assert "antiphon[server]" in error["message"]


@pytest.mark.parametrize(
    ("without", "body", "code", "param"),
    [
        (["tools"], {"tools": TOOLS}, "unsupported_parameter", "tools"),
        (["json_schema"], {"text": form()}, "unsupported_parameter", "text.format"),
        (
            ["images"],
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a/b"}]}]},
            "unsupported_content",
            "input[0].content[0]",
        ),
        (
            ["files"],
            {
                "input": [
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                    {
                        "type": "function_call_output",
                        "call_id": "c",
                        "output": [
                            {"type": "input_text", "text": "a"},
                            {"type": "input_file", "file_data": "data:text/plain;base64,YQ=="},
                        ],
                    },
                ]
            },
            "unsupported_content",
            "input[1].output[1]",
        ),
        (
            ["videos"],
            {
                "input": [
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                    {
                        "type": "function_call_output",
                        "call_id": "c",
                        "output": [{"type": "input_video", "video_url": "https://a/b"}],
                    },
                ]
            },
            "unsupported_content",
            "input[1].output[0]",
        ),
    ],
    ids=["tools", "json_schema", "images", "files", "videos"],
)
def test_what_an_agent_is_without_is_refused_at_its_place(
    without: Sequence[Any], body: dict[str, Any], code: str, param: str
) -> None:
    sent = {"input": "Hi", **body}
    with serving(app('{"n": 1}')) as url, Client(url) as client:
        client.create(**sent)
    with serving(app('{"n": 1}', without=without)) as url, Client(url) as client:
        error = client.refused(400, "POST", "/v1/responses", json=sent)
        client.create(input="Hi")
    assert (error["code"], error["param"]) == (code, param)


def test_an_agent_that_stores_nothing_says_so() -> None:
    with serving(app("Hello.", memory=0)) as url, Client(url) as client:
        first = client.create(input="Hi", store=True)
        body = {"input": "Go on", "previous_response_id": first["id"]}
        error = client.refused(400, "POST", "/v1/responses", json=body)
    assert first["store"] is False
    assert (error["code"], error["param"]) == ("unsupported_parameter", "previous_response_id")
    assert "send the whole conversation" in error["message"]


async def test_a_stream_made_of_a_generator_is_held_to_its_request_too() -> None:
    async def words() -> AsyncIterator[Said]:
        yield [CallDelta(0, "{}", name="save"), TextDelta("no JSON")]

    body = {"input": "Hi", "tools": TOOLS, "tool_choice": "none", "text": form()}
    request = decode_request(encode(body))
    told = "".join([chunk async for chunk in stream_open_responses(words(), model="m", request=request)])
    assert audit_sse(told.encode()) == []
    assert "function_call_arguments" not in told
    assert "output_schema_mismatch" in told


# --- an agent of our own ----------------------------------------------------------------------------------


@tool
def look() -> str:
    """Look at it."""
    return "1"


def test_what_an_agent_says_before_its_own_calls_is_not_held_to_the_schema() -> None:
    model = ScriptedModel([TextDelta("I will look."), *call("look"), Finish()], say('{"n": 1}'))
    with serving(ResponsesApp(Agent(client=model, tools=[look]))) as url, Client(url) as client:
        response = client.create(input="Hi", text=form())
    assert [item["type"] for item in response["output"]] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]


def test_a_caller_may_forbid_an_agent_its_tools_but_not_choose_among_them() -> None:
    model = ScriptedModel(say("OK."))
    with serving(ResponsesApp(Agent(client=model, tools=[look]))) as url, Client(url) as client:
        client.create(input="Hi", tool_choice="none", parallel_tool_calls=False)
        choice = {"type": "allowed_tools", "tools": [{"type": "function", "name": "look"}]}
        error = client.refused(400, "POST", "/v1/responses", json={"input": "Hi", "tool_choice": choice})
    (asked,) = model.requests
    assert (asked.tool_choice, asked.parallel_tool_calls) == ("none", False)
    assert error["param"] == "tool_choice.tools"


async def test_an_agent_that_is_asked_directly_does_not_let_its_tools_be_chosen_either() -> None:
    agent = Agent(client=ScriptedModel(say("OK.")), tools=[look])
    asked = Request(input="Hi", tool_choice=Opaque.make(type="web_search"))
    with pytest.raises(Exception, match="among its own tools") as refused:
        await anext(agent.answer(asked))
    assert refused.value.payload.param == "tool_choice"  # type: ignore[attr-defined]
