"""Turns into Converse bodies: the conversation and the tools."""

from typing import Any

import pytest

from antiphon.providers.base import UpstreamError
from antiphon.providers.bedrock.models import find
from antiphon.providers.bedrock.request import prepare
from tests.providers.bedrock.bodies import (
    CALL,
    CLAUDE_4_5,
    CLAUDE_5_5,
    LLAMA,
    NOVA,
    OUTPUT,
    PARAMETERS,
    PNG,
    THOUGHT,
    WEATHER,
    body,
    sent,
)
from tests.providers.compose import make_turn


def user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(content)}]}


def refusal(request: dict[str, Any], model: str = CLAUDE_4_5) -> tuple[str | None, str]:
    with pytest.raises(UpstreamError) as caught:
        prepare(make_turn(request), find(model))
    assert (caught.value.status, caught.value.payload.code) == (400, "unsupported_content")
    return caught.value.payload.param, caught.value.payload.message


# --- messages ---------------------------------------------------------------------------------------------


def test_words() -> None:
    assert body("Hi") == {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}


def test_roles_alternate_and_system_words_come_first() -> None:
    made, receipts = sent(
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "system", "content": "One."},
                {"role": "user", "content": "Two."},
                {"role": "user", "content": [{"type": "input_text", "text": "Three."}]},
                {"role": "assistant", "content": "Four."},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "Five."}]},
                {"role": "developer", "content": "Six."},
                {"role": "user", "content": "Seven."},
            ],
        }
    )
    assert made["system"] == [{"text": "Be brief."}, {"text": "One."}, {"text": "Six."}]
    assert made["messages"] == [
        {"role": "user", "content": [{"text": "Two."}, {"text": "Three."}]},
        {"role": "assistant", "content": [{"text": "Four."}, {"text": "Five."}]},
        {"role": "user", "content": [{"text": "Seven."}]},
    ]
    assert receipts == {"input[5]": "rewritten"}


def test_blocks_without_words_are_left_out() -> None:
    made = body(
        {
            "instructions": "  ",
            "input": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "\n"},
                {"role": "user", "content": [{"type": "input_text", "text": ""}]},
                {"role": "user", "content": "there"},
            ],
        }
    )
    assert made == {"messages": [{"role": "user", "content": [{"text": "Hi"}, {"text": "there"}]}]}


def test_nothing_to_say() -> None:
    assert refusal({"input": " "})[0] == "input"


def test_a_conversation_begins_with_the_user() -> None:
    made, receipts = sent({"input": [{"role": "assistant", "content": "Hello."}]})
    assert [one["role"] for one in made["messages"]] == ["user", "assistant"]
    assert receipts == {"input": "added"}


def test_one_model_turn_is_one_message_and_results_follow_their_calls() -> None:
    second = {**CALL, "call_id": "call_2", "arguments": ""}
    items = [
        {"role": "user", "content": "Weather?"},
        THOUGHT,
        {"role": "assistant", "content": "Let me look."},
        CALL,
        second,
        {**OUTPUT, "call_id": "call_2", "output": ""},
        OUTPUT,
        {"role": "user", "content": "Well?"},
    ]
    made = body({"input": items, "tools": [WEATHER]})
    assert made["messages"] == [
        {"role": "user", "content": [{"text": "Weather?"}]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
                {"text": "Let me look."},
                {"toolUse": {"toolUseId": "call_1", "name": "get_weather", "input": {"city": "Paris"}}},
                {"toolUse": {"toolUseId": "call_2", "name": "get_weather", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "call_1", "content": [{"text": "Rain."}]}},
                {"toolResult": {"toolUseId": "call_2", "content": [{"text": "(no output)"}]}},
                {"text": "Well?"},
            ],
        },
    ]


def test_reasoning_without_a_proof_is_left_out() -> None:
    told = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    made, receipts = sent({"input": [{"role": "user", "content": "Hi"}, told]})
    assert len(made["messages"]) == 1
    assert receipts == {"input.reasoning": "suppressed"}


def test_ids_and_arguments_that_do_not_fit() -> None:
    call = {**CALL, "call_id": "call 1/ü", "arguments": "not json"}
    items = [{"role": "user", "content": "Hi"}, call, {**OUTPUT, "call_id": "call 1/ü"}]
    made, told = sent({"input": items, "tools": [WEATHER]})
    assert list(told) == ["input[1].arguments"]
    use = made["messages"][1]["content"][0]["toolUse"]
    result = made["messages"][2]["content"][0]["toolResult"]
    assert use["toolUseId"] == result["toolUseId"]
    assert use["input"] == {"INVALID_JSON": "not json"}


# --- media ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "block"),
    [
        (f"data:image/png;base64,{PNG}", {"format": "png", "source": {"bytes": PNG}}),
        (f"data:image/jpeg;base64,{PNG}", {"format": "png", "source": {"bytes": PNG}}),
        ("data:image/jpg;base64,AAAA", {"format": "jpeg", "source": {"bytes": "AAAA"}}),
        ("s3://bucket/a.jpg", {"format": "jpeg", "source": {"s3Location": {"uri": "s3://bucket/a.jpg"}}}),
    ],
)
def test_images(url: str, block: dict[str, Any]) -> None:
    made = body(user({"type": "input_text", "text": "?"}, {"type": "input_image", "image_url": url}))
    assert made["messages"][0]["content"] == [{"text": "?"}, {"image": block}]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "input_image", "image_url": "https://example.com/a.png"}, "data URL"),
        ({"type": "input_image", "image_url": "data:image/svg+xml;base64,AAAA"}, "image/svg+xml"),
        ({"type": "input_image", "image_url": "s3://bucket/a"}, "must end in"),
        ({"type": "input_file", "file_url": "https://example.com/a.pdf"}, "file_data"),
        ({"type": "input_file", "filename": "a.zip", "file_data": "AAAA"}, "PDF"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "audio"),
    ],
)
def test_media_that_cannot_be_sent(part: dict[str, Any], why: str) -> None:
    param, message = refusal(user({"type": "input_text", "text": "?"}, part))
    assert param == "input[0].content[1]"
    assert why in message


def test_documents_have_plain_names_of_their_own() -> None:
    files = [
        {"type": "input_file", "filename": "my_report: (v1.2)  [final].pdf", "file_data": "AAAA"},
        {"type": "input_file", "filename": "a.md", "file_data": "data:text/markdown;base64,AAAA"},
        {"type": "input_file", "filename": "a.csv", "file_data": "AAAA"},
        {"type": "input_file", "filename": "über.py", "file_data": "AAAA"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA"},
        {"type": "input_file", "file_data": "data:text/plain;base64,AAAA"},
        {"type": "input_file", "filename": "x" * 300 + ".txt", "file_data": "AAAA"},
        {"type": "input_file", "file_url": "s3://bucket/folder/b.docx"},
        {"type": "input_file", "filename": "dot.png", "file_data": PNG},
    ]
    content = body(user({"type": "input_text", "text": "?"}, *files))["messages"][0]["content"]
    documents = [block["document"] for block in content if "document" in block]
    assert [(one["name"][:30], one["format"]) for one in documents] == [
        ("my-report- (v1-2) [final]", "pdf"),
        ("a", "md"),
        ("a (2)", "csv"),
        ("ber", "txt"),
        ("document", "pdf"),
        ("document (2)", "txt"),
        ("x" * 30, "txt"),
        ("b", "docx"),
    ]
    assert content[-1] == {"image": {"format": "png", "source": {"bytes": PNG}}}


def test_a_document_needs_words_beside_it() -> None:
    made, receipts = sent(user({"type": "input_file", "filename": "a.pdf", "file_data": "AAAA"}))
    assert made["messages"][0]["content"][1] == {"text": "a"}
    assert receipts == {"input[0].content": "added"}


def test_pictures_and_files_in_an_output() -> None:
    parts = [
        {"type": "input_text", "text": "Here:"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "AAAA"},
    ]
    items = [{"role": "user", "content": "Hi"}, CALL, {**OUTPUT, "output": parts}]
    made = body({"input": items, "tools": [WEATHER]})
    [result] = made["messages"][2]["content"]
    assert [next(iter(one)) for one in result["toolResult"]["content"]] == ["text", "image", "document"]


def test_video_where_the_model_takes_it() -> None:
    film = {"type": "input_video", "video_url": "data:video/mp4;base64,AAAA"}
    items = [{"role": "user", "content": "Hi"}, CALL, {**OUTPUT, "output": [film]}]
    request = {"input": items, "tools": [WEATHER]}
    [result] = body(request, NOVA)["messages"][2]["content"]
    assert result["toolResult"]["content"] == [{"video": {"format": "mp4", "source": {"bytes": "AAAA"}}}]
    assert refusal(request)[0] == "input[2].output[0]"


def test_a_part_of_an_unknown_kind_leaves_a_receipt() -> None:
    _, receipts = sent(user({"type": "input_text", "text": "?"}, {"type": "acme:part", "x": 1}))
    assert receipts == {"input[0].content[1]": "dropped"}


# --- tools ------------------------------------------------------------------------------------------------


def test_tools() -> None:
    bare = {"type": "function", "name": "now", "description": "  "}
    made = body({"input": "Hi", "tools": [WEATHER, bare]})
    assert made["toolConfig"] == {
        "tools": [
            {
                "toolSpec": {
                    "name": "get_weather",
                    "description": "Looks out of the window.",
                    "inputSchema": {"json": WEATHER["parameters"]},
                }
            },
            {"toolSpec": {"name": "now", "inputSchema": {"json": {"type": "object", "properties": {}}}}},
        ]
    }


@pytest.mark.parametrize(
    ("choice", "sent_as"),
    [
        ("auto", None),
        ("required", {"any": {}}),
        ({"type": "function", "name": "get_weather"}, {"tool": {"name": "get_weather"}}),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "get_weather"}],
            },
            {"any": {}},
        ),
    ],
)
def test_choices(choice: Any, sent_as: Any) -> None:
    made = body({"input": "Hi", "tools": [WEATHER], "tool_choice": choice})
    assert made["toolConfig"].get("toolChoice") == sent_as


def test_no_choice_means_no_tools_unless_the_history_has_calls() -> None:
    assert "toolConfig" not in body({"input": "Hi", "tools": [WEATHER], "tool_choice": "none"})
    items = [{"role": "user", "content": "Hi"}, CALL, OUTPUT]
    made = body({"input": items, "tools": [WEATHER], "tool_choice": "none"})
    assert list(made["toolConfig"]) == ["tools"]


def test_a_history_with_calls_needs_tools() -> None:
    made = body({"input": [{"role": "user", "content": "Hi"}, CALL, OUTPUT]})
    [tool] = made["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "get_weather"


def test_a_choice_of_what_cannot_be_sent() -> None:
    request = {"input": "Hi", "tools": [WEATHER], "tool_choice": {"type": "mcp", "name": "elsewhere"}}
    made, receipts = sent(request)
    assert "toolChoice" not in made["toolConfig"]
    assert receipts == {"tool_choice": "dropped"}


def test_a_model_that_cannot_be_forced() -> None:
    request = {"input": "Hi", "tools": [WEATHER], "tool_choice": "required"}
    made, receipts = sent(request, CLAUDE_5_5)
    assert "toolChoice" not in made["toolConfig"]
    assert receipts == {"tool_choice": "rewritten"}


@pytest.mark.parametrize(("model", "strict"), [(CLAUDE_4_5, 20), ("qwen.qwen3-32b-v1:0", 22)])
def test_a_tool_of_claude_beyond_its_limits_is_less_strict(model: str, strict: int) -> None:
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    tools = [{**WEATHER, "name": f"f{n}", "strict": True, "parameters": closed} for n in range(22)]
    made, receipts = sent({"input": "Hi", "tools": tools}, model)
    specs = [tool["toolSpec"] for tool in made["toolConfig"]["tools"] if "toolSpec" in tool]
    assert [spec.get("strict") for spec in specs] == [True] * strict + [None] * (22 - strict)
    assert receipts == ({} if strict == 22 else {"tools.strict": "suppressed"})


@pytest.mark.parametrize(
    ("model", "closed", "strict", "receipts"),
    [
        (CLAUDE_4_5, True, True, {}),
        (CLAUDE_4_5, False, None, {"tools.strict": "suppressed"}),
        (LLAMA, True, None, {}),
    ],
)
def test_strict_tools(model: str, closed: bool, strict: Any, receipts: dict[str, str]) -> None:
    parameters = {**PARAMETERS, "additionalProperties": False} if closed else PARAMETERS
    made, left = sent(
        {"input": "Hi", "tools": [{**WEATHER, "strict": True, "parameters": parameters}]}, model
    )
    assert made["toolConfig"]["tools"][0]["toolSpec"].get("strict") == strict
    assert left == receipts


# --- what came from Bedrock -------------------------------------------------------------------------------


@pytest.mark.parametrize("failed", [{"status": "incomplete"}, {"is_error": True}])
def test_an_output_of_a_tool_that_failed_says_so(failed: dict[str, Any]) -> None:
    made = body({"input": [{"role": "user", "content": "Hi"}, CALL, {**OUTPUT, **failed}]})
    assert made["messages"][-1]["content"][0]["toolResult"]["status"] == "error"


def test_an_output_of_a_tool_that_worked_has_no_status() -> None:
    made = body({"input": [{"role": "user", "content": "Hi"}, CALL, OUTPUT]})
    assert "status" not in made["messages"][-1]["content"][0]["toolResult"]


def test_blocks_of_bedrocks_own_tools_go_back_as_they_came() -> None:
    used = {"toolUse": {"toolUseId": "a", "name": "nova_grounding", "type": "server_tool_use", "input": {}}}
    result = {"toolResult": {"toolUseId": "a", "type": "nova_grounding_result", "content": [{"text": "x"}]}}
    said = [
        {"type": "bedrock:tool_use", "id": "item_1", "status": "completed", "data": used},
        {"type": "bedrock:tool_result", "id": "item_2", "status": "completed", "data": result},
    ]
    request = {
        "input": [{"role": "user", "content": "Hi"}, *said, {"role": "user", "content": "And?"}],
        "tools": [{"type": "bedrock:nova_grounding"}],
    }
    made, receipts = sent(request)
    assert made["messages"][1] == {"role": "assistant", "content": [used, result]}
    assert made["toolConfig"]["tools"] == [{"systemTool": {"name": "nova_grounding"}}]
    assert "input[1]" not in receipts
    odd = {"type": "bedrock:tool_use", "id": "item_1", "status": "completed", "data": {"text": "no block"}}
    _, receipts = sent({"input": [{"role": "user", "content": "Hi"}, odd]})
    assert receipts["input[1]"] == "dropped"


def test_citations_of_documents_go_back_with_their_words() -> None:
    place = {"title": "policy", "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 9}}}
    note = {"type": "bedrock:document_char", "start_index": 0, "end_index": 7, "citation": place}
    said = [
        {"type": "output_text", "text": "They get ", "annotations": []},
        {"type": "output_text", "text": "20 days", "annotations": [note]},
    ]
    request = {"input": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": said}]}
    assert body(request)["messages"][1]["content"] == [
        {"text": "They get "},
        {"citationsContent": {"content": [{"text": "20 days"}], "citations": [place]}},
    ]
