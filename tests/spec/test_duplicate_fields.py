"""The strict parser of one item: a field that stands twice is refused."""

import json

import pytest

from antiphon.spec import SpecError, decode_item, decode_request, encode
from antiphon.spec.items import Message

DUPLICATES = [
    (b'{"type":"message","role":"user","content":"a","content":"b"}', "content"),
    (
        b'{"type":"message","role":"user","content":[{"type":"input_text","text":"a","text":"b"}]}',
        "content[0].text",
    ),
    (b'{"type":"acme:thing","x":{"y":[{"z":1,"z":1}]}}', "x.y[0].z"),
    (b'{"type":"acme:thing","type":"message","role":"user","content":"b"}', "type"),
    (b'{"type":"function_call","call_id":"c","name":"f","arguments":{"a":1,"a":2}}', "arguments.a"),
]


@pytest.mark.parametrize(("body", "param"), DUPLICATES)
def test_the_strict_item_parser_refuses_duplicate_keys(body: bytes, param: str) -> None:
    with pytest.raises(SpecError, match=r"^duplicate Open Responses field '\w+'$") as caught:
        decode_item(body, path="item", strict=True)
    assert caught.value.payload.param == f"item.{param}"
    assert caught.value.payload.code == "duplicate_field"
    decode_item(body)


def test_otherwise_the_last_one_counts() -> None:
    item = decode_item(DUPLICATES[0][0])
    assert item == Message(role="user", content="b")
    assert decode_item(DUPLICATES[3][0]) == Message(role="user", content="b")
    assert decode_request(b'{"model":"a","model":"b"}').model == "b"


def test_the_strict_item_parser_accepts_the_rest() -> None:
    assert decode_item(b'{"role":"user","content":"a"}', strict=True) == Message(role="user", content="a")
    for body in (b"{", b"[" * 100_000, b'{"a":' + b"[" * 100_000, b'{"type":"a:b","x":NaN}'):
        with pytest.raises(SpecError):
            decode_item(body, strict=True)


def test_the_strict_item_parser_can_say_which_odd_name_stands_twice() -> None:
    with pytest.raises(SpecError) as caught:
        decode_item(b'{"type":"acme:x","\\ud800":1,"\\ud800":2}', strict=True)
    assert json.loads(encode(caught.value.payload))["param"] == "\\ud800"
