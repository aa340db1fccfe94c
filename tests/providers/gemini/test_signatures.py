"""Thought signatures: from the part they came with into an item, and back onto that very part."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.gemini.content import inline_part
from antiphon.providers.gemini.signatures import ModelParts, PartSignature, from_blob
from antiphon.spec.codec import Opaque
from antiphon.spec.items import Reasoning
from antiphon.spec.response import Response
from antiphon.stream.deltas import AnyDelta
from antiphon.wires.media import image_of
from tests.providers.compose import compose, plain, told
from tests.providers.gemini.fake import sse
from tests.providers.gemini.reading import call, read, response, text, whole


def replayed(deltas: list[AnyDelta], *, shown: bool = True) -> list[dict[str, Any]]:
    """The parts of the next request, made from the items that these deltas make.

    `shown`: the client sees the items that only Google knows.
    """
    made = ModelParts()
    for item in compose([deltas]).output:
        if isinstance(item, Reasoning):
            if (proof := from_blob(item.encrypted_content)) is not None:
                made.proof(proof)
        elif isinstance(item, Opaque):
            if (image := image_of(item)) is not None:
                made.other(inline_part(image.media_type, image.data))
            elif shown:
                made.other(item.fields["data"])
        elif (one := plain_item(item))["type"] == "message":
            made.text("".join(part["text"] for part in one["content"]))
        else:
            made.call({"name": one["name"], "args": json.loads(one["arguments"])})
    assert made.lost == 0
    return made.end()


def plain_item(item: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(plain(compose_one(item))["output"][0]))
    return made


def compose_one(item: Any) -> Response:
    made = Response.new("r", "m", now=1)
    made.output = [item]
    return made


SIGNED = {"thoughtSignature": "c2ln"}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "a call": [call("f", {"a": 1}, **SIGNED)],
    "the first of two calls": [call("f", {}, **SIGNED), call("g", {})],
    "each of two calls": [call("f", {}, **SIGNED), call("g", {}, thoughtSignature="b3RoZXI=")],
    "a call after a thought": [text("Hm.", thought=True), call("f", {}, **SIGNED)],
    "a picture": [text("Here: "), {"inlineData": {"mimeType": "image/png", "data": "eA=="}, **SIGNED}],
    "a program": [{"executableCode": {"language": "PYTHON", "code": "1"}, **SIGNED}, text("1")],
    "what a tool of Google's found": [
        {"toolCall": {"id": "t", "toolType": "FILE_SEARCH"}, **SIGNED},
        {"toolResponse": {"id": "t", "toolType": "FILE_SEARCH", "response": {}}, **SIGNED},
        text("1"),
    ],
    "a program without a signature": [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        text("1"),
    ],
    "a call after text": [text("Look."), call("f", {}, **SIGNED)],
    "the only text": [text("Hello", **SIGNED)],
    "a text after a thought": [text("Hm.", thought=True), text("Hello", **SIGNED)],
    "the last of two texts": [text("Hello, "), text("world", **SIGNED)],
    "an empty part at the end": [text("Hello"), text("", **SIGNED)],
    "an empty part alone": [text("", **SIGNED)],
    "an empty part after a thought": [text("Hm.", thought=True), text("", **SIGNED)],
    "a thought": [text("Hm.", thought=True, **SIGNED), text("Hello")],
    "two thoughts": [
        text("Hm.", thought=True, **SIGNED),
        text("Well.", thought=True, thoughtSignature="b3RoZXI="),
        call("f", {}),
    ],
    "a text before a call": [text("Look.", **SIGNED), call("f", {})],
    "an empty part before a call": [text("Look."), text("", **SIGNED), call("f", {})],
    "a text before more text": [text("One. "), text("Two. ", **SIGNED), text("Three.")],
}


@pytest.mark.parametrize("parts", ANSWERS.values(), ids=ANSWERS.keys())
@pytest.mark.parametrize("mode", ["streamed", "whole"])
def test_a_signature_goes_back_on_the_very_part_it_came_with(parts: list[dict[str, Any]], mode: str) -> None:
    streamed = b"".join(sse(part) for part in parts) + sse(finish="STOP")
    deltas = read(streamed) if mode == "streamed" else whole(*parts)
    assert replayed(deltas) == replayed(deltas, shown=False) == parts


def test_a_signed_text_stays_one_message() -> None:
    made = response(sse(text("Hello, ")) + sse(text("wor")) + sse(text("ld", **SIGNED), finish="STOP"))
    assert [item["type"] for item in plain(made)["output"]] == ["message", "reasoning"]
    assert told(made)[0] == "Hello, world"


def test_a_thought_and_the_signature_after_it_are_one_item() -> None:
    made = response(sse(text("Hm.", thought=True)) + sse(call("f", {}, **SIGNED), finish="STOP"))
    [reasoning, _] = plain(made)["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert from_blob(reasoning["encrypted_content"]) == PartSignature("c2ln", "call", "Hm.", name="f")


def test_a_text_that_is_cut_short_is_the_last_item() -> None:
    """Its signature would hide that the text is not complete."""
    made = response(sse(text("Once upon"), text("", **SIGNED), finish="MAX_TOKENS"))
    assert told(made) == ["!Once upon"]


def test_a_signature_whose_part_is_gone_is_left_out() -> None:
    made = ModelParts()
    made.proof(PartSignature("a", "call", name="f"))
    made.call({"name": "g"})
    made.proof(PartSignature("b", "last", text="world"))
    made.text("Hello")
    made.proof(PartSignature("c", "next", text="Bye"))
    made.text("Hello")
    made.proof(PartSignature("d", "call", name="f"))
    assert made.end() == [{"functionCall": {"name": "g"}}, {"text": "Hello"}, {"text": "Hello"}]
    assert made.lost == 4


@pytest.mark.parametrize("blob", [None, "", "x", "[]", '{"signature":1}', '{"signature":"a","on":"moon"}'])
def test_a_blob_that_is_not_ours_is_no_proof(blob: str | None) -> None:
    assert from_blob(blob) is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["text", "thought", "call"]), st.text(max_size=3), st.booleans()),
        max_size=8,
    )
)
def test_signatures_survive_any_order_of_parts(plan: list[tuple[str, str, bool]]) -> None:
    """Law: as many signatures go back as came, in their order."""
    parts = []
    for n, (kind, words, signed) in enumerate(plan):
        more = {"thoughtSignature": f"sig{n}"} if signed else {}
        parts.append(
            call(f"f{n}", {}, **more)
            if kind == "call"
            else text(words, **({"thought": True} if kind == "thought" else {}), **more)
        )
    deltas = read(b"".join(sse(part) for part in parts) + sse(finish="STOP"))
    sent = [part["thoughtSignature"] for part in replayed(deltas) if "thoughtSignature" in part]
    assert sent == [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]
