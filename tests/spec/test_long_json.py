"""Long values are handled slice by slice, and it shows in nothing but the length of a call."""

import json
import re
import tracemalloc
from time import process_time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec import SpecError, long_json, strict_decoder
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import InputFile, InputText
from antiphon.spec.decode import decode_request
from antiphon.spec.items import Message
from antiphon.spec.limits import LARGE, MAX_FIELD_NAME, MAX_OUTSIDE, MAX_SETTINGS, MAX_TEXT
from antiphon.spec.long_json import is_deep, is_name, outline
from tests.spec.strategies import JSON

TRICKY = st.recursive(
    st.text('[]{},:"\\\n é', max_size=8) | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[{,:"\\', max_size=3), inner),
)

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


def marks(value: Any) -> int:
    """An opening bracket, and what separates the entries and names from values."""
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(len(value) - 1, 0) + isinstance(value, dict) * len(value) + sum(map(marks, inner))


@given(TRICKY | JSON, st.booleans(), st.sampled_from([None, 1]))
def test_a_scan_agrees_with_the_decoded_value(value: Any, escaped: bool, indent: int | None) -> None:
    raw = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    for limit in range(depth(value) + 2):
        assert is_deep(raw, limit) == (depth(value) > limit)
    assert outline(raw).values == marks(value)


@given(TRICKY, st.integers(2, 9))
def test_a_scan_in_slices_agrees_with_one_of_the_whole(value: Any, size: int) -> None:
    raw = json.dumps(value, ensure_ascii=False).encode()
    strings = [found.span() for found in _STRING.finditer(raw)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_json, "_SLICE", size)
        found = outline(raw)
        assert (found.values, found.escapes) == (marks(value), raw.count(b"\\"))
        assert found.outside == len(_STRING.sub(b"", raw))
        assert not is_deep(raw, depth(value))
        long = [(one.start - 1, one.end + 1) for one in found.long]
    assert set(long) <= set(strings)
    assert set(long) >= {(start, end) for start, end in strings if end - start - 2 >= 2 * size}


@given(st.dictionaries(st.text(max_size=40), st.text(max_size=40) | st.lists(st.text(max_size=40))))
def test_a_long_name_is_told_from_a_long_text(value: dict[str, Any]) -> None:
    raw = json.dumps(value, ensure_ascii=False, separators=(",", " :  ")).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_json, "_SLICE", 4)
        for one in outline(raw).long:
            text = json.loads(raw[one.start - 1 : one.end + 1])
            inside = [each for given in value.values() for each in ([given] if type(given) is str else given)]
            assert text in (value if is_name(raw, one) else inside)


@given(st.integers(0, 12), st.integers(0, 12))
def test_is_deep_counts_levels(depth: int, limit: int) -> None:
    raw = b'[{"a":' * (depth // 2) + b"[" * (depth % 2) + b"1" + b"]" * (depth % 2) + b"}]" * (depth // 2)
    assert is_deep(raw, limit) == (depth > limit)
    assert is_deep(b"[[],1,%b]" % raw, limit) == (max(depth + 1, 2) > limit)
    assert not is_deep(b'"' + b"[" * 100 + b'"', limit)


@given(st.lists(st.sampled_from([*b'[]{},:"\\a '])).map(bytes), st.integers(0, 3))
def test_any_bytes_can_be_scanned(data: bytes, limit: int) -> None:
    assert is_deep(data, limit) in (True, False)
    assert outline(data, limit).values >= 0


HOSTILE = {
    "escapes": b'["' + b"\\n" * 3_000_000,
    "escaped quotes": b"[" * 150 + b'"' + b'\\"[,' * 1_500_000,
    "quotes": b'"[,' * 2_000_000,
    "open strings": b'[","' * 1_500_000,
    "closers": b"[,]" * 300 + b"]" * 6_000_000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_scan_looks_at_no_byte_twice(data: bytes) -> None:
    started = process_time()
    is_deep(data, 200)
    outline(data, 1_000_000)
    assert process_time() - started < 60


def test_a_limit_is_reached_only_outside_strings() -> None:
    words = ["[{,:" * 1000, "\\", '"[', "é"]
    raw = json.dumps({"a": words}, ensure_ascii=False).encode()
    assert outline(raw).values == 6


def test_a_text_with_too_many_values_is_not_read_to_its_end() -> None:
    assert outline(b"[" + b"1," * 1_000_000 + b"1]", 1000).values < 50_000


TRICKY = st.lists(
    st.sampled_from(
        [r"\\", r"\"", r"\n", r"\u00e9", r"\ud83d\ude00", "\\u005c", "a", "é", "語", "😀", "u", "/"]
    )
).map("".join)
"""The inside of a JSON string."""
SIZES = st.integers(32, 64)


@given(TRICKY, SIZES)
def test_a_string_in_pieces_is_the_string(inside: str, size: int) -> None:
    raw = f'"{inside}"'.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_json, "SLICE", size)
        pieces = list(long_json.text_pieces(raw))
        assert "".join(pieces) == msgspec.json.decode(raw)
        assert all(len(piece) <= size for piece in pieces)
        assert msgspec.json.decode(long_json.quote_json(raw)) == raw.decode()


def test_slices_of_a_long_text_are_encoded_as_they_are_asked_for() -> None:
    """A list of all of them takes as much memory as the text, and joined twice as much."""
    message = Message(role="user", content=[InputText("x" * 64 * long_json.SLICE)])
    size = len(encode(message))
    tracemalloc.start()
    try:
        assert sum(map(len, long_json.encode_pieces(message))) == size
        assert tracemalloc.get_traced_memory()[1] < 8 * long_json.SLICE
        assert len(long_json.encode_long(message)) == size
        assert tracemalloc.get_traced_memory()[1] < 1.5 * size
    finally:
        tracemalloc.stop()


@given(JSON, TRICKY, SIZES)
def test_a_value_in_pieces_is_the_value(value: Any, inside: str, size: int) -> None:
    text = json.loads(f'"{inside}"')
    part = InputFile(filename="a", file_data=text)
    message = Message(role="user", content=[InputText("short"), part])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_json, "SLICE", size)
        for one in (value, message, {"a": value, "b": [text, message, Opaque(b'{"type":"x:y"}')]}, text):
            assert long_json.encode_long(one) == encode(one)
        assert b"".join(long_json.encode_each([value, message])) == encode([value, message])[1:-1]


@given(JSON, st.lists(TRICKY | st.sampled_from([r"\\ud800", r"\\x", "\n"]), max_size=3))
def test_a_long_value_is_checked_as_the_decoder_would(value: Any, texts: list[str]) -> None:
    strings = ",".join(f'"{inside}"' for inside in texts)
    raw = b'{"a":%b,"b":[%b]}' % (encode(value), strings.encode())
    try:
        msgspec.json.decode(raw)
        is_good = True
    except msgspec.DecodeError:
        is_good = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_json, "LARGE", 8)
        patch.setattr(long_json, "SLICE", 32)
        try:
            long_json.check_long(raw)
            is_taken = True
        except msgspec.ValidationError:
            is_taken = is_good  # a number of more than eight digits, which is long with this limit
        except msgspec.DecodeError:
            is_taken = False
    assert is_taken == is_good


EMOJI = "😀" * 200_000
ITEMS: dict[str, dict[str, Any]] = {
    "text": {"type": "message", "role": "user", "content": EMOJI},
    "bare": {
        "role": "user",
        "content": [{"type": "input_text", "text": EMOJI}, {"type": "text", "text": "b"}],
    },
    "file": {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_file", "filename": "a", "file_data": "QUJD" * 100_000}],
    },
    "call": {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": EMOJI}},
    "reasoning": {"type": "reasoning", "id": "r", "summary": EMOJI, "content": "\n" * 300_000},
    "extra": {"type": "message", "role": "user", "content": "x", "vendor": {"a": [EMOJI, {"b": EMOJI}]}},
    "unknown": {"type": "vendor:note", "a": [EMOJI, {"b": EMOJI, "c": 1.5}]},
}


class Calls:
    """How much the decoders were given at once."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.longest = 0
        for place, name in (
            (strict_decoder, "_known_item"),
            (strict_decoder, "_bare_message"),
            (long_json, "_string"),
            (long_json, "_inner"),
        ):
            patch.setattr(place, name, self._noted(getattr(place, name)))

    def _noted(self, real: Any) -> Any:
        def noted(given: Any) -> Any:
            self.longest = max(self.longest, len(given))
            return real(given)

        return noted


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
@pytest.mark.parametrize("escaped", [True, False])
def test_a_long_item_is_read_in_slices_like_a_short_one(
    item: dict[str, Any], escaped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = json.dumps({"input": [item]}, ensure_ascii=escaped).encode()
    monkeypatch.setattr(strict_decoder, "LARGE", len(raw))
    expected = decode_request(raw)
    monkeypatch.setattr(strict_decoder, "LARGE", LARGE)
    calls = Calls(monkeypatch)
    assert decode_request(raw) == expected
    assert calls.longest <= long_json.SLICE + 2
    assert isinstance(expected.input, list)
    assert json.loads(long_json.encode_long(expected.input[0])) == json.loads(encode(expected.input[0]))
    assert calls.longest <= long_json.SLICE + 2


def _refused(body: str | bytes) -> tuple[str | None, str | None, str]:
    with pytest.raises(SpecError) as refused:
        decode_request(body if isinstance(body, bytes) else body.encode())
    error = refused.value.payload
    return error.code, error.param, error.message


def test_half_a_pair_in_a_long_text_is_named() -> None:
    code, param, message = _refused('{"input":[{"role":"user","content":"%s\\ud800"}]}' % ("A" * LARGE))
    assert (code, param) == ("invalid_utf8", None)
    assert r"holds \ud800, half of a surrogate pair" in message
    code, param, _ = _refused('{"input":["%s",["\\ud800"]]}' % ("A" * LARGE))
    assert (code, param) == ("invalid_utf8", "input[1][0]")


def test_a_long_text_says_how_long_it_is() -> None:
    code, param, message = _refused(json.dumps({"input": "A" * (MAX_TEXT + 1)}))
    assert (code, param) == ("invalid_value", "input")
    assert (
        message == "expected a string of at most 10,485,760 characters, got a string of 10,485,761 characters"
    )
    _, param, message = _refused(json.dumps({"input": [{"role": "A" * LARGE, "content": ""}]}))
    assert param == "input[0].role"
    assert message.endswith("got a string of 262,144 characters")
    assert _refused(b'"%b"' % (b"A" * LARGE))[2].endswith("an object, got a string of 262,144 characters")


def test_what_is_longer_than_a_text_must_be_ascii() -> None:
    part = {"type": "input_file", "file_data": "A" * MAX_TEXT + "é"}
    code, param, message = _refused(
        json.dumps({"input": [{"role": "user", "content": [part]}]}, ensure_ascii=False)
    )
    assert (code, param) == ("invalid_value", "input[0].content[0].file_data")
    assert "or one of ASCII alone" in message


def test_no_number_is_long() -> None:
    for where in ('{"type":"vendor:x","n":[%s]}', '{"role":"user","content":"x","n":%s}', "%s"):
        code, _, message = _refused('{"input":[%s]}' % (where % ("1" * (LARGE + 1))))
        assert code == "invalid_value", where
        assert "number" in message


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"input":%b"x"}' % (b" \n" * (MAX_OUTSIDE // 2)), "too_much_space"),
        (b'{"input":"x","temperature":%b}' % (b"1" * MAX_OUTSIDE), "too_much_space"),
        (b'{"input":[{"type":"x:y","%b" : 1}]}' % (b"n" * (MAX_FIELD_NAME + 1)), "name_too_long"),
    ],
)
def test_what_would_take_the_decoder_long_is_refused(body: bytes, code: str) -> None:
    assert _refused(body)[0] == code


@pytest.mark.parametrize("name", ["instructions", "model", "vendor"])
def test_a_request_without_its_input_is_not_large(name: str) -> None:
    code, param, _ = _refused(json.dumps({"input": "x", name: "A" * MAX_SETTINGS}))
    assert (code, param) == ("settings_too_large", name)
    allowed = "A" * (MAX_SETTINGS - 100)
    assert (
        decode_request(json.dumps({"input": "x", "instructions": allowed}).encode()).instructions == allowed
    )
