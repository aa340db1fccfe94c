"""Turns as bodies of `generateContent`, each held against the types of Google's SDK."""

from typing import Any

import pytest

from antiphon.providers.base import UpstreamError
from antiphon.providers.gemini.request import prepare
from antiphon.providers.gemini.signatures import NO_PROOF, Proof
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Message
from tests.providers.compose import make_turn
from tests.providers.gemini.bodies import NEW, OLD, PNG, TIME, USER, WEATHER, body, build, receipts


def contents(*items: dict[str, Any], model: str = NEW, **request: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body({"input": list(items), **request}, model)["contents"]
    return found


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(name: str = "get_weather", call_id: str = "a", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "call_id": call_id, "arguments": arguments, **more}


def output(text: Any = "ok", call_id: str = "a") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def reasoning(proof: Proof | None) -> dict[str, Any]:
    blob = proof.to_blob() if proof else None
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": blob}


def called(name: str = "get_weather", id: str = "a", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"id": id, "name": name, "args": {}}, **more}


def result(text: str = "ok", id: str = "a", name: str = "get_weather", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": name, "response": {"output": text}, **more}}


# --- who says what ----------------------------------------------------------------------------------------


def test_the_smallest_request() -> None:
    assert body({}) == {"contents": [user({"text": "Hi"})]}


def test_the_system_speaks_first() -> None:
    made, turn = build(
        {
            "instructions": "One.",
            "input": [
                {"role": "system", "content": "Two."},
                USER,
                {"role": "developer", "content": "Three."},
                {"role": "user", "content": "Ho"},
            ],
        }
    )
    assert made["systemInstruction"] == {"parts": [{"text": "One."}, {"text": "Two."}, {"text": "Three."}]}
    assert made["contents"] == [user({"text": "Hi"}, {"text": "Ho"})]
    assert receipts(turn) == {"input[2]": "rewritten"}


def test_the_system_alone_is_told_to_the_model() -> None:
    made = body({"instructions": "One.", "input": [{"role": "system", "content": "Two."}]})
    assert made == {"contents": [user({"text": "Two."})], "systemInstruction": {"parts": [{"text": "One."}]}}


def test_one_model_turn_is_one_content_and_results_follow_in_order() -> None:
    made = contents(
        USER,
        {"role": "assistant", "content": "Look."},
        call(call_id="a"),
        call("get_time", "b"),
        output("later", "b"),
        output("rain", "a"),
        {"role": "user", "content": "And now?"},
        model=OLD,
    )
    assert made == [
        user({"text": "Hi"}),
        model({"text": "Look."}, called(), called("get_time", "b")),
        user(result("rain"), result("later", "b", "get_time")),
        user({"text": "And now?"}),
    ]


def test_empty_words_are_no_part() -> None:
    nothing = {"role": "assistant", "content": ""}
    assert contents(USER, nothing, {"role": "user", "content": "Ho"}) == [
        user({"text": "Hi"}, {"text": "Ho"})
    ]


def test_custom_tools_and_namespaces_in_the_history() -> None:
    tools = [
        {"type": "custom", "name": "sql", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
        {"type": "namespace", "name": "git", "tools": [{"type": "function", "name": "log"}]},
    ]
    made = body(
        {
            "input": [
                USER,
                {"type": "custom_tool_call", "call_id": "a", "name": "sql", "input": 'a "b"'},
                call("log", "b", namespace="git"),
                {"type": "custom_tool_call_output", "call_id": "a", "output": "x"},
                output("y", "b"),
            ],
            "tools": tools,
        },
        OLD,
    )
    first, second = made["contents"][1]["parts"]
    assert first == {"functionCall": {"id": "a", "name": "sql", "args": {"input": 'a "b"'}}}
    assert second["functionCall"]["name"] == "git__log"
    names = [one["functionResponse"]["name"] for one in made["contents"][2]["parts"]]
    assert names == ["sql", "git__log"]
    declared = made["tools"][0]["functionDeclarations"]
    assert [one["name"] for one in declared] == ["sql", "git__log"]
    assert "lark grammar" in declared[0]["description"]
    assert "parameters" not in declared[1]


def test_arguments_that_are_no_object() -> None:
    made, turn = build({"input": [USER, call(arguments="[1]"), output()]}, OLD)
    assert made["contents"][1]["parts"][0]["functionCall"]["args"] == {"INVALID_JSON": "[1]"}
    assert receipts(turn) == {"input[1].arguments": "rewritten"}


def test_parts_that_only_google_knows_go_back_as_they_came() -> None:
    ran = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    items = [
        USER,
        {"type": "google:executable_code", "id": "x_1", "status": "completed", "data": ran},
        {"type": "google:code_execution_result", "id": "x_2", "status": "completed", "data": result},
        {"type": "google:novelty", "id": "x_3", "status": "completed", "data": {"novelty": 1}},
        USER,
    ]
    made, turn = build({"input": items})
    assert made["contents"][1] == {"role": "model", "parts": [ran, result]}
    assert receipts(turn) == {"input[3]": "dropped"}


def test_items_that_have_no_place() -> None:
    _, turn = build({"input": [USER, {"type": "file_search_call", "id": "x", "status": "completed"}]})
    assert receipts(turn) == {"input[1]": "dropped"}


# --- thought signatures -----------------------------------------------------------------------------------


def test_signatures_through_a_tool_loop() -> None:
    made = contents(
        USER,
        reasoning(Proof("c2lnMQ==", "call", "Hm.", name="get_weather")),
        call(),
        call("get_time", "b"),
        output(),
        output("later", "b"),
        reasoning(Proof("c2lnMg==", "call", name="get_time")),
        call("get_time", "c"),
        output("now", "c"),
        {"role": "assistant", "content": "It rains."},
        reasoning(Proof("c2lnMw==", "last", text="")),
    )
    assert made[1:] == [
        model({"text": "Hm.", "thought": True}, called(thoughtSignature="c2lnMQ=="), called("get_time", "b")),
        user(result(), result("later", "b", "get_time")),
        model(called("get_time", "c", thoughtSignature="c2lnMg==")),
        user(result("now", "c", "get_time")),
        model({"text": "It rains."}, {"text": "", "thoughtSignature": "c2lnMw=="}),
    ]


def test_reasoning_without_a_signature_is_left_out() -> None:
    made, turn = build({"input": [USER, reasoning(None), {"role": "assistant", "content": "A"}, USER]})
    assert made["contents"][1] == model({"text": "A"})
    assert receipts(turn) == {"input.reasoning": "suppressed"}


@pytest.mark.parametrize(("name", "sent"), [(NEW, NO_PROOF), ("gemini-pro-latest", NO_PROOF), (OLD, None)])
def test_a_call_of_another_model_is_sent_as_google_wants_it(name: str, sent: str | None) -> None:
    made, turn = build({"input": [USER, call(), call("get_time", "b"), output(), output("x", "b")]}, name)
    first, second = made["contents"][1]["parts"]
    assert first.get("thoughtSignature") == sent
    assert "thoughtSignature" not in second
    assert receipts(turn) == ({"input.reasoning": "suppressed"} if sent else {})


def test_a_signature_whose_call_is_gone() -> None:
    proof = Proof("s", "call", name="get_time")
    made, turn = build({"input": [USER, reasoning(proof), call(), output()]}, OLD)
    assert made["contents"][1] == model(called())
    assert receipts(turn) == {"input.reasoning": "suppressed"}


# --- pictures, files, sound -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({"type": "input_text", "text": "A"}, {"text": "A"}),
        (
            {"type": "input_image", "image_url": PNG},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        ),
        (
            {"type": "input_image", "image_url": "https://a.example/b.webp?x=1"},
            {"fileData": {"mimeType": "image/webp", "fileUri": "https://a.example/b.webp?x=1"}},
        ),
        (
            {"type": "input_image", "image_url": "https://a.example/picture"},
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://a.example/picture"}},
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "eA=="},
            {"inlineData": {"mimeType": "application/pdf", "data": "eA=="}},
        ),
        (
            {"type": "input_file", "file_data": "data:text/csv;base64,eA=="},
            {"inlineData": {"mimeType": "text/csv", "data": "eA=="}},
        ),
        (
            {"type": "input_file", "file_url": "gs://bucket/a.mp3"},
            {"fileData": {"mimeType": "audio/mpeg", "fileUri": "gs://bucket/a.mp3"}},
        ),
        (
            {"type": "input_file", "filename": "a.txt", "file_url": "https://a.example/f"},
            {"fileData": {"mimeType": "text/plain", "fileUri": "https://a.example/f"}},
        ),
        (
            {"type": "input_file", "filename": "a.mp4", "file_url": "https://www.youtube.com/watch?v=x"},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://www.youtube.com/watch?v=x"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "eA=="}},
        ),
    ],
)
def test_content(part: dict[str, Any], sent: dict[str, Any]) -> None:
    assert contents({"role": "user", "content": [part]}) == [user(sent)]


def test_a_video_in_an_output_is_sent() -> None:
    video = {"type": "input_video", "video_url": "https://www.youtube.com/watch?v=x"}
    *_, said = contents({"role": "user", "content": "Hi"}, call(), output([video]))
    sent = {"fileData": {"mimeType": "video/mp4", "fileUri": "https://www.youtube.com/watch?v=x"}}
    assert said == user(result("", parts=[sent]))


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "input_image", "image_url": None}, "input[0].content[0].image_url"),
        ({"type": "input_image", "image_url": "ftp://a.example/b.png"}, "input[0].content[0].image_url"),
        ({"type": "input_file", "filename": "a.pdf"}, "input[0].content[0].file_url"),
        ({"type": "input_audio", "input_audio": "x"}, "input[0].content[0]"),
    ],
)
def test_content_that_cannot_be_sent(part: dict[str, Any], param: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        build({"input": [{"role": "user", "content": [part]}]})
    assert (caught.value.status, caught.value.payload.code) == (400, "unsupported_content")
    assert caught.value.payload.param == param


def test_the_detail_of_an_image_and_unknown_parts_leave_receipts() -> None:
    parts = [{"type": "input_image", "image_url": PNG, "detail": "high"}, {"type": "hologram"}]
    _, turn = build({"input": [{"role": "user", "content": parts}]})
    assert receipts(turn) == {"input[0].content[0].detail": "unmet", "input[0].content[1]": "dropped"}


def test_pictures_in_a_result() -> None:
    picture = [{"type": "input_text", "text": "Look:"}, {"type": "input_image", "image_url": PNG}]
    inline = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    made, turn = build({"input": [USER, call(), output(picture)]}, NEW)
    assert made["contents"][2] == user(result("Look:", parts=[inline]))
    assert "input[2].output" not in receipts(turn)
    made, turn = build({"input": [USER, call(), output(picture)]}, OLD)
    assert made["contents"][2:] == [
        user(result("Look:")),
        user({"text": "From the output of the tool call a:"}, inline),
    ]
    assert receipts(turn) == {"input[2].output": "rewritten"}


# --- tools ------------------------------------------------------------------------------------------------


def test_declarations() -> None:
    [tool] = body({"tools": [WEATHER, TIME]})["tools"]
    assert tool["functionDeclarations"] == [
        {
            "name": "get_weather",
            "description": "The weather.",
            "parametersJsonSchema": WEATHER["parameters"],
        },
        {"name": "get_time"},
    ]


def test_parameters_outside_the_subset_are_translated() -> None:
    parameters = {
        "type": "object",
        "properties": {"a": {"const": "x"}, "b": {"type": "string", "pattern": "b"}},
    }
    made, turn = build({"tools": [{"type": "function", "name": "f", "parameters": parameters}]})
    [declared] = made["tools"][0]["functionDeclarations"]
    assert declared["parameters"] == {
        "type": "OBJECT",
        "properties": {"a": {"type": "STRING", "enum": ["x"]}, "b": {"type": "STRING", "pattern": "b"}},
    }
    assert turn.receipts == []


def test_what_is_lost_of_a_schema_is_told() -> None:
    parameters = {"type": "object", "properties": {"a": {"not": {}}}, "additionalProperties": False}
    tools = [{"type": "function", "name": "f", "parameters": parameters}]
    _, turn = build({"tools": tools})
    [receipt] = turn.receipts
    assert (receipt.param, receipt.action) == ("tools", "rewritten")
    assert "'f'" in receipt.reason
    assert "/properties/a/not" in receipt.reason
    assert "/additionalProperties" in receipt.reason
    strict = make_turn({"input": "Hi", "tools": tools})
    strict.strict = True
    with pytest.raises(SpecError):
        prepare(strict, "up")


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": [1]},
        {
            "$ref": "#/definitions/a",
            "definitions": {
                "a": {"properties": {n: {"$ref": "#/definitions/a"} for n in "abcdefghijklmnopqrst"}}
            },
        },
    ],
    ids=["no schema", "too large"],
)
def test_schemas_that_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError) as caught:
        build({"tools": [{"type": "function", "name": "f", "parameters": parameters}]})
    assert (caught.value.status, caught.value.payload.param) == (400, "tools")


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "name": "get_time"}, {"mode": "ANY", "allowedFunctionNames": ["get_time"]}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]},
            {"mode": "VALIDATED", "allowedFunctionNames": ["get_time"]},
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "get_time"}],
            },
            {"mode": "ANY", "allowedFunctionNames": ["get_time"]},
        ),
        (
            {"type": "allowed_tools", "mode": "none", "tools": [{"type": "function", "name": "get_time"}]},
            {"mode": "NONE"},
        ),
        ({"type": "custom", "name": "sql"}, {"mode": "ANY", "allowedFunctionNames": ["sql"]}),
    ],
)
def test_tool_choice(choice: Any, calling: dict[str, Any] | None) -> None:
    made = body({"tools": [WEATHER, TIME, {"type": "custom", "name": "sql"}], "tool_choice": choice})
    assert made.get("toolConfig") == (calling and {"functionCallingConfig": calling})


def test_a_choice_that_cannot_be_sent() -> None:
    made, turn = build({"tools": [WEATHER], "tool_choice": {"type": "mcp", "name": "elsewhere"}})
    assert "toolConfig" not in made
    assert receipts(turn) == {"tool_choice": "dropped"}


def test_strict_functions_are_validated() -> None:
    made = body({"tools": [WEATHER | {"strict": True}]})
    assert made["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}


def test_a_search_is_googles_search() -> None:
    assert body({"tools": [{"type": "web_search"}]})["tools"] == [{"googleSearch": {}}]


@pytest.mark.parametrize(
    ("type", "sent"),
    [
        ("web_search", {"googleSearch": {}}),
        ("google:code_execution", {"codeExecution": {}}),
        ("google:file_search", {"fileSearch": {"fileSearchStoreNames": ["a"]}}),
    ],
)
def test_googles_own_tools_beside_functions(type: str, sent: dict[str, Any]) -> None:
    [name] = sent
    tools = [{"type": type, **sent[name]}, TIME]
    functions = {"functionDeclarations": [{"name": "get_time"}]}
    made, turn = build({"tools": tools}, model=NEW)
    assert made["tools"] == [sent, functions]
    assert made["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert receipts(turn) == {}
    on_vertex = prepare(make_turn({"input": "Hi", "tools": tools}, model=NEW), invocations=False).body
    assert "toolConfig" not in on_vertex
    made, turn = build({"tools": tools}, model=OLD)
    assert made["tools"] == [functions]
    assert receipts(turn) == {"tools": "dropped"}


def test_an_image_and_what_googles_tools_did_go_back() -> None:
    picture = {"type": "antiphon:image", "id": "i", "status": "completed", "result": "eA=="}
    named = {**picture, "type": "image_generation_call", "output_format": "webp"}
    searched = {"type": "web_search_call", "id": "x", "status": "completed"}
    ran = {"executableCode": {"language": "PYTHON", "code": "1"}}
    told = {"toolCall": {"id": "t", "toolType": "FILE_SEARCH"}}
    made = contents(
        USER,
        reasoning(Proof("c2ln", "part", name="inlineData")),
        picture,
        named,
        reasoning(Proof("c2lnMg==", "part", name="toolCall", part=told)),
        searched,
        reasoning(Proof("", "part", name="executableCode", part=ran)),
        {"type": "google:executable_code", "id": "p", "status": "completed", "data": ran},
        USER,
    )
    assert made[1]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "eA=="}, "thoughtSignature": "c2ln"},
        {"inlineData": {"mimeType": "image/webp", "data": "eA=="}},
        {**told, "thoughtSignature": "c2lnMg=="},
        ran,
    ]


def test_phases_are_not_told_apart() -> None:
    item = {"role": "assistant", "content": "A", "phase": "commentary"}
    _, turn = build({"input": [USER, item, USER]})
    assert receipts(turn) == {"input.phase": "suppressed"}


def test_the_stored_context_has_no_place_in_the_input() -> None:
    items: list[Any] = [Message(role="user", content="A"), Message(role="developer", content="B")]
    turn = make_turn("Hi", items=[*items, Message(role="user", content="Hi")], model=NEW)
    prepare(turn, "up")
    assert receipts(turn) == {"input": "rewritten"}
