"""Bodies for chat servers: messages, tools and parameters, each valid for the official SDK's own types."""

from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from antiphon.providers.base import UpstreamError
from antiphon.providers.chat.profiles import GENERIC, OPENAI, PROFILES, Profile
from antiphon.providers.chat.request import prepare
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_item
from antiphon.spec.errors import SpecError
from tests.providers.chat.bodies import body, build
from tests.providers.compose import make_turn
from tests.providers.typed_dicts import mistakes

PNG = "data:image/png;base64,iVBORw0KGgo="


def messages(*items: Any, profile: Profile = OPENAI, **request: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body({"input": list(items), **request}, profile)["messages"]
    return found


def user(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


def assistant(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": content, **fields}


def call(call_id: str, name: str = "f", arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **fields}


def output(call_id: str, said: Any = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": said}


def called(id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id: str, said: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": said}


def test_the_smallest_body() -> None:
    assert body({"input": "Hi"}) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_only_who_is_followed_streams(profile: str) -> None:
    plain, _ = prepare(make_turn(stream=False), PROFILES[profile])
    followed, _ = prepare(make_turn(), PROFILES[profile])
    assert followed["stream"] is True
    if profile == "llamacpp":
        assert plain == followed
    else:
        assert plain == {"model": "m", "messages": followed["messages"]}


def test_a_bad_body_is_caught() -> None:
    """The check itself: it must see what a lenient one lets through."""
    good = body(
        {"input": [user([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": PNG}])]}
    )
    shape = CompletionCreateParamsStreaming
    assert mistakes(good, shape) == []
    part = good["messages"][0]["content"][0]
    for bad in (
        {**good, "max_output_tokens": 5},
        {**good, "temperature": "hot"},
        {**good, "messages": [{"role": "bogus", "content": "x"}]},
        {**good, "messages": [{"role": "user", "content": [{**part, "annotations": []}]}]},
        {**good, "messages": [{"role": "tool", "content": "x"}]},
        {**good, "tools": [{"type": "function", "name": "flat"}]},
        {**good, "tool_choice": {"type": "function", "name": "flat"}},
        {**good, "response_format": {"type": "json_schema", "schema": {}}},
        {key: value for key, value in good.items() if key != "messages"},
    ):
        assert mistakes(bad, shape)


# --- messages ---------------------------------------------------------------------------------------------


def test_instructions_and_system_messages_stay_in_order() -> None:
    made = messages(
        {"role": "system", "content": "B"},
        user("Hi"),
        {"role": "developer", "content": "C"},
        instructions="A",
    )
    assert made == [
        {"role": "system", "content": "A"},
        {"role": "system", "content": "B"},
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": "C"},
    ]


def test_servers_with_chat_templates_get_one_system_message() -> None:
    made = messages({"role": "developer", "content": "B"}, user("Hi"), instructions="A", profile=GENERIC)
    assert made == [{"role": "system", "content": "A\n\nB"}, {"role": "user", "content": "Hi"}]


def test_one_model_turn_is_one_message() -> None:
    made = messages(
        user("Weather?"),
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        assistant([{"type": "output_text", "text": "Let me "}, {"type": "output_text", "text": "look."}]),
        call("a", "get_weather", '{"city":"Paris"}'),
        call("b", "get_weather", '{"city":"Tokyo"}'),
        output("b", "rain"),
        output("a", "sun"),
        assistant("Sun and rain."),
        user("Thanks"),
    )
    assert made == [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                called("a", "get_weather", '{"city":"Paris"}'),
                called("b", "get_weather", '{"city":"Tokyo"}'),
            ],
        },
        result("a", "sun"),
        result("b", "rain"),
        {"role": "assistant", "content": "Sun and rain."},
        {"role": "user", "content": "Thanks"},
    ]


def test_sequential_calls_stay_sequential() -> None:
    made = messages(user("x"), call("a"), output("a"), call("b"), output("b"))
    assert [one["role"] for one in made] == ["user", "assistant", "tool", "assistant", "tool"]


def test_a_result_that_comes_late_follows_its_call() -> None:
    made = messages(user("x"), call("a"), user("still there?"), output("a"))
    assert made[1:] == [
        {"role": "assistant", "content": None, "tool_calls": [called("a")]},
        result("a"),
        {"role": "user", "content": "still there?"},
    ]


def test_a_call_id_may_come_again_in_a_later_turn() -> None:
    made = messages(user("x"), call("a"), output("a", "1"), call("a"), output("a", "1"), user("y"))
    assert [one["role"] for one in made] == ["user", "assistant", "tool", "assistant", "tool", "user"]


def test_an_output_without_a_call_is_sent_as_text_and_leaves_a_receipt() -> None:
    made, turn = build({"input": [user("x"), output("a")]})
    assert made["messages"] == [
        {"role": "user", "content": "x"},
        {"role": "user", "content": "[Tool Result: call_id: a]\ndone"},
    ]
    assert [receipt.param for receipt in turn.receipts] == ["input[1]"]


def test_consecutive_assistant_messages_are_merged() -> None:
    assert messages(user("x"), assistant("a"), assistant("b")) == [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "a\nb"},
    ]


def test_a_refusal_goes_where_the_server_has_a_place_for_it() -> None:
    said = assistant([{"type": "refusal", "refusal": "No."}])
    assert messages(user("x"), said)[1] == {"role": "assistant", "content": None, "refusal": "No."}
    assert messages(user("x"), said, profile=GENERIC)[1] == {"role": "assistant", "content": "No."}


def test_phase_leaves_a_receipt_that_strict_mode_lives_with() -> None:
    turn = make_turn({"input": [user("x"), assistant("y", phase="commentary")]})
    turn.strict = True
    body, _ = prepare(turn, OPENAI, "up")
    assert body["messages"][1] == {"role": "assistant", "content": "y"}
    assert [(receipt.param, receipt.action) for receipt in turn.receipts] == [("input.phase", "suppressed")]


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        ("deepseek", "reasoning_content"),
        ("zai", "reasoning_content"),
        ("moonshot", "reasoning_content"),
        ("ollama", "reasoning"),
        ("mantle", "reasoning"),
        ("openrouter", "reasoning"),
        ("openai", None),
    ],
)
def test_reasoning_goes_back_within_a_tool_loop(profile: str, field: str | None) -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    items = [user("x"), thought, call("a"), output("a"), thought, assistant("y")]
    made, turn = build({"input": items}, PROFILES[profile])
    found = [{key: value for key, value in one.items() if "reasoning" in key} for one in made["messages"]]
    assert found == [{}, {field: "Hm."} if field else {}, {}, {}]
    assert [receipt.param for receipt in turn.receipts] == ([] if field else ["input.reasoning"])


def test_opaque_items_leave_a_receipt_with_their_place() -> None:
    item = {"type": "acme:search", "id": "s", "status": "completed"}
    made, turn = build({"input": [user("x"), item]})
    assert made["messages"] == [{"role": "user", "content": "x"}]
    [receipt] = turn.receipts
    assert (receipt.param, receipt.action, receipt.provider) == ("input[1]", "dropped", "up")


def test_strict_mode_refuses_what_would_be_dropped() -> None:
    turn = make_turn({"input": [user("x"), {"type": "acme:search", "id": "s"}]})
    turn.strict = True
    with pytest.raises(SpecError) as caught:
        prepare(turn, OPENAI, "up")
    assert caught.value.payload.param == "input[1]"


def test_items_of_the_stored_context_are_not_counted() -> None:
    turn = make_turn({"input": [user([{"type": "input_audio", "input_audio": {}}])]})
    turn.items.insert(0, decode_item(encode(user("before"))))
    with pytest.raises(UpstreamError) as caught:
        prepare(turn, OPENAI, "up")
    assert caught.value.payload.param == "input[0].content[0]"


# --- content ----------------------------------------------------------------------------------------------


def test_images_and_files() -> None:
    parts = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": PNG, "detail": "high"},
        {"type": "input_image", "image_url": "https://a.example/b.png"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0="},
        {"type": "input_file", "filename": "b.txt", "file_data": "data:text/plain;base64,eA=="},
    ]
    [made] = messages(user(parts))
    assert made["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
        {"type": "file", "file": {"filename": "b.txt", "file_data": "data:text/plain;base64,eA=="}},
    ]


def test_a_file_by_its_address_where_the_server_fetches_it() -> None:
    part = {"type": "input_file", "filename": "a.pdf", "file_url": "https://example.com/a.pdf"}
    [sent] = messages(user([part]), profile=PROFILES["openrouter"])
    assert sent["content"] == [
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "https://example.com/a.pdf"}}
    ]
    for name, profile in PROFILES.items():
        assert profile.capabilities.file_urls == (name == "openrouter")


def test_an_image_by_its_address_where_the_server_takes_only_data() -> None:
    lmstudio = PROFILES["lmstudio"]
    [sent] = messages(user([{"type": "input_image", "image_url": PNG}]), profile=lmstudio)
    assert sent["content"] == [{"type": "image_url", "image_url": {"url": PNG}}]
    with pytest.raises(UpstreamError) as caught:
        messages(user([{"type": "input_image", "image_url": "https://example.com/a.png"}]), profile=lmstudio)
    assert caught.value.payload.param == "input[0].content[0]"
    assert (lmstudio.capabilities.images, lmstudio.capabilities.image_urls) == (True, False)


def test_texts_stay_apart_only_where_the_server_keeps_them_apart() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert messages(user(parts))[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert messages(user(parts), profile=GENERIC)[0]["content"] == "a\nb"
    assert messages(user(parts[:1]))[0]["content"] == "a"


@pytest.mark.parametrize(
    ("part", "profile"),
    [
        ({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}, "openai"),
        ({"type": "input_file", "file_url": "https://a.example/f.pdf"}, "openai"),
        ({"type": "input_file", "filename": "a.pdf", "file_data": "eA=="}, "groq"),
        ({"type": "input_image", "image_url": PNG}, "deepseek"),
        ({"type": "input_image", "image_url": "ftp://example.com/a.png"}, "openai"),
        ({"type": "input_image", "image_url": None, "file_id": "file_1"}, "openai"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(part: dict[str, Any], profile: str) -> None:
    turn = make_turn({"input": [user("x"), user([{"type": "input_text", "text": "y"}, part])]})
    with pytest.raises(UpstreamError) as caught:
        prepare(turn, PROFILES[profile], "up")
    error = caught.value
    assert (error.status, error.payload.type, error.payload.code) == (
        400,
        "invalid_request",
        "unsupported_content",
    )
    assert error.payload.param == "input[1].content[1]"


def test_pictures_in_an_output_follow_all_results() -> None:
    shot = [{"type": "input_text", "text": "Here:"}, {"type": "input_image", "image_url": PNG}]
    made, turn = build({"input": [user("x"), call("a"), call("b"), output("a", shot), output("b", "ok")]})
    assert made["messages"][2:] == [
        result("a", "Here:"),
        result("b", "ok"),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "From the output of the tool call a:"},
                {"type": "image_url", "image_url": {"url": PNG}},
            ],
        },
    ]
    assert [(receipt.param, receipt.action) for receipt in turn.receipts] == [
        ("input[3].output", "rewritten")
    ]


# --- tools ------------------------------------------------------------------------------------------------

TOOL = {
    "type": "function",
    "name": "f",
    "description": "Does f.",
    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    "strict": True,
}
FUNCTION = {"name": "f", "description": "Does f.", "parameters": TOOL["parameters"], "strict": True}


def test_a_tool() -> None:
    assert body({"input": "x", "tools": [TOOL]})["tools"] == [{"type": "function", "function": FUNCTION}]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("none", "none"),
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]}, "auto"),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            "required",
        ),
        ({"type": "allowed_tools", "mode": "none", "tools": [{"type": "function", "name": "f"}]}, "none"),
        ({"type": "custom", "name": "patch"}, {"type": "function", "function": {"name": "patch"}}),
    ],
)
def test_every_tool_choice(choice: Any, sent: Any) -> None:
    made = body({"input": "x", "tools": [TOOL, {"type": "custom", "name": "patch"}], "tool_choice": choice})
    assert made["tool_choice"] == sent
    assert [tool["function"]["name"] for tool in made["tools"]] == ["f", "patch"]


def test_a_choice_of_a_hosted_tool_leaves_a_receipt() -> None:
    request = {"input": "x", "tools": [TOOL, {"type": "web_search"}], "tool_choice": {"type": "web_search"}}
    made, turn = build(request)
    assert made["tool_choice"] == "auto"
    assert {receipt.param for receipt in turn.receipts} == {"tools[1]", "tool_choice"}


def test_without_tools_nothing_about_tools_is_sent() -> None:
    made = body({"input": "x", "tool_choice": "none", "parallel_tool_calls": False})
    assert not made.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


def test_parallel_tool_calls() -> None:
    request = {"input": "x", "tools": [TOOL], "parallel_tool_calls": False}
    assert body(request)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body(request, PROFILES["deepseek"])


def test_custom_and_namespaced_calls_of_the_history() -> None:
    made = messages(
        user("x"),
        {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": 'say "π"\n'},
        call("b", "log", "{}", namespace="git"),
        {"type": "custom_tool_call_output", "call_id": "a", "output": "ok"},
        output("b"),
        tools=[
            {"type": "custom", "name": "patch"},
            {"type": "namespace", "name": "git", "description": "", "tools": [{**TOOL, "name": "log"}]},
        ],
    )
    assert made[1]["tool_calls"] == [
        called("a", "patch", '{"input": "say \\"π\\"\\n"}'),
        called("b", "git__log"),
    ]
    assert made[2:] == [result("a", "ok"), result("b")]


def test_mistral_gets_call_ids_of_nine_letters() -> None:
    made = messages(
        user("x"), call("call_a"), call("abcDEF123"), output("call_a"), profile=PROFILES["mistral"]
    )
    ids = [one["id"] for one in made[1]["tool_calls"]]
    assert [len(id) for id in ids] == [9, 9]
    assert ids[1] == "abcDEF123"
    assert made[2]["tool_call_id"] == ids[0]


def test_a_video_in_an_output_is_refused_with_its_place() -> None:
    video = {"type": "input_video", "video_url": "https://a.example/v.mp4"}
    with pytest.raises(UpstreamError) as caught:
        build({"input": [user("x"), call("a"), output("a", [video])]})
    assert caught.value.payload.code == "unsupported_content"
    assert caught.value.payload.param == "input[2].output[0]"
