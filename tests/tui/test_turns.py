"""A turn from the message to the end of its answer, whatever that end is."""

import json
from typing import Any

import pytest

from antiphon.spec.codec import Opaque
from antiphon.stream.deltas import AnyDelta, Finish, ItemDelta
from antiphon.tui.approval import ApprovalPrompt
from antiphon.tui.entries import CallEntry, ReasoningEntry
from antiphon.tui.turns import Draft
from tests.client.scripted_server import Player, composed, error, events, say, streamed
from tests.providers.fake_server import Received, Wire
from tests.tui.conftest import Start, scenes, script


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def only_responses(answer: Wire) -> Any:
    """A server that has nothing but `/responses`."""

    def reply(received: Received) -> Wire:
        return answer if received.path.endswith("/responses") else error(404, "not_found")

    return reply


async def test_an_answer_with_reasoning_markdown_and_sources(chat: Start) -> None:
    page = {"type": "url_citation", "url": "https://x.y", "title": "A page", "start_index": 0, "end_index": 2}
    steps: list[dict[str, Any]] = [
        {"reasoning": "First I think.", "chunk": 4},
        {"text": "It is **so**:\n\n- one\n- two\n", "chunk": 3},
        {"annotation": page},
    ]
    async with chat(system=script(*steps)) as chatting:
        text = await chatting.say("How is it?")
        assert "▎ How is it?" in text
        assert "Thought for" in text
        assert "First I think." not in text
        assert "  It is so:\n\n  • one\n  • two" in text
        assert "A page https://x.y" in text
        await chatting.press("tab")
        entry = next(one for one in chatting.app.transcript.entries if isinstance(one, ReasoningEntry))
        while chatting.app.transcript.chosen_entry is not entry:
            await chatting.press("up")
        await chatting.press("enter")
        assert "First I think." in chatting.text


async def test_what_went_wrong_is_told_with_its_code_and_what_to_do(chat: Start) -> None:
    async with chat() as chatting:
        settings = chatting.app.settings
        settings.system = script({"refusal": "I will not do that."})
        assert "The model refused\n  │ I will not do that." in await chatting.say("one")
        settings.system = script({"text": "A beginning"}, {"finish": "length"})
        text = await chatting.say("two")
        assert "The answer reached its limit of tokens · max_output_tokens" in text
        settings.system = script({"text": "Half"}, {"error": {"message": "boom", "code": "broken"}})
        text = await chatting.say("three")
        assert "The response failed · broken" in text
        assert "boom" in text
        assert "/retry asks again." in text
        settings.system = script({"error": {"status": 400, "type": "invalid_request", "code": "odd"}})
        assert "The server refused with 400 · odd" in await chatting.say("four")
        settings.system = script({"text": "Good again."})
        assert "Good again." in await chatting.say("five")


async def test_a_stream_that_is_cut_leaves_a_transcript_to_go_on_with(chat: Start) -> None:
    pieces = composed(say("Half an ", "answer"))[1][:5]
    async with (
        Player(only_responses(events([b"".join(pieces)], framing="close"))) as server,
        chat(base_url=server.base_url) as chatting,
    ):
        text = await chatting.say("Hi")
        assert "Half an" in text
        assert "The answer broke off" in text
        assert "/retry asks again." in text
        server._replies[0] = only_responses(events([b"".join(composed(say("Whole now."))[1])]))
        text = await chatting.say("/retry")
        assert "Whole now." in text
        assert "Half an" not in text


async def test_escape_stops_the_answer_upstream_and_the_chat_goes_on(chat: Start) -> None:
    async with chat(system=script({"text": "Endless. ", "times": 2000, "delay": 0.02})) as chatting:
        await chatting.send("Go on for ever")
        await chatting.until(lambda: "Endless." in chatting.text)
        await chatting.press("escape")
        await chatting.settle()
        assert "Stopped" in chatting.text
        chatting.app.settings.system = script({"echo": True})
        text = await chatting.say("And now?")
        assert text.rstrip().endswith("And now?")
        asked = chatting.app.talk.recordings[-1].request
        assert "Go on for ever" in json.dumps(asked)
        assert "Endless." in json.dumps(asked)
        assert chatting.app.talk.chat is not None
        nodes = await chatting.app.talk.book.nodes(chatting.app.talk.chat.id)
        assert "in_progress" not in [node.status for node in nodes]


async def test_a_message_waits_for_the_answer_before_it(chat: Start) -> None:
    async with chat(system=script({"text": "An answer."})) as chatting:
        turns = chatting.app.turns
        turns.send(Draft("first"))
        turns.send(Draft("second"))
        assert [draft.text for draft in turns.queue] == ["second"]
        assert chatting.app.query_one("#queue").has_class("shown")
        await chatting.until(lambda: not turns.queue)
        await chatting.settle()
        text = chatting.text
        assert text.index("▎ first") < text.index("An answer.") < text.index("▎ second")
        chatting.app.settings.system = script({"text": "Endless. ", "times": 2000, "delay": 0.02})
        turns.send(Draft("third"))
        await chatting.send("fourth")
        await chatting.press("escape")
        await chatting.settle()
        assert turns.queue == []
        assert chatting.composer.text == "fourth"


async def test_a_tool_runs_after_a_yes_and_then_always(chat: Start) -> None:
    told = scenes(
        {"when": {"last": "function_call_output"}, "steps": [{"text": "It is five."}]},
        {"steps": [{"call": "add", "arguments": '{"a": 2, "b": 3}', "chunk": 4}]},
    )
    async with chat(system=told, tools=(add,), size=(80, 40)) as chatting:
        approval = chatting.app.query_one(ApprovalPrompt)
        for question, key in (("Add them", "y"), ("Again", "n"), ("And again", "a")):
            await chatting.send(question)
            await chatting.until(lambda: approval.has_class("shown"))
            await chatting.press(key)
            await chatting.settle()
        entries = [one for one in chatting.app.transcript.entries if isinstance(one, CallEntry)]
        assert [entry.state for entry in entries] == ["done", "denied", "done"]
        assert '│ {"a": 2, "b": 3}\n    │ 5' in chatting.text
        await chatting.say("Once more")
        assert not approval.has_class("shown")
        assert chatting.text.count("It is five.") == 4


async def test_what_is_being_written_when_a_tool_asks_is_no_answer(
    chat: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = scenes(
        {"when": {"last": "function_call_output"}, "steps": [{"text": "It is five."}]},
        {"steps": [{"call": "add", "arguments": {"a": 2, "b": 3}}]},
    )
    monkeypatch.setattr(ApprovalPrompt, "PAUSE", 60.0)
    async with chat(system=told, tools=(add,)) as chatting:
        approval = chatting.app.query_one(ApprovalPrompt)
        await chatting.send("Add them")
        await chatting.until(lambda: approval.has_class("shown"))
        await chatting.press(*"any")
        assert approval.is_asking
        monkeypatch.setattr(ApprovalPrompt, "PAUSE", 0.0)
        await chatting.press("n")
        await chatting.settle()
        entries = [one for one in chatting.app.transcript.entries if isinstance(one, CallEntry)]
        assert [entry.state for entry in entries] == ["denied"]


async def test_a_call_of_an_mcp_server_that_asks_is_answered(chat: Start) -> None:
    request = Opaque.make(
        type="mcp_approval_request",
        id="mcpr_1",
        name="remove",
        arguments='{"path": "x"}',
        server_label="files",
    )

    def reply(received: Received) -> Wire:
        if not received.path.endswith("/responses"):
            return error(404, "not_found")
        if received.body["input"][-1]["type"] == "mcp_approval_response":
            return streamed("Removed.")
        return events([b"".join(composed([ItemDelta(request), Finish()])[1])])

    async with Player(reply) as server, chat(base_url=server.base_url) as chatting:
        approval = chatting.app.query_one(ApprovalPrompt)
        await chatting.send("Remove x")
        await chatting.until(lambda: approval.has_class("shown"))
        await chatting.press("y")
        await chatting.settle()
        assert "remove on files asks for approval" in chatting.text
        assert "Removed." in chatting.text
        assert server.body["input"] == [
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
        ]


OBEYED = ("\x1b", "\x07", "\x9b")


async def test_nothing_that_a_terminal_obeys_gets_through(chat: Start) -> None:
    bad = "\x1b]52;c;aGk=\x07 \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b[31mred \x9b2J"
    steps: list[dict[str, Any]] = [{"reasoning": bad}, {"text": f"{bad}\n```{bad}\n{bad}\n```"}]
    told = scenes(
        {"when": {"last": "function_call_output"}, "steps": steps},
        {"steps": [{"call": "add", "arguments": json.dumps({"a": bad, "b": bad})}]},
    )
    async with chat(system=told, tools=(add,)) as chatting:
        shown: list[str] = []

        def look() -> None:
            compositor = chatting.app.screen._compositor
            shown.extend(strip.text for strip in compositor.render_strips(chatting.app.size))

        await chatting.send(f"Title {bad}")
        await chatting.until(lambda: chatting.app.query_one(ApprovalPrompt).has_class("shown"))
        look()
        await chatting.press("y")
        await chatting.settle()
        look()
        await chatting.press("f12")
        await chatting.pilot.pause(0.2)
        await chatting.press("home")
        look()
        await chatting.press("f12", "ctrl+o")
        await chatting.until(lambda: len(chatting.app.screen_stack) > 1)
        await chatting.pilot.pause(0.1)
        look()
        text = chatting.text + "".join(shown)
        assert not any(sign in text for sign in OBEYED)
        assert "link" in text


async def test_what_a_server_does_by_itself_is_told_in_a_line(chat: Start) -> None:
    call = {"type": "mcp_call", "name": "read", "server_label": "files", "arguments": '{"a": 1}'}
    made: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"type": "web_search_call", "action": {"type": "search", "query": "antiphons"}}, {}),
        (call, {"output": "the text"}),
        (call, {"error": "gone"}),
        ({"type": "image_generation_call", "revised_prompt": "a choir", "result": "QUJD"}, {}),
    ]
    deltas: list[AnyDelta] = []
    for n, (fields, end) in enumerate(made):
        named = fields | {"id": f"it_{n}"}
        deltas.append(ItemDelta(Opaque.make(**named, status="in_progress"), key=n))
        deltas.append(ItemDelta(Opaque.make(**named, **end, status="completed"), key=n))
    stream = events([b"".join(composed([*deltas, Finish()])[1])])
    async with (
        Player(only_responses(stream)) as server,
        chat(base_url=server.base_url, size=(80, 40)) as chatting,
    ):
        text = await chatting.say("Look around")
        assert "Web search · antiphons" in text
        assert "● read on files" in text
        assert "│ the text" in text
        assert "✗ read on files" in text
        assert "Image · a choir (3 bytes)" in text
