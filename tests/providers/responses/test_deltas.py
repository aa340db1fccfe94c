"""What snapshots add, how reasoning keeps its proof, and items that come whole."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.responses.request import Proof
from antiphon.spec.codec import Opaque
from antiphon.spec.response import Response
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Finish,
    ItemDelta,
    ItemEnd,
    MessageStart,
    PartEnd,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    VendorDelta,
)
from tests.providers.compose import plain, told
from tests.providers.conformance.said import Redacted, Script, Thought
from tests.providers.responses import wire
from tests.providers.responses.reading import (
    CITATION,
    LOGPROB,
    Json,
    added,
    answer,
    completed,
    compose,
    delta,
    done,
    lines,
    message,
    read,
    stream,
    whole,
)
from tests.stream.composed import compose as composed
from tests.stream.strategies import citations, compactions, logprobs, outputs

# --- snapshots --------------------------------------------------------------------------------------------


def test_an_item_that_comes_only_whole_is_told_once() -> None:
    response = answer(done(message("Hello.")), completed(message("Hello.")))
    assert told(response) == ["Hello."]


def test_everything_may_stand_in_the_terminal_event_alone() -> None:
    response = answer(completed(message("Hello."), usage=None))
    assert told(response) == ["Hello."]
    assert response.usage is None


def test_a_snapshot_adds_only_what_is_missing() -> None:
    response = answer(
        added(message("") | {"content": []}),
        delta("Hel"),
        done(message("Hello.")),
        completed(message("Hello.")),
    )
    assert told(response) == ["Hello."]


def test_what_was_said_stays_said_when_the_snapshot_says_otherwise() -> None:
    response = answer(
        added(message("") | {"content": []}),
        delta("Hello."),
        done(message("Bye.")),
        completed(message("Bye.")),
    )
    assert told(response) == ["Hello."]


def test_annotations_and_logprobs_of_the_snapshot() -> None:
    item = message("Hi", annotations=[CITATION], logprobs=[LOGPROB])
    streamed = [added(message("") | {"content": []}), delta("Hi")]
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    ended: list[list[Json]] = [
        [done(item)],
        [{"type": "response.content_part.done", **where, "part": item["content"][0]}, done(item)],
        [
            {"type": "response.output_text.done", **where, "text": "Hi", "logprobs": [LOGPROB]},
            {
                "type": "response.output_text.annotation.added",
                **where,
                "annotation_index": 0,
                "annotation": CITATION,
            },
            done(item),
        ],
    ]
    for events in ended:
        [part] = plain(answer(*streamed, *events, completed(item)))["output"][0]["content"]
        assert part == {"type": "output_text", "text": "Hi", "annotations": [CITATION], "logprobs": [LOGPROB]}
    [part] = plain(compose([whole(completed(item)["response"])]))["output"][0]["content"]
    assert part["logprobs"] == [LOGPROB]
    assert part["annotations"] == [CITATION]


def test_logprobs_of_a_delta_are_told_with_it() -> None:
    deltas = read(lines(added(message("") | {"content": []}), delta("Hi", logprobs=[LOGPROB]), completed()))
    [text] = [delta for delta in deltas if isinstance(delta, TextDelta)]
    assert text.logprobs is not None
    assert text.logprobs[0].token == "Hi"


def test_an_unknown_annotation_is_kept() -> None:
    note = {"type": "file_citation", "file_id": "f", "filename": "a.txt", "index": 1}
    deltas = read(lines(done(message("Hi", annotations=[note])), completed()))
    [found] = [delta for delta in deltas if isinstance(delta, AnnotationDelta)]
    assert isinstance(found.annotation, Opaque)
    assert json.loads(found.annotation.raw) == note


def test_several_parts_stay_apart() -> None:
    item = message("One.")
    item["content"].append({"type": "refusal", "refusal": "No."})
    item["content"].append({"type": "output_text", "text": "Two.", "annotations": []})
    [got] = plain(answer(done(item), completed(item)))["output"]
    assert [part.get("text") or part.get("refusal") for part in got["content"]] == ["One.", "No.", "Two."]


def test_two_messages_stay_apart_and_keep_their_phases() -> None:
    first = message("One.") | {"phase": "commentary"}
    second = message("Two.") | {"id": "msg_2", "phase": "final_answer"}
    output = plain(answer(added(first), done(first), added(second, 1), done(second, 1), completed()))[
        "output"
    ]
    assert [(item["phase"], item["content"][0]["text"]) for item in output] == [
        ("commentary", "One."),
        ("final_answer", "Two."),
    ]


def test_a_message_without_words_is_there() -> None:
    assert told(answer(added(message("")), done(message("")), completed(message("")))) == [""]


def test_an_unknown_part_of_a_message_is_noted() -> None:
    notes: list[str] = []
    item = message("Hi")
    item["content"].append({"type": "acme:drawing", "svg": "…"})
    assert told(answer(done(item), completed(item), note=lambda param, why: notes.append(why))) == ["Hi"]
    assert "acme:drawing" in notes[0]


# --- reasoning --------------------------------------------------------------------------------------------


def test_proofs_are_kept_with_their_ids_and_each_item_apart() -> None:
    script = Script((Thought("One.", "p1"), Redacted("p2"), Redacted("p3"), Thought("Four.", "p4")))
    for deltas in (read(stream(script)), whole(wire.whole(script, {}))):
        blobs = [delta.encrypted_content for delta in deltas if isinstance(delta, SignatureDelta)]
        assert blobs == [Proof(f"rs_up_{n}", f"p{n + 1}").to_blob() for n in range(4)]
        output = plain(compose([deltas]))["output"]
        assert [item["encrypted_content"] for item in output] == blobs
        assert [bool(item["summary"]) for item in output] == [True, False, False, True]


def test_parts_of_a_summary_stay_apart() -> None:
    item: Json = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
    }
    [got] = plain(answer(done(item), completed(item)))["output"]
    assert [part["text"] for part in got["summary"]] == ["One.", "Two."]


# --- what comes whole -------------------------------------------------------------------------------------


def test_a_hosted_tool_with_its_own_events() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
    final = item | {"status": "completed", "action": {"type": "search", "query": "é"}}
    deltas = read(
        lines(
            added(item),
            {"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 0, "x": 1},
            done(final),
            {"type": "response.web_search_call.completed", "item_id": "ws_1", "output_index": 0},
            completed(final),
        )
    )
    assert [delta for delta in deltas if isinstance(delta, VendorDelta)] == [
        VendorDelta("response.web_search_call.searching", {"x": 1}, 0)
    ]
    assert plain(compose([deltas]))["output"] == [final]


def test_an_unknown_item_is_kept_byte_for_byte() -> None:
    raw = b'{"type":"acme:search", "id":"ac_1","status":"completed","score":1.50,"hits":[ ]}'
    body = b'data: {"type":"response.output_item.done","output_index":0,"item":' + raw + b"}\n\n"
    [item] = [delta for delta in read(body + lines(completed())) if isinstance(delta, ItemDelta)][-1:]
    assert isinstance(item.item, Opaque)
    assert item.item.raw == raw


def test_an_item_without_a_status_runs_until_it_is_done() -> None:
    item = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []}
    final = item | {"tools": [{"name": "t"}]}
    deltas = read(
        lines(
            added(item),
            {"type": "response.mcp_list_tools.completed", "item_id": "mcpl_1", "output_index": 0},
            done(final),
            completed(final),
        )
    )
    first, event, last = [delta for delta in deltas if isinstance(delta, ItemDelta | VendorDelta)]
    assert isinstance(first, ItemDelta)
    assert isinstance(event, VendorDelta)
    assert isinstance(last, ItemDelta)
    assert plain(compose([deltas]))["output"] == [final]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "blob"},
        {"type": "function_call_output", "id": "fco_1", "call_id": "c", "output": "x", "status": "completed"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "n", "arguments": "{}"},
    ],
)
def test_other_items_pass_whole(item: Json) -> None:
    for events in ([added(item), done(item)], [done(item)], []):
        assert plain(answer(*events, completed(item)))["output"] == [item]


def test_a_vendors_event_passes_and_a_keepalive_does_not() -> None:
    deltas = read(lines({"type": "acme:progress", "percent": 5}, {"type": "keepalive"}, completed()))
    assert deltas[0] == VendorDelta("acme:progress", {"percent": 5})
    assert len(deltas) == 2


# --- the law ----------------------------------------------------------------------------------------------

_texts = st.text(min_size=1, max_size=6)
_keys = st.integers(0, 10**9)


def _call(key: int, kind: Any, name: str, pieces: list[str], namespace: str | None) -> list[AnyDelta]:
    told: list[AnyDelta] = [CallDelta(key, name=name, kind=kind, namespace=namespace)]
    arguments = json.dumps({"a": "".join(pieces)}) if kind == "function" else "".join(pieces)
    told += [CallDelta(key, arguments[n : n + 4], kind=kind) for n in range(0, len(arguments), 4)]
    return [*told, ItemEnd(key, "completed")]


def _thought(words: list[str], summaries: list[str], proof: str) -> list[AnyDelta]:
    told: list[AnyDelta] = [SummaryDelta(text, n) for n, text in enumerate(summaries)]
    return [*told, *map(ReasoningDelta, words), SignatureDelta(proof), ItemEnd(status="completed")]


_message = st.tuples(
    st.builds(MessageStart, st.sampled_from([None, "commentary", "final_answer"])),
    st.builds(TextDelta, _texts),
).map(list)
_sayings: st.SearchStrategy[list[AnyDelta]] = st.one_of(
    _message,
    st.builds(
        lambda message, more: [*message, *more],
        _message,
        st.lists(
            st.one_of(
                st.builds(TextDelta, _texts, st.lists(logprobs, max_size=2)),
                st.builds(AnnotationDelta, citations),
                st.builds(RefusalDelta, _texts),
                st.just(PartEnd()),
            ),
            max_size=4,
        ),
    ),
    st.builds(
        _thought, st.lists(_texts, max_size=2), st.lists(_texts, max_size=2), _texts.map("proof {}".format)
    ),
    st.builds(
        _call,
        _keys,
        st.sampled_from(["function", "custom"]),
        st.sampled_from(["f", "g"]),
        st.lists(_texts, max_size=3),
        st.sampled_from([None, "ns"]),
    ),
    st.builds(
        lambda id, status: [ItemDelta(Opaque.make(type="acme:search", id=id, status=status, query="é"))],
        st.sampled_from(["", "v1", "v2"]),
        st.sampled_from(["completed", "failed"]),
    ),
    st.builds(lambda item: [ItemDelta(item)], st.one_of(outputs, compactions)),
)


def _alike(response: Response) -> list[Json]:
    """The output without what each Composer makes for itself."""
    kept = []
    for item in plain(response)["output"]:
        own = {key: value for key, value in item.items() if key != "id"}
        if item["type"] == "reasoning":
            proof = own["encrypted_content"]
            own["encrypted_content"] = json.loads(proof)["encrypted_content"] if proof[0] == "{" else proof
        kept.append(own)
    return kept


@given(st.lists(_sayings, max_size=8))
def test_what_one_composer_says_another_one_says_again(sayings: list[list[AnyDelta]]) -> None:
    """Item by item, nothing is lost or added on the way through the wire."""
    said: list[AnyDelta] = [delta for saying in sayings for delta in saying]
    events, response = composed(*said, Finish())
    body = b"".join(b"data: %b\n\n" % event.to_json() for event in events)
    again = compose([read(body)])
    assert _alike(again) == _alike(response)
