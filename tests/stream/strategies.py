"""Arbitrary things a provider might say, in any order."""

from hypothesis import strategies as st

from antiphon.spec.codec import Opaque
from antiphon.spec.content import LogProb, UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import Compaction, FunctionCallOutput
from antiphon.spec.response import Usage
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
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
    UsageDelta,
    VendorDelta,
    Words,
    WordsStart,
)

texts = st.text(max_size=6)
keys = st.integers(0, 2)
pieces = st.sampled_from(["", "{", "}", "{}", '{"a":', "1}", '"b"', " ", "7", "é☃"])
names = st.sampled_from(["", "", "look_up", "save"])
call_ids = st.sampled_from(["", "", "c1", "c2", "x" * 70])
counts = st.integers(0, 10_000)

logprobs = st.builds(LogProb, texts, st.floats(-9, 0), st.just([1]), st.just([]))
citations = st.builds(UrlCitation, texts, texts, st.integers(0, 9), st.integers(0, 9))
statuses = st.sampled_from(["in_progress", "completed", "failed", "incomplete", "cancelled", "searching"])
vendor_items = st.builds(
    lambda id, status, kind: Opaque.make(type=kind, id=id, status=status, query="q"),
    st.sampled_from(["", "v1", "v2"]),
    statuses,
    st.sampled_from(["acme:search", "acme:file_change"]),
)
outputs = st.builds(
    lambda call_id, output: FunctionCallOutput(call_id=call_id, output=output),
    st.sampled_from(["c1", "c2"]),
    texts,
)
compactions = st.builds(lambda text: Compaction(encrypted_content=text), texts)

spoken: st.SearchStrategy[AnyDelta] = st.one_of(
    st.builds(TextDelta, texts),
    st.builds(TextDelta, texts, st.lists(logprobs, max_size=2)),
    st.builds(RefusalDelta, texts),
    st.builds(ReasoningDelta, texts),
    st.builds(SummaryDelta, texts, st.integers(0, 2)),
    st.builds(SignatureDelta, texts),
    st.builds(AnnotationDelta, citations),
    st.builds(CallDelta, keys, pieces, names, call_ids),
    st.builds(MessageStart, st.sampled_from([None, "commentary", "final_answer"])),
    st.builds(WordsStart, keys, st.sampled_from(["message", "reasoning"])),
    st.builds(Words, keys, texts),
    st.builds(PartEnd, st.none() | keys),
    st.builds(ItemEnd, st.none() | keys, st.sampled_from([None, "completed"])),
    st.builds(UsageDelta, st.builds(Usage.of, counts, counts)),
)
extended: st.SearchStrategy[AnyDelta] = st.one_of(
    spoken,
    st.builds(CallDelta, st.integers(3, 4), pieces, names, call_ids, st.just("custom"), st.none() | texts),
    st.builds(ItemDelta, st.one_of(vendor_items, outputs, compactions), st.none() | keys),
    st.builds(
        VendorDelta,
        st.sampled_from(["acme:progress", "response.completed", "two\nlines", ""]),
        st.sampled_from([{"percent": 3}, {"type": "x", "sequence_number": 99}]),
        st.none() | keys,
    ),
)
endings: st.SearchStrategy[AnyDelta] = st.one_of(
    st.builds(
        Finish,
        st.sampled_from(["stop", "tool_calls", "length", "content_filter", "max_tool_calls", "cancelled"]),
    ),
    st.builds(Failure, st.builds(ErrorPayload, st.just("server_error"), texts)),
)
core_runs = st.tuples(st.lists(spoken, max_size=24), endings, st.lists(spoken, max_size=3))
runs = st.tuples(st.lists(extended, max_size=24), endings, st.lists(extended, max_size=3))
runs_in_order = runs.map(lambda run: [*run[0], run[1], *run[2]])
"""The same as one list: what a model says, how it ends, and what comes after that."""
