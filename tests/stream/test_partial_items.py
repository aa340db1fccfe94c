"""What an item becomes while its texts, annotations and probabilities come in."""

import pytest
from msgspec.structs import replace

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import (
    LogProb,
    OutputText,
    ReasoningText,
    Refusal,
    SummaryText,
    TopLogProb,
    UrlCitation,
)
from antiphon.spec.items import FunctionCallOutput, Message, Reasoning
from antiphon.stream.reader import Reader
from tests.stream import streams
from tests.stream.reading import content, delta, follow, read, texts


def test_an_item_with_unknown_fields_gets_the_id_of_its_type() -> None:
    item = streams.message("", status="in_progress") | {"acme": 1}
    reader = read([{"type": "response.output_item.added", "output_index": 0, "item": item}])
    assert reader.response.output[0].id == "msg_2"


def test_annotations_are_kept_by_their_number() -> None:
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    note = {"type": "response.output_text.annotation.added", **where}
    other = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
    reader = read(
        [
            delta("Bees", **where),
            note | {"annotation": streams.CITATION},
            note | {"annotation": other, "annotation_index": 1},
            note | {"annotation": streams.CITATION | {"title": "Better"}, "annotation_index": 0},
            note | {"annotation": None},
        ]
    )
    (message,) = reader.response.output
    assert isinstance(message, Message)
    assert message.content == [
        OutputText("Bees", [UrlCitation("https://example.org/bees", "Better", 0, 4), Opaque.make(**other)])
    ]


def test_logprobs_are_joined_and_completed() -> None:
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    bare = [{"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "b", "logprob": -2.0}]}]
    full = [{"token": "b", "logprob": -1, "bytes": [98], "top_logprobs": []}]
    reader = read([delta("a", **where, logprobs=bare), delta("b", **where, logprobs=full)])
    done = {"type": "response.output_text.done", **where, "text": "ab"}
    event = reader.feed(done)
    assert isinstance(event, ev.OutputTextDoneEvent)
    assert event.logprobs == [
        LogProb("a", -1.0, [], [TopLogProb("b", -2.0, [])]),
        LogProb("b", -1.0, [98], []),
    ]
    assert content(reader)[0].logprobs == event.logprobs


def test_what_was_given_out_does_not_grow() -> None:
    first, second, third = (LogProb(text, -0.1, [1], []) for text in "abc")
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    reader = Reader()

    def feed(kind: str, n: int, **fields: object) -> ev.AnyEvent:
        payload = {"type": f"response.output_text.{kind}", "sequence_number": n, **where, **fields}
        event = reader.feed(encode(payload))
        assert event is not None
        return event

    seen: list[tuple[object, bytes]] = []
    for event in (
        feed("delta", 0, delta="a", logprobs=[first]),
        reader.response,
        feed("delta", 1, delta="b", logprobs=[second]),
        reader.response,
        feed("done", 2, text="ab"),
        reader.response,
        feed("done", 3, text="ab", logprobs=[first]),
        feed("delta", 4, delta="c", logprobs=[third]),
    ):
        seen.append((event, encode(event)))
    feed("delta", 5, delta="d", logprobs=[third])
    assert [encode(value) for value, _ in seen] == [before for _, before in seen]


def test_refusals_and_empty_texts_are_texts_too() -> None:
    reader = read(streams.refusal()[:-2])
    assert content(reader) == [Refusal("I will not.")]
    empty = Reader().feed(delta(""))
    assert isinstance(empty, ev.OutputTextDeltaEvent)
    assert empty.delta == ""


def test_a_delta_may_be_an_object_with_the_text_in_it() -> None:
    reader = read([{"type": "response.output_text.delta", "delta": {"type": "text", "text": "a"}}])
    reader.feed({"type": "response.function_call_arguments.delta", "item_id": "c", "delta": {"a": 1}})
    assert texts(reader) == ["a", '{"a":1}']


def test_output_messages_may_have_plain_text() -> None:
    payloads = streams.text()
    payloads[-1]["response"]["output"][0]["content"] = "Hello, wörld"
    reader, told = follow(payloads)
    assert content(reader) == [OutputText("Hello, wörld")]
    assert told == {"msg_0": ["Hello, wörld"]}
    payloads[-1]["response"]["output"][0]["content"] = [{"type": "text", "text": "Hello, wörld"}]
    assert content(read(payloads)) == [OutputText("Hello, wörld")]


def test_a_tool_output_keeps_what_it_says() -> None:
    item = {"type": "function_call_output", "id": "o", "call_id": "c", "output": "", "status": "in_progress"}
    payloads = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        delta("line 1\n", item_id="o", output_index=0, content_index=0),
        delta("line 2\n", item_id="o", output_index=0, content_index=0),
    ]
    reader = read(payloads)
    expected = FunctionCallOutput(id="o", call_id="c", output="line 1\nline 2\n", status="in_progress")
    assert reader.response.output == [expected]
    reader.feed(
        {"type": "response.output_item.done", "output_index": 0, "item": item | {"status": "completed"}}
    )
    assert reader.response.output == [replace(expected, status="completed")]


@pytest.mark.parametrize(
    ("alias", "kind"),
    [
        ("response.reasoning_text", ReasoningText),
        ("response.reasoning_content", ReasoningText),
        ("response.reasoning_summary", SummaryText),
    ],
)
def test_other_names_of_deltas_go_the_short_way_too(alias: str, kind: type) -> None:
    reader = Reader()
    for text in ("a", "b", "c"):
        event = reader.feed(
            {"type": f"{alias}.delta", "sequence_number": 0, "item_id": "rs", "output_index": 0}
            | {"content_index": 0, "summary_index": 0, "delta": text}
        )
        assert type(event) in (ev.ReasoningDeltaEvent, ev.ReasoningSummaryTextDeltaEvent)
    (item,) = reader.response.output
    assert isinstance(item, Reasoning)
    assert (item.content or item.summary) == [kind("abc")]
