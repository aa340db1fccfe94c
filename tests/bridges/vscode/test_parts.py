"""VS Code's parts: every JSON form of them, and what may stand where."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from antiphon.bridges.vscode import (
    ASSISTANT,
    SYSTEM,
    USER,
    DataPart,
    PromptTsxPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VsCodeMessage,
    VsCodeRequest,
    assistant,
    read_bytes,
    read_part,
    read_parts,
    to_request,
    user,
)
from antiphon.spec.codec import encode, to_builtins
from antiphon.spec.errors import SpecError

PNG = b"\x89PNG\r\n\x1a\nrest"


def refused(message: VsCodeMessage) -> tuple[str | None, str | None]:
    with pytest.raises(SpecError) as caught:
        read_parts(message, "content")
    return caught.value.payload.param, caught.value.payload.code


def test_data_parts_are_made_as_in_vs_code() -> None:
    picture = DataPart.image(PNG, "image/png")
    assert picture == DataPart("image/png", PNG)
    assert DataPart.json({"a": [1, "ü"]}) == DataPart("application/json", '{"a":[1,"ü"]}'.encode())
    assert DataPart.json(None, "application/vnd.acme+json").mime_type == "application/vnd.acme+json"
    assert DataPart.text("Grüße") == DataPart("text/plain", "Grüße".encode())
    assert DataPart.text("a,b", "text/csv").mime_type == "text/csv"
    message = user([TextPart("Look:"), picture, DataPart.json({"a": 1}), DataPart.text("b")])
    request = to_request(VsCodeRequest(messages=[message])).request
    assert isinstance(request.input, list)
    assert to_builtins(request.input[0])["content"] == [
        {"type": "input_text", "text": "Look:"},
        {
            "type": "input_image",
            "image_url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
            "detail": "auto",
        },
        {"type": "input_text", "text": '{"a":1}'},
        {"type": "input_text", "text": "b"},
    ]
    for made in (picture, DataPart.json([1]), DataPart.text("x")):
        assert read_part(json.loads(encode(made)), "part") == made


def test_the_roles() -> None:
    assert (USER, ASSISTANT, SYSTEM) == (1, 2, 3)
    assert user("Hi").role == 1
    assert assistant("Hello").role == 2


def test_a_string_is_one_text_part() -> None:
    assert read_parts(VsCodeMessage(USER, "Hi"), "content") == [TextPart("Hi")]
    assert VsCodeMessage(USER, "Hi", "Ada").name == "Ada"


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({"$mid": 21, "value": "Hi"}, TextPart("Hi")),
        ({"value": "Hi"}, TextPart("Hi")),
        ({"value": "Hi", "audience": [1]}, TextPart("Hi")),
        ({"type": "text", "value": "Hi"}, TextPart("Hi")),
        ({"callId": "c", "name": "f", "input": {"a": 1}}, ToolCallPart("c", "f", {"a": 1})),
        ({"callId": "c", "name": "f", "input": None}, ToolCallPart("c", "f", {})),
        ({"callId": "c", "content": [{"value": "x"}]}, ToolResultPart("c", [TextPart("x")])),
        ({"callId": "c", "content": [], "isError": True}, ToolResultPart("c", [], True)),
        ({"callId": "c", "content": [{"$mid": 20, "content": ["x"]}]}, ToolResultPart("c", ["x"])),
        ({"callId": "c", "content": {"$mid": 20, "content": ["x"]}}, ToolResultPart("c", ["x"])),
        ({"$mid": 24, "mimeType": "image/png", "data": "AQI="}, DataPart("image/png", b"\1\2")),
        ({"mimeType": "image/png", "data": [1, 2]}, DataPart("image/png", b"\1\2")),
        ({"$mid": 23, "value": {"node": {}}}, PromptTsxPart({"node": {}})),
        ({"value": {"node": {}}}, PromptTsxPart({"node": {}})),
        ({"$mid": 23, "value": "text"}, PromptTsxPart("text")),
        ({"$mid": 22, "value": "Hm"}, ThinkingPart("Hm")),
        ({"$mid": 22, "value": ["H", "m"], "id": "rs_1"}, ThinkingPart("Hm", "rs_1")),
        ({"value": "Hm", "id": "rs_1", "metadata": {"a": 1}}, ThinkingPart("Hm", "rs_1", {"a": 1})),
    ],
)
def test_every_part_by_number_or_shape(value: Any, part: object) -> None:
    assert read_part(value, "part") == part


@pytest.mark.parametrize("value", [None, "text", 5, [], {}, {"$mid": 99}, {"value": 1, "other": 2}])
def test_what_is_no_part(value: object) -> None:
    assert read_part(value, "part") is None
    assert refused(VsCodeMessage(USER, [value])) == ("content[0]", "unknown_part")


def test_parts_have_their_places() -> None:
    """Results only in user messages, calls only in assistant ones, prompt elements only in results."""
    call, result = ToolCallPart("c", "f", {}), ToolResultPart("c", [])
    assert refused(VsCodeMessage(USER, [TextPart("a"), call])) == ("content[1]", "misplaced_part")
    assert refused(VsCodeMessage(ASSISTANT, [result])) == ("content[0]", "misplaced_part")
    assert refused(VsCodeMessage(USER, [PromptTsxPart({})])) == ("content[0]", "misplaced_part")
    assert refused(VsCodeMessage(ASSISTANT, [PromptTsxPart({})])) == ("content[0]", "misplaced_part")
    assert refused(VsCodeMessage(USER, [ThinkingPart("Hm")])) == ("content[0]", "misplaced_part")
    assert refused(VsCodeMessage(SYSTEM, [call])) == ("content[0]", "misplaced_part")


def test_the_factories_report_misuse() -> None:
    data, call, result = DataPart("image/png", PNG), ToolCallPart("c", "f", {}), ToolResultPart("c", [])
    assert user([TextPart("a"), result, data]).content == [TextPart("a"), result, data]
    assert assistant([TextPart("a"), call, data]).content == [TextPart("a"), call, data]
    with pytest.raises(SpecError, match="'toolCall' part cannot stand in a user message"):
        user([call])
    with pytest.raises(SpecError, match="'toolResult' part cannot stand in an assistant message"):
        assistant([result])


@given(data=st.binary(max_size=200))
def test_bytes_in_all_four_encodings(data: bytes) -> None:
    encoded = base64.b64encode(data).decode()
    forms = [encoded, encoded.rstrip("="), list(data), {str(n): byte for n, byte in enumerate(data)}]
    forms.append({"type": "Buffer", "data": list(data)})
    assert all(read_bytes(form, "data") == data for form in forms)


@given(data=st.binary(max_size=200))
def test_bytes_are_written_as_base64(data: bytes) -> None:
    written = json.loads(encode(DataPart("application/pdf", data)))
    assert written == {
        "type": "data",
        "mimeType": "application/pdf",
        "data": base64.b64encode(data).decode(),
        "$mid": 24,
    }
    assert read_part(written, "part") == DataPart("application/pdf", data)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("%%%", "invalid_base64"),
        ("A", "invalid_base64"),
        ([256], "invalid_value"),
        ([1.5], "invalid_value"),
        ([1.0], None),
        ([True], "invalid_value"),
        (["a"], "invalid_value"),
        ({"0": 1, "2": 3}, "invalid_value"),
        ({"type": "Buffer", "data": "AQ=="}, None),
        ({"type": "Buffer"}, "missing_field"),
        ({"type": "Buffer", "data": {"type": "Buffer", "data": [1]}}, "invalid_value"),
        (5, "invalid_value"),
        (None, "missing_field"),
    ],
)
def test_bytes_that_are_none(value: object, code: str | None) -> None:
    if code is None:
        assert read_bytes(value, "data") == b"\1"
        return
    with pytest.raises(SpecError) as caught:
        read_bytes(value, "data")
    assert caught.value.payload.code == code
    assert (caught.value.payload.param or "").startswith("data")


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({"callId": 5, "name": "f"}, "part.callId"),
        ({"callId": "c", "name": "f", "input": "{}"}, "part.input"),
        ({"callId": "c", "content": 5}, "part.content"),
        ({"$mid": 24, "data": "AQ=="}, "part.mimeType"),
        ({"$mid": 21}, "part.value"),
        ({"$mid": 22, "value": 5}, "part.value"),
    ],
)
def test_a_part_with_a_wrong_field_says_which(value: Any, param: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_part(value, "part")
    assert caught.value.payload.param == param


_texts = st.text(max_size=20)
_parts = st.one_of(
    st.builds(TextPart, _texts),
    st.builds(lambda value, id: ThinkingPart(value, id), _texts, _texts | st.just(UNSET)),
    st.builds(lambda kind, data: DataPart(kind, data), _texts, st.binary(max_size=20)),
    st.builds(ToolCallPart, _texts, _texts, st.dictionaries(_texts, st.integers() | _texts, max_size=3)),
    st.builds(lambda id, texts: ToolResultPart(id, [TextPart(t) for t in texts]), _texts, st.lists(_texts)),
)


@given(part=_parts)
def test_what_is_written_is_read_again(part: Any) -> None:
    assert read_part(json.loads(encode(part)), "part") == part
