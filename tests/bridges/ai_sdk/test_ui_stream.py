"""The UI message stream: its order rules, and what a client puts together from it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.bridges.ai_sdk.ui_stream import UIStream
from antiphon.spec.codec import Opaque
from antiphon.spec.content import OutputText, Refusal, text_of
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message, Reasoning
from antiphon.stream import deltas as d
from antiphon.stream.sse import Decoder
from tests.stream.composed import compose
from tests.stream.strategies import runs

Chunk = dict[str, Any]
FINISH_REASONS = {"stop", "length", "content-filter", "tool-calls", "error", "other"}


def read(body: bytes) -> list[Chunk]:
    """The chunks of a stream; none has an event line, each is one line."""
    events = Decoder().feed(body)
    assert all(event.event is None for event in events)
    return [json.loads(event.data) for event in events if not event.is_done]


def told(events: list[AnyEvent], batch: int = 1000, message_id: str | None = None) -> list[Chunk]:
    stream = UIStream(message_id)
    chunks = [stream.encode(events[n : n + batch]) for n in range(0, len(events), batch)]
    assert stream.end() == b"data: [DONE]\n\n"
    return read(b"".join(chunks))


def chunks_of(*deltas: d.AnyDelta) -> list[Chunk]:
    return told(compose(*deltas)[0])


def types(chunks: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


class Front:
    """The rules that a real client enforces: whoever breaks one stops the chat."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.thoughts: dict[str, str] = {}
        self.calls: dict[str, Chunk] = {}
        self._open: set[str] = set()
        self._in_step = False

    def take(self, chunk: Chunk) -> None:
        kind, id = chunk["type"], chunk.get("id", "")
        match kind.split("-"):
            case ["start", "step"]:
                assert not self._in_step
                self._in_step = True
            case ["finish", "step"]:
                assert self._in_step
                assert not self._open
                self._in_step = False
            case ["text" | "reasoning" as what, "start"]:
                assert f"{what} {id}" not in self._open
                self._open.add(f"{what} {id}")
                (self.texts if what == "text" else self.thoughts)[id] = ""
            case ["text" | "reasoning" as what, "delta"]:
                assert f"{what} {id}" in self._open
                (self.texts if what == "text" else self.thoughts)[id] += chunk["delta"]
            case ["text" | "reasoning" as what, "end"]:
                self._open.remove(f"{what} {id}")
            case ["tool", "input", "start"]:
                assert chunk["toolCallId"] not in self.calls
                self.calls[chunk["toolCallId"]] = {"name": chunk["toolName"], "text": ""}
            case ["tool", "input", "delta"]:
                self.calls[chunk["toolCallId"]]["text"] += chunk["inputTextDelta"]
            case ["tool", *_]:
                self.calls[chunk["toolCallId"]][kind] = chunk


@given(runs, st.integers(1, 9))
def test_a_client_can_read_any_run(
    run: tuple[list[d.AnyDelta], d.AnyDelta, list[d.AnyDelta]], batch: int
) -> None:
    body, ending, _ = run
    events, response = compose(*body, ending)
    chunks = told(events, batch)
    assert chunks == told(events)
    front = Front()
    for chunk in chunks:
        front.take(chunk)
    assert types(chunks)[:2] == ["start", "start-step"]
    last = chunks[-1]
    assert last["type"] in ("finish", "abort")
    assert last.get("finishReason", "other") in FINISH_REASONS
    texts = [
        (f"{item.id}:{n}", part.text if isinstance(part, OutputText) else part.refusal)
        for item in response.output
        if isinstance(item, Message)
        for n, part in enumerate(item.content)
        if isinstance(part, OutputText | Refusal)
    ]
    assert front.texts == dict(texts)
    thoughts = {
        f"{item.id}:{place}{n}": text
        for item in response.output
        if isinstance(item, Reasoning)
        for place, parts in (("", item.content or []), ("summary:", item.summary))
        for n, part in enumerate(parts)
        if (text := text_of([part]))
    }
    assert {id: text for id, text in front.thoughts.items() if text} == thoughts
    calls = {item.call_id: item for item in response.output if isinstance(item, FunctionCall)}
    for id, call in calls.items():
        assert front.calls[id]["name"] == call.name
        if call.status == "completed":
            assert front.calls[id].keys() & {"tool-input-available", "tool-input-error"}


def test_a_new_message_has_the_id_of_its_response() -> None:
    (start, *_) = chunks_of(d.TextDelta("hi"), d.Finish())
    assert start == {
        "type": "start",
        "messageId": "resp_1",
        "messageMetadata": {"responseId": "resp_1", "model": "m"},
    }


def test_a_message_that_goes_on_keeps_its_id() -> None:
    events, _ = compose(d.TextDelta("hi"), d.Finish())
    assert told(events, message_id="mine")[0]["messageId"] == "mine"
    assert "messageId" not in told(events, message_id="")[0]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "stop"),
        ("tool_calls", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("max_tool_calls", "other"),
    ],
)
def test_finish_reasons(reason: Any, expected: str) -> None:
    assert chunks_of(d.TextDelta("hi"), d.Finish(reason))[-1]["finishReason"] == expected


def test_open_calls_are_the_reason_to_finish() -> None:
    assert chunks_of(d.CallDelta(0, "{}", "look"), d.Finish())[-1]["finishReason"] == "tool-calls"


def test_a_cancelled_run_is_aborted() -> None:
    chunks = chunks_of(d.TextDelta("hi"), d.Finish("cancelled"))
    assert types(chunks)[-2:] == ["text-end", "abort"]
    assert chunks[-1] == {"type": "abort", "reason": "cancelled"}


def test_a_failure_is_told_once() -> None:
    chunks = chunks_of(d.TextDelta("hi"), d.Failure(ErrorPayload("server_error", "it broke")))
    assert types(chunks)[-4:] == ["text-end", "error", "finish-step", "finish"]
    assert chunks[-3]["errorText"] == "it broke"
    assert chunks[-1]["finishReason"] == "error"
    quiet, _ = compose(d.Failure(ErrorPayload("server_error", "it broke")), error_event=False)
    assert types(told(quiet))[-3:] == ["error", "finish-step", "finish"]


def test_what_follows_the_outputs_of_tools_is_another_step() -> None:
    output = FunctionCallOutput(call_id="call_1", output='{"degrees": 18}')
    chunks = chunks_of(
        d.CallDelta(0, "{}", "look", "call_1"),
        d.ItemEnd(0),
        d.ItemDelta(output),
        d.TextDelta("18"),
        d.Finish(),
    )
    assert types(chunks)[3:] == [
        "tool-input-delta",
        "tool-input-available",
        "tool-output-available",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    answered = {"toolCallId": "call_1", "providerExecuted": True, "output": {"degrees": 18}}
    assert chunks[5] == {"type": "tool-output-available", **answered}
    assert chunks[-1]["finishReason"] == "stop"


def test_an_output_without_its_call_is_data() -> None:
    chunks = chunks_of(d.ItemDelta(FunctionCallOutput(call_id="call_1", output="18")), d.Finish())
    assert types(chunks)[2] == "data-function_call_output"


def test_a_signature_without_words_has_a_part_of_its_own() -> None:
    chunks = chunks_of(d.SignatureDelta("proof"), d.TextDelta("hi"), d.Finish())
    assert types(chunks)[2:4] == ["reasoning-start", "reasoning-end"]
    kept = {"itemId": "rs_1", "encryptedContent": "proof"}
    assert chunks[3]["providerMetadata"] == {"antiphon": kept}


def test_sources_of_all_kinds() -> None:
    file = Opaque.make(type="file_citation", filename="birds.pdf", file_id="file_1", index=1)
    other = Opaque.make(type="acme:note", text="see above")
    chunks = chunks_of(
        d.TextDelta("hi"), d.AnnotationDelta(file), d.AnnotationDelta(other), d.TextDelta("!"), d.Finish()
    )
    document, note = [chunk for chunk in chunks if chunk["type"] in ("source-document", "data-acme:note")]
    assert document["mediaType"] == "application/pdf"
    assert document["title"] == document["filename"] == "birds.pdf"
    assert note["data"]["text"] == "see above"


def test_a_picture_is_a_file() -> None:
    drawn = Opaque.make(
        type="image_generation_call", id="ig_1", status="completed", result="iVBORw0K", output_format="webp"
    )
    (file,) = [c for c in chunks_of(d.ItemDelta(drawn), d.Finish()) if c["type"] == "file"]
    assert file == {"type": "file", "mediaType": "image/webp", "url": "data:image/webp;base64,iVBORw0K"}
