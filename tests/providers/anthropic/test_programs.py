"""Calls that a program of the model makes, its container, and blocks of unknown kinds."""

from tests.providers.anthropic import wire
from tests.providers.anthropic.reading import blobs, read, response, whole
from tests.providers.compose import compose, plain, told

PROGRAM = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}, "caller": PROGRAM}
BOX = {"id": "container_1", "expires_at": "2025-12-20T05:33:56.857745Z"}


def test_calls_that_a_program_made_before_the_stream_began() -> None:
    """Such a stream is its first event and its last."""
    begun = wire.start(content=[CALLED], stop_reason="tool_use", container=BOX)
    made = response(begun, wire.event("message_stop"))
    assert told(made)[-1] == ("f", '{"x": 1}', "toolu_1")
    assert blobs(made) == [
        {"type": "antiphon_container", **BOX},
        {"type": "antiphon_caller", "id": "toolu_1", "caller": PROGRAM},
    ]
    assert blobs(whole(CALLED, reason="tool_use", fields={"container": BOX})) == blobs(made)


def test_a_container_that_is_named_at_the_end() -> None:
    ending = wire.event(
        "message_delta", delta={"stop_reason": "end_turn", "container": BOX}, usage={"output_tokens": 2}
    )
    made = response(wire.start(), wire.text(0, "Hi"), ending, wire.event("message_stop"))
    assert blobs(made) == [{"type": "antiphon_container", **BOX}]


def test_a_call_that_the_model_made_itself_has_nothing_to_keep() -> None:
    direct = {**CALLED, "caller": {"type": "direct"}}
    assert blobs(whole(direct, reason="tool_use")) == []


def test_a_block_of_an_unknown_kind_is_whole_whatever_its_pieces_are_called() -> None:
    pieces = [
        wire.begin(0, {"type": "compaction", "content": None}),
        wire.delta(0, "compaction_delta", content="So "),
        wire.delta(0, "compaction_delta", content="far."),
        wire.end(0),
    ]
    made = compose([read(wire.start(), *pieces, wire.finish())])
    [item] = plain(made)["output"]
    assert (item["type"], item["data"]) == (
        "anthropic:compaction",
        {"type": "compaction", "content": "So far."},
    )


def test_the_input_of_a_hosted_call_that_cannot_be_read_costs_nothing_else() -> None:
    notes: list[str] = []
    pieces = [
        wire.begin(0, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
        wire.delta(0, "input_json_delta", partial_json='{"que'),
        wire.end(0),
        wire.text(1, "Hi"),
    ]
    deltas = read(wire.start(), *pieces, wire.finish(), note=lambda param, why: notes.append(why))
    made = compose([deltas])
    assert (made.status, told(made)[-1]) == ("completed", "Hi")
    assert "cannot be read" in notes[0]
