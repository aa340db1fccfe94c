"""Bodies of chat requests, of every version of the AI SDK and without one, and every mistake in them."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.bridges.ai_sdk.messages import DENIED, NO_OUTPUT, PlacedItem
from antiphon.bridges.ai_sdk.request import ChatRequest, decode_chat
from antiphon.spec.codec import to_builtins
from antiphon.spec.content import InputFile, InputImage, InputText, InputVideo, OutputText
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemStatus,
    Message,
    Reasoning,
)
from antiphon.spec.tools import FunctionTool, FunctionToolChoice

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
PIXEL = f"data:image/png;base64,{PNG}"


def decode(**body: Any) -> ChatRequest:
    return decode_chat(msgspec.json.encode(body))


def items(*messages: dict[str, Any]) -> list[Item]:
    return [one.item for one in decode(messages=list(messages)).said]


def ui(role: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": f"{role}-1", "role": role, "parts": list(parts), **more}


def refused(**body: Any) -> ErrorPayload:
    with pytest.raises(SpecError) as caught:
        decode(**body)
    assert caught.value.status == 400
    return caught.value.payload


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


# --- words ------------------------------------------------------------------------------------------------


def test_plain_messages() -> None:
    asked = decode(
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        model="demo",
        stream=False,
        session_id="s1",
    )
    assert [to_builtins(one.item) for one in asked.said] == [
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    ]
    assert asked.request.model == "demo"
    assert (asked.stream, asked.chat, asked.is_whole) == (False, "s1", False)


def test_plain_messages_with_content_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    (message,) = items({"role": "user", "content": [text("Look"), image]})
    assert isinstance(message, Message)
    assert message.content == [InputText("Look"), InputImage(PIXEL)]


def test_ui_messages_of_text() -> None:
    asked = decode(
        id="c1",
        messages=[
            ui("user", text("Hi"), text(" there"), {"type": "data-mood", "data": 1}),
            ui("assistant", {"type": "step-start"}, text("Hello"), text("")),
        ],
        trigger="submit-message",
    )
    user, answer = [one.item for one in asked.said]
    assert isinstance(user, Message)
    assert isinstance(answer, Message)
    assert user.content == [InputText("Hi"), InputText(" there")]
    assert answer.content == [OutputText("Hello")]
    assert (asked.chat, asked.is_whole, asked.continues) == ("c1", True, "assistant-1")
    assert [one.place for one in asked.said] == ["messages[0]", "messages[1].parts[1]"]


def test_a_single_message_continues_a_chat() -> None:
    asked = decode(id="c1", message=ui("user", text("Hi")))
    assert (asked.chat, asked.is_whole, asked.continues) == ("c1", False, None)
    assert asked.said[0].place == "message"


def test_a_chat_can_ask_for_another_answer_without_any_message() -> None:
    asked = decode(id="c1", trigger="regenerate-message", messageId="resp_1")
    assert asked.regenerates
    assert asked.said == []


def test_the_phase_of_a_text_comes_back() -> None:
    part = text("First") | {"providerMetadata": {"antiphon": {"phase": "commentary"}}}
    (message,) = items(ui("assistant", part))
    assert isinstance(message, Message)
    assert message.phase == "commentary"


def test_the_data_role_of_version_4_says_nothing() -> None:
    assert len(items({"role": "data", "content": "x"}, {"role": "user", "content": "hi"})) == 1


# --- reasoning --------------------------------------------------------------------------------------------


def test_the_parts_of_one_reasoning_item_come_together_again() -> None:
    def part(words: str, **ours: Any) -> dict[str, Any]:
        kept = {"antiphon": {"itemId": "rs_1", **ours}}
        return {"type": "reasoning", "text": words, "providerMetadata": kept}

    (item, other) = items(
        ui("assistant", part("Hm."), part("Short.", summary=True, encryptedContent="proof"), part("x")),
        ui("assistant", {"type": "reasoning", "text": "Without anything."}),
    )
    assert to_builtins(item) == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Short."}],
        "content": [{"type": "reasoning_text", "text": "Hm."}, {"type": "reasoning_text", "text": "x"}],
        "encrypted_content": "proof",
    }
    assert isinstance(other, Reasoning)
    assert other.get_reasoning_text() == "Without anything."


def test_reasoning_of_version_4() -> None:
    details = [{"type": "text", "text": "Hm.", "signature": "proof"}]
    redacted = [{"type": "redacted", "data": "hidden"}]
    one, other, third = items(
        ui("assistant", {"type": "reasoning", "reasoning": "Hm.", "details": details}),
        ui("assistant", {"type": "reasoning", "reasoning": "", "details": redacted}),
        {"role": "assistant", "content": "", "reasoning": "Old."},
    )
    assert isinstance(one, Reasoning)
    assert isinstance(other, Reasoning)
    assert isinstance(third, Reasoning)
    assert (one.get_reasoning_text(), one.encrypted_content) == ("Hm.", "proof")
    assert (other.content, other.encrypted_content) == (None, "hidden")
    assert third.get_reasoning_text() == "Old."


# --- tools ------------------------------------------------------------------------------------------------


def tool(state: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "tool-look_up",
        "toolCallId": "call_1",
        "state": state,
        "input": {"q": "birds"},
        **fields,
    }


@pytest.mark.parametrize(
    ("part", "output"),
    [
        (tool("output-available", output={"n": 3}), '{"n":3}'),
        (tool("output-available", output="three"), "three"),
        (tool("output-available", output=None), "null"),
        (tool("output-error", errorText="it broke"), "it broke"),
        (tool("output-denied", approval={"id": "a", "approved": False, "reason": "no"}), "no"),
        (tool("approval-responded", approval={"id": "a", "approved": False}), DENIED),
        (tool("approval-responded", approval={"id": "a", "approved": True}), NO_OUTPUT),
        (tool("approval-requested", approval={"id": "a"}), NO_OUTPUT),
        (tool("input-available"), NO_OUTPUT),
    ],
)
def test_a_tool_part_is_a_call_and_its_output(part: dict[str, Any], output: str) -> None:
    call, made = items(ui("assistant", part))
    assert call == FunctionCall(call_id="call_1", name="look_up", arguments='{"q":"birds"}')
    status: ItemStatus | None = None if part["state"] == "output-available" else "incomplete"
    assert made == FunctionCallOutput(call_id="call_1", output=output, status=status)
    dynamic = {**part, "type": "dynamic-tool", "toolName": "look_up"}
    assert items(ui("assistant", dynamic)) == [call, made]


def test_a_call_that_was_cut_off_is_no_call() -> None:
    assert len(items(ui("user", text("hi")), ui("assistant", tool("input-streaming")))) == 1


def test_arguments_that_could_not_be_read_stay_as_they_are() -> None:
    part = tool("output-error", rawInput='{"q":', errorText="not JSON")
    del part["input"]
    call, _ = items(ui("assistant", part))
    assert isinstance(call, FunctionCall)
    assert call.arguments == '{"q":'


def test_the_outputs_of_a_step_follow_all_of_its_calls() -> None:
    def one(id: str) -> dict[str, Any]:
        return tool("output-available", output=id, toolCallId=id)

    step = {"type": "step-start"}
    made = items(ui("assistant", step, text("Look"), one("a"), one("b"), step, one("c"), step, text("Done")))
    order = [getattr(item, "call_id", type(item).__name__) for item in made]
    assert order == ["Message", "a", "b", "a", "b", "c", "c", "Message"]


def test_a_custom_call_comes_back_as_one() -> None:
    ours = {"antiphon": {"custom": True, "namespace": "files"}}
    part = tool("output-available", input="*** Begin", output="ok", callProviderMetadata=ours)
    call, output = items(ui("assistant", part))
    assert call == CustomToolCall(call_id="call_1", name="look_up", input="*** Begin", namespace="files")
    assert isinstance(output, CustomToolCallOutput)


def test_tool_invocations_of_version_4() -> None:
    invocation = {
        "toolCallId": "c",
        "toolName": "look_up",
        "args": {"q": 1},
        "state": "result",
        "result": [1],
    }
    waiting = {**invocation, "toolCallId": "d", "state": "call"}
    cut = {**invocation, "state": "partial-call"}
    part = {"type": "tool-invocation", "toolInvocation": invocation}
    expected = [
        FunctionCall(call_id="c", name="look_up", arguments='{"q":1}'),
        FunctionCallOutput(call_id="c", output="[1]"),
    ]
    assert items(ui("assistant", part)) == expected
    beside = {"role": "assistant", "content": "", "toolInvocations": [invocation, cut]}
    assert items(beside) == expected
    assert items(ui("assistant", {**part, "toolInvocation": waiting}))[1] == FunctionCallOutput(
        call_id="d", output=NO_OUTPUT, status="incomplete"
    )


def test_a_tool_may_be_called_call() -> None:
    call, _ = items(ui("assistant", {**tool("output-available", output=1), "type": "tool-call"}))
    assert isinstance(call, FunctionCall)
    assert call.name == "call"


@pytest.mark.parametrize(
    ("output", "expected", "status"),
    [
        ({"type": "text", "value": "ok"}, "ok", None),
        ({"type": "error-text", "value": "bad"}, "bad", "incomplete"),
        ({"type": "json", "value": {"n": 1}}, '{"n":1}', None),
        ({"type": "error-json", "value": {"n": 1}}, '{"n":1}', "incomplete"),
        ({"type": "execution-denied"}, DENIED, "incomplete"),
        ({"n": 1}, '{"n":1}', None),
        ("ok", "ok", None),
    ],
)
def test_model_messages(output: object, expected: str, status: ItemStatus | None) -> None:
    made = items(
        {
            "role": "assistant",
            "content": [
                text("Look"),
                {"type": "tool-call", "toolCallId": "c", "toolName": "look_up", "input": {}},
            ],
        },
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "look_up", "output": output}],
        },
    )
    assert made[1:] == [
        FunctionCall(call_id="c", name="look_up", arguments="{}"),
        FunctionCallOutput(call_id="c", output=expected, status=status),
    ]


# --- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "file", "mediaType": "image/png", "url": PIXEL}, InputImage(PIXEL)),
        ({"type": "file", "mediaType": "image", "url": PIXEL}, InputImage(PIXEL)),
        (
            {"type": "file", "mediaType": "image/png", "url": "https://x.example/a.png"},
            InputImage("https://x.example/a.png"),
        ),
        ({"type": "file", "mimeType": "image/png", "data": PNG}, InputImage(PIXEL)),
        ({"type": "image", "image": PNG}, InputImage(PIXEL)),
        (
            {"type": "file", "mediaType": "video/mp4", "url": "https://x.example/a.mp4"},
            InputVideo("https://x.example/a.mp4"),
        ),
        (
            {"type": "file", "mediaType": "text/plain", "filename": "a.txt", "url": "data:text/plain,a%20b"},
            InputFile("a.txt", file_data="data:text/plain;base64,YSBi"),
        ),
        (
            {"type": "file", "mediaType": "application/pdf", "url": "https://x.example/a.pdf"},
            InputFile(None, file_url="https://x.example/a.pdf"),
        ),
    ],
)
def test_files(part: dict[str, Any], expected: object) -> None:
    (message,) = items(ui("user", part))
    assert isinstance(message, Message)
    assert message.content == [expected]


def test_attachments_of_version_4() -> None:
    attached = [{"name": "a.png", "contentType": "image/png", "url": PIXEL}]
    (message,) = items({"role": "user", "content": "Look", "experimental_attachments": attached})
    assert isinstance(message, Message)
    assert message.content == [InputText("Look"), InputImage(PIXEL)]


def test_what_a_model_drew_is_left_out() -> None:
    file = {"type": "file", "mediaType": "image/png", "url": PIXEL}
    assert len(items(ui("assistant", text("Here"), file, {"type": "source-url", "url": "x"}))) == 1


# --- parameters -------------------------------------------------------------------------------------------


def test_parameters_in_either_spelling() -> None:
    hi = [{"role": "user", "content": "hi"}]
    request = decode(
        messages=hi,
        system="Be brief.",
        maxTokens=100,
        topP=0.5,
        temperature=0.1,
        tools={"look_up": {"description": "Looks.", "inputSchema": {"type": "object"}}},
        toolChoice={"type": "tool", "toolName": "look_up"},
        somethingOfTheFrontEnd={"a": 1},
        data={"b": 2},
        background=True,
    ).request
    assert (request.instructions, request.max_output_tokens, request.top_p) == ("Be brief.", 100, 0.5)
    assert request.tools == [FunctionTool("look_up", "Looks.", {"type": "object"})]
    assert request.tool_choice == FunctionToolChoice("look_up")
    assert request.background is False
    listed = decode(
        messages=hi, tools=[{"type": "function", "name": "look_up"}], max_output_tokens=50
    ).request
    assert listed.tools == [FunctionTool("look_up")]
    assert listed.max_output_tokens == 50


# --- mistakes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [ui("assistant", {"type": "step-start"})]}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "pirate", "content": "arr"}]}, "messages[0].role"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [ui("user", {"type": "hologram"})]}, "messages[0].parts[0].type"),
        ({"messages": [ui("user", {"text": "hi"})]}, "messages[0].parts[0].type"),
        ({"messages": [ui("user", {"type": "text"})]}, "messages[0].parts[0].text"),
        ({"messages": [ui("user", {"type": "text", "text": 5})]}, "messages[0].parts[0].text"),
        ({"messages": [ui("user", tool("output-available"))]}, "messages[0].parts[0].type"),
        ({"messages": [ui("user", {"type": "reasoning", "text": "hm"})]}, "messages[0].parts[0].type"),
        ({"messages": [ui("assistant", tool("exploded"))]}, "messages[0].parts[0].state"),
        (
            {"messages": [ui("assistant", {"type": "tool-a b", "toolCallId": "c"})]},
            "messages[0].parts[0].toolName",
        ),
        ({"messages": [ui("assistant", {"type": "tool-look_up"})]}, "messages[0].parts[0].toolCallId"),
        (
            {"messages": [ui("assistant", {"type": "dynamic-tool", "toolCallId": "c"})]},
            "messages[0].parts[0].toolName",
        ),
        ({"messages": [{"role": "tool", "content": [text("x")]}]}, "messages[0].content[0].type"),
        (
            {
                "messages": [
                    ui("user", {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,@@@"})
                ]
            },
            "messages[0].parts[0].url",
        ),
        (
            {"messages": [ui("user", {"type": "file", "mediaType": "image/png", "data": "iVBOR"})]},
            "messages[0].parts[0].data",
        ),
        (
            {"messages": [ui("user", {"type": "file", "mediaType": "image/png", "url": "blob:http://x/1"})]},
            "messages[0].parts[0].url",
        ),
        ({"messages": [ui("user", {"type": "file", "mediaType": "image/png"})]}, "messages[0].parts[0].url"),
        (
            {
                "messages": [
                    {"role": "user", "content": "x", "experimental_attachments": [{"url": "data:,%"}, {}]}
                ]
            },
            "messages[0].experimental_attachments[1].url",
        ),
        ({"messages": [ui("user", text("hi"))], "trigger": "explode"}, "trigger"),
        ({"messages": [ui("user", text("hi"))], "temperature": "hot"}, "temperature"),
        ({"messages": [ui("user", text("hi"))], "id": 5}, "id"),
        ({"messages": [ui("user", text("hi"))], "session_id": "x" * 513}, "session_id"),
        ({"messages": [ui("user", text("hi"))], "tools": {"a b": {}}}, "tools[0].name"),
        ({"id": "c", "message": ui("user", {"type": "hologram"})}, "message.parts[0].type"),
    ],
)
def test_a_mistake_is_told_with_its_place(body: dict[str, Any], param: str) -> None:
    error = refused(**body)
    assert error.param == param, error
    assert error.message


def test_broken_base64_is_told_as_such() -> None:
    part = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,@@@"}
    assert refused(messages=[ui("user", part)]).code == "invalid_base64"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"hi"', b"\xff"])
def test_a_body_that_is_no_object(body: bytes) -> None:
    with pytest.raises(SpecError):
        decode_chat(body)


KINDS = ["text", "reasoning", "file", "image", "tool-look_up", "dynamic-tool", "tool-invocation", "tool-call"]
STATES = ["input-streaming", "input-available", "output-available", "output-error", "output-denied", "call"]
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 9)
    | st.sampled_from(["", "a", "data:,x", "data:;base64,YQ==", *STATES]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "value", "antiphon"]), inner)
    ),
    max_leaves=4,
)
names = st.sampled_from(
    ["toolCallId", "toolName", "state", "input", "output", "text", "url", "mediaType", "providerMetadata"]
)
parts = st.builds(
    lambda kind, fields: {**fields, "type": kind}, st.sampled_from(KINDS), st.dictionaries(names, values)
)
messages = st.builds(
    lambda role, name, parts: {"role": role, name: parts},
    st.sampled_from(["user", "assistant", "system", "tool"]),
    st.sampled_from(["parts", "content"]),
    st.lists(parts, max_size=4),
)


@given(st.lists(messages | values, max_size=4))
def test_whatever_comes_is_understood_or_refused_with_its_place(sent: list[Any]) -> None:
    said: list[PlacedItem] = []
    refusal = None
    try:
        said = decode(messages=sent).said
    except SpecError as error:
        refusal = error.payload
    assert (refusal is None) == bool(said)
    assert refusal is None or (refusal.param or "").startswith("messages")
    assert all(one.place.startswith("messages[") for one in said)
    assert len(to_builtins([one.item for one in said])) == len(said)
