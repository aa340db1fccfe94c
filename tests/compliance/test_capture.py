"""Recorded streams, and `antiphon audit`."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli import main
from antiphon.compliance.capture import NotACapture, audit_capture, read
from antiphon.spec.codec import Opaque
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Finish,
    ItemDelta,
    TextDelta,
    VendorDelta,
)
from antiphon.stream.rules import RULES
from antiphon.stream.sse import DONE, encode
from tests.compliance.run_tool import told
from tests.stream import streams
from tests.stream.mutations import END, MUTATIONS, Mutation, Tape

GOOD = b"".join(encode(e["type"], json.dumps(e).encode()) for e in streams.text()) + DONE
LINES = "".join(json.dumps(e) + "\n" for e in streams.text()).encode()


def test_a_good_stream_keeps_every_rule_in_either_form() -> None:
    for data, form in ((GOOD, "sse"), (LINES, "jsonl")):
        report = audit_capture("a stream", read(data))
        assert told(report, "fail") == {}, form
        assert report.model == "a-model"
        assert len(told(report, "pass")) > 40


def _captured(tools: list[dict[str, Any]], *deltas: AnyDelta) -> bytes:
    """A stream of the gateway for a client with these tools."""
    response = Response.new("resp_1", "a-model", now=1_790_000_000)
    response.tools = [Opaque.make(**tool) for tool in tools]
    composer = Composer(response, clock=lambda: 1_790_000_001.0)
    events = composer.feed([*deltas, Finish()])
    return b"".join(encode(event.type, event.to_json()) for event in events) + DONE


CALL = {"id": "x_1", "status": "completed"}
HOSTED: list[tuple[dict[str, Any], list[AnyDelta]]] = [
    (
        {"type": "web_search"},
        [
            ItemDelta(Opaque.make(type="web_search_call", **(CALL | {"status": "in_progress"})), 0),
            VendorDelta("response.web_search_call.searching", {}, 0),
            ItemDelta(Opaque.make(type="web_search_call", **CALL), 0),
        ],
    ),
    (
        {"type": "mcp", "server_label": "w"},
        [ItemDelta(Opaque.make(type="mcp_list_tools", **CALL, server_label="w", tools=[]))],
    ),
    ({"type": "tool_search"}, [ItemDelta(Opaque.make(type="tool_search_call", **CALL))]),
    ({"type": "custom", "name": "sum"}, [CallDelta(0, "4 + 4", "sum", "call_1", "custom")]),
]


@pytest.mark.parametrize(("tool", "deltas"), HOSTED)
def test_what_the_tools_of_a_capture_ask_for_is_welcome(tool: dict[str, Any], deltas: list[AnyDelta]) -> None:
    report = audit_capture("a stream", read(_captured([tool], *deltas)))
    assert told(report, "fail") == {}
    unasked = told(audit_capture("a stream", read(_captured([], *deltas))), "fail")
    assert "union.item" in unasked


@pytest.mark.parametrize("kind", ["file_citation", "container_file_citation", "file_path"])
def test_a_note_of_a_hosted_tool_is_welcome(kind: str) -> None:
    note = AnnotationDelta(Opaque.make(type=kind, file_id="file_1", filename="a.txt", index=3))
    assert told(audit_capture("a stream", read(_captured([], TextDelta("Yes."), note))), "fail") == {}
    odd = AnnotationDelta(Opaque.make(type="banana"))
    failed = told(audit_capture("a stream", read(_captured([], TextDelta("Yes."), odd))), "fail")
    assert list(failed) == ["union.part"]


@pytest.mark.parametrize("data", [b"", b"\n\n", b": only a comment\n\n", b'{"type": "x"}\nnot json\n'])
def test_what_holds_no_events_is_no_capture(data: bytes) -> None:
    with pytest.raises(NotACapture):
        read(data)


def _bytes(mutation: Mutation) -> bytes:
    tape = Tape(mutation.of(), mutation.transport)
    mutation.change(tape)
    if mutation.renumber:
        tape.renumber()
    frames = (
        (b"" if name is None else f"event: {name}\n".encode())
        + b"data: "
        + (b"[DONE]" if data == END else json.dumps(data).encode())
        + b"\n\n"
        for name, data in tape.frames
    )
    return b"".join(frames)


@pytest.mark.parametrize("rule", [rule for rule in RULES if "websocket" not in rule])
def test_every_rule_of_the_auditor_can_fail_on_a_capture(rule: str) -> None:
    found = []
    for mutation in MUTATIONS:
        if mutation.rule == rule and mutation.transport == "sse" and mutation.name != "an_empty_stream":
            found.append(rule in told(audit_capture("x", read(_bytes(mutation), "sse")), "fail"))
    assert any(found)


def test_a_capture_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.sse").write_bytes(GOOD)
    (tmp_path / "bad.sse").write_bytes(GOOD.removesuffix(DONE))
    (tmp_path / "good.jsonl").write_bytes(LINES)
    assert main(["comply", "--capture", str(tmp_path / "good.sse")]) == 0
    assert main(["comply", "--capture", str(tmp_path / "good.jsonl")]) == 0
    capsys.readouterr()
    assert main(["comply", "--capture", str(tmp_path / "bad.sse")]) == 1
    assert "✗ done.required" in capsys.readouterr().out
    assert main(["comply", "--capture", str(tmp_path / "none.sse")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_stream_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def pipe(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    pipe(GOOD)
    assert main(["audit", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["subject"] == "standard input"
    pipe(GOOD.replace(b"event: response.completed", b"event: done"))
    assert main(["audit", "--html", str(tmp_path / "page.html"), "--junit", str(tmp_path / "x.xml")]) == 1
    assert "sse.event_matches_type" in (tmp_path / "page.html").read_text(encoding="utf-8")
    pipe(b"")
    assert main(["audit"]) == 2
