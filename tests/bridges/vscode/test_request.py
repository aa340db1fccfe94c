"""The rest of a chat: what has no place, what the real host sends, tools, options and mistakes."""

import hashlib
import json

import pytest

from antiphon.bridges.vscode import read_chat
from antiphon.spec.codec import encode
from antiphon.spec.errors import SpecError
from tests.bridges.vscode.chats import (
    PNG,
    Json,
    asked,
    assistant,
    b64,
    call,
    data,
    items,
    output,
    refused,
    request,
    result,
    text,
    user,
)

# --- what has no place ------------------------------------------------------------------------------------


def test_the_system_prompt_is_instructions() -> None:
    made = request({"role": 3, "content": "Be brief."}, user("Hi"))
    assert made["instructions"] == "Be brief."
    assert [item["role"] for item in made["input"]] == ["user"]


def test_a_name_is_dropped() -> None:
    chat = asked(user("Hi") | {"name": "Ada"})
    assert b"Ada" not in encode(chat.request)
    assert [(r.param, r.action) for r in chat.receipts] == [("messages[0].name", "dropped")]


def test_video_stands_only_in_outputs() -> None:
    film = data("video/mp4", b"film")
    url = f"data:video/mp4;base64,{b64(b'film')}"
    assert items(user(film))[0]["content"] == [
        {"type": "input_file", "filename": "data.mp4", "file_data": url},
    ]
    assert output(text("Look:"), film, toolMedia=True) == [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_video", "video_url": url},
    ]
    assert output(data("image/png", PNG), toolMedia=True)[0]["type"] == "input_image"


def test_25_every_kind_of_input_item_is_one_the_specification_has() -> None:
    """Messages of all four roles, calls, outputs and reasoning; the request is decoded by our own reader."""
    thought = {"$mid": 22, "value": "Hm", "id": "rs_1"}
    made = request(
        {"role": 3, "content": "Be brief."},
        user("Hi"),
        assistant(thought, text("I check."), call()),
        user(result("code")),
        {"role": 3, "content": "Be kind."},
        options={"systemPrompt": "both"},
    )
    kinds = [(item["type"], item.get("role")) for item in made["input"]]
    assert kinds == [
        ("message", "developer"),
        ("message", "user"),
        ("reasoning", None),
        ("message", "assistant"),
        ("function_call", None),
        ("function_call_output", None),
        ("message", "system"),
    ]


# --- what the real host sends -----------------------------------------------------------------------------


def test_leading_system_messages_are_the_prompt() -> None:
    made = request({"role": 3, "content": "One."}, {"role": 3, "content": [text("Two.")]}, user("Hi"))
    assert made["instructions"] == "One.\n\nTwo."
    assert len(made["input"]) == 1


@pytest.mark.parametrize(
    "prompt",
    [
        "You are a helpful assistant.",
        "As an AI programming assistant, answer.",
        "Your role is to help.",
        "<instructions>Help.</instructions>",
        "<system>Help.</system>",
        "Follow these guidelines. " + "Be very kind. " * 40 + "You must answer.",
    ],
)
def test_older_hosts_send_it_as_an_assistant(prompt: str) -> None:
    assert (
        request(assistant(prompt), user("Hi"), options={"detectSystemPrompt": True})["instructions"] == prompt
    )
    kept = request(assistant(prompt), user("Hi"))
    assert "instructions" not in kept
    assert kept["input"][0]["content"] == prompt


@pytest.mark.parametrize("answer", ["Hello!", "You must do it. Follow the guidelines.", "word " * 200])
def test_an_answer_is_no_prompt(answer: str) -> None:
    assert "instructions" not in request(assistant(answer), user("Hi"), options={"detectSystemPrompt": True})


@pytest.mark.parametrize(
    ("mode", "instructions", "roles"),
    [
        ("instructions", "Be brief.", ["user"]),
        ("developer", None, ["developer", "user"]),
        ("both", "Be brief.", ["developer", "user"]),
    ],
)
def test_where_the_system_prompt_goes(mode: str, instructions: str | None, roles: list[str]) -> None:
    made = request({"role": 3, "content": "Be brief."}, user("Hi"), options={"systemPrompt": mode})
    assert made.get("instructions") == instructions
    assert [item["role"] for item in made["input"]] == roles


def test_empty_messages_are_dropped_and_texts_are_one_string() -> None:
    told = items(user(""), user("Hi"), assistant(), assistant(text(" ")), user(text("a"), text("b")))
    assert [item["content"] for item in told] == ["Hi", "a\nb"]
    assert refused(user("")) == ("messages", "no_messages")


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"?", "image/png"),
    ],
)
def test_a_picture_of_any_kind_is_known_by_its_bytes(start: bytes, kind: str) -> None:
    [message] = items(user(data("image/*", start)))
    assert message["content"][0]["image_url"].startswith(f"data:{kind};base64,")


@pytest.mark.parametrize("kind", ["stateful_marker", "thinking", "cache_control", "context_management"])
def test_notes_of_the_host_are_never_sent(kind: str) -> None:
    note = data(kind, b"secret note")
    chat = asked(user(note, text("Hi")), assistant(note, call()), user(result("a", note)))
    assert b"secret" not in encode(chat.request)
    assert chat.receipts == []


def test_the_numbers_of_the_host_are_stripped_from_results() -> None:
    uri = {"$mid": 1, "path": "/a.py", "nested": [{"$mid": 2, "keep": True}]}
    assert output({"uri": uri}) == '{"uri":{"path":"/a.py","nested":[{"keep":true}]}}'


def test_control_tokens_are_removed_unless_asked_otherwise() -> None:
    odd = "a<|im_start|>b<|endoftext|> if x <| y |> z"
    assert items(user(odd))[0]["content"] == "ab if x <| y |> z"
    assert items(user(odd), stripControlTokens=False)[0]["content"] == odd


def test_citations_at_the_end_are_removed_when_asked() -> None:
    said = "It rains. [Weather](https://weather.example/a) [More](https://more.example)"
    assert items(user("Hi"), assistant(said), stripCitations=True)[1]["content"] == "It rains."
    assert items(user("Hi"), assistant(said))[1]["content"] == said
    linked = "See [here](https://a.example) for more."
    assert items(user("Hi"), assistant(linked), stripCitations=True)[1]["content"] == linked


def test_tools_and_their_mode() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"name": "weather", "description": "Tells it", "inputSchema": schema}, {"name": "time"}]
    made = request(user("Hi"), tools=tools)
    assert made["tools"] == [
        {
            "type": "function",
            "name": "weather",
            "description": "Tells it",
            "parameters": schema,
            "strict": False,
        },
        {
            "type": "function",
            "name": "time",
            "description": None,
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ]
    assert made["tool_choice"] == "auto"
    assert request(user("Hi"), tools=tools, toolMode=1)["tool_choice"] == "auto"
    assert request(user("Hi"), tools=tools, toolMode=2)["tool_choice"] == "required"
    assert request(user("Hi"))["tool_choice"] == "none"
    assert request(user("Hi"), toolMode=2)["tool_choice"] == "none"


def test_messages_of_one_role_can_be_merged() -> None:
    talk = [user("a"), user("b"), assistant("c"), assistant("d"), user("e"), user(data("image/png", PNG))]
    merged = items(*talk, mergeMessages=True)
    assert [item["content"] for item in merged[:2]] == ["a\n\n---\n\nb", "c\n\n---\n\nd"]
    assert [part["type"] for part in merged[2]["content"]] == ["input_text", "input_text", "input_image"]
    assert len(items(*talk)) == 6


# --- the rest ---------------------------------------------------------------------------------------------


def test_the_session_is_a_cache_key_and_nothing_is_continued() -> None:
    made = request(user("Hi"), sessionId="session-1")
    assert made["prompt_cache_key"] == "session-1"
    assert made["store"] is False
    assert "previous_response_id" not in made
    for name in ("previousResponseId", "previous_response_id", "conversation"):
        param, _ = refused(user("Hi"), modelOptions={name: "resp_1"})
        assert param in ("modelOptions.previous_response_id", "modelOptions.conversation")
    long = "s" * 65
    assert (
        request(user("Hi"), sessionId=long)["prompt_cache_key"] == hashlib.sha256(long.encode()).hexdigest()
    )


def test_a_marker_in_the_history_names_the_session() -> None:
    marker = b'model\\{"extension":"x","sessionId":"from-marker","responseId":"resp_1"}'
    talk = [user("Hi"), assistant(data("stateful_marker", marker), text("Hello")), user("Go on")]
    assert request(*talk)["prompt_cache_key"] == "from-marker"
    assert request(*talk, sessionId="given")["prompt_cache_key"] == "given"
    broken = assistant(data("stateful_marker", b"no marker"), text("Hello"))
    assert "prompt_cache_key" not in request(user("Hi"), broken)
    fresh = asked(user("Hi"), options={"marker": "publisher.name"})
    assert fresh.session == fresh.request.prompt_cache_key
    assert fresh.session


def test_model_options_are_parameters() -> None:
    options = {"temperature": 0.5, "maxOutputTokens": 100, "reasoning": {"effort": "low"}, "top_k": 3}
    made = request(user("Hi"), model="m", modelOptions={**options, "store": True})
    assert (made["model"], made["temperature"], made["max_output_tokens"]) == ("m", 0.5, 100)
    assert (made["reasoning"], made["top_k"], made["stream"]) == ({"effort": "low"}, 3, True)
    assert "store" not in made  # true is the specification's own default


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": "Hi"}, "messages"),
        ({}, "messages"),
        ({"messages": [{"role": 4, "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": 1}]}, "messages[0].content"),
        ({"messages": [{"role": 1, "content": 5}]}, "messages[0].content"),
        ({"messages": [user({"odd": True})]}, "messages[0].content[0]"),
        ({"messages": [user(data("image/png", b"") | {"data": "?"})]}, "messages[0].content[0].data"),
        ({"messages": [assistant(call("c" * 65))]}, "messages[0].content[0].callId"),
        ({"messages": [assistant(call("c", "not a name"))]}, "messages[0].content[0].name"),
        ({"messages": [user(result(id=""))]}, "messages[0].content[0].callId"),
        ({"messages": [user("Hi")], "tools": [{"name": ""}]}, "tools[0].name"),
        ({"messages": [user("Hi")], "toolMode": 3}, "toolMode"),
        ({"messages": [user("Hi")], "modelOptions": {"temperature": "hot"}}, "modelOptions.temperature"),
        ({"messages": [user("Hi")], "modelOptions": {"input": "Hi"}}, "modelOptions.input"),
        ({"messages": [user("Hi")], "options": {"toolHistory": "odd"}}, "options.toolHistory"),
        ({"messages": [user("Hi")], "options": {"toolHistroy": "text"}}, "options.toolHistroy"),
    ],
)
def test_a_mistake_is_told_with_its_place(body: Json, param: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_chat(json.dumps(body).encode())
    assert caught.value.status == 400
    assert caught.value.payload.param == param
    assert caught.value.payload.message


def test_the_limits_of_the_specification_hold_here_too() -> None:
    long = "x" * 10_485_761
    assert refused(user(long)) == ("messages[0]", "invalid_value")
    assert refused(assistant(call()), user(result(long))) == ("messages[1].content[0]", "invalid_value")
    picture = data("image/png", b"x" * 15_728_640)
    assert refused(user(text("Look:"), picture)) == ("messages[0].content[1]", "invalid_value")


def test_places_lead_back_to_the_messages() -> None:
    chat = asked(user("Hi"), assistant(text("a"), call()), user(result("x"), text("b")))
    assert chat.places == [
        "messages[0]",
        "messages[1]",
        "messages[1].content[1]",
        "messages[2].content[0]",
        "messages[2]",
    ]
