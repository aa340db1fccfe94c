"""One run, kept encoded in every protocol: what clients get does not change by accident."""

import pytest

from antiphon.stream.auditor import audit
from tests.bridges.golden_run import ENCODERS, EVENTS, FOLDER, encoded, events, made
from tests.bridges.javascript import needs_node, run_node


@pytest.mark.parametrize("name", ENCODERS)
def test_the_golden_run_is_told_as_it_was(name: str) -> None:
    now, then = encoded(ENCODERS[name], events(), 1), (FOLDER / name).read_bytes()
    # Frames have bytes that are no text; the rest is easier to read as such.
    assert now.decode(errors="surrogateescape") == then.decode(errors="surrogateescape")


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("batch", [2, 7, 1000])
def test_it_does_not_matter_how_events_come_together(name: str, batch: int) -> None:
    assert encoded(ENCODERS[name], events(), batch) == (FOLDER / name).read_bytes()


def test_the_golden_run_is_what_the_composer_makes() -> None:
    assert [event.to_json() for event in made()] == EVENTS.read_bytes().splitlines()
    assert audit(events(), extensions=True, solicited={"custom_tool_call"}) == []


def test_every_golden_file_has_an_encoder() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*ENCODERS, EVENTS.name}


@needs_node
@pytest.mark.parametrize("client", ["ai7", "ai6", "ai5"])
def test_the_golden_run_is_read_by_ai_sdk_5_to_7(client: str) -> None:
    message = run_node("ai_golden.mjs", client, str(FOLDER / "ai-sdk-ui.txt"))
    assert [(part["type"], part.get("state")) for part in message["parts"]] == [
        ("step-start", None),
        ("reasoning", "done"),
        ("reasoning", "done"),
        ("reasoning", "done"),
        ("text", "done"),
        ("source-url", None),
        ("tool-get_weather", "output-available"),
        ("tool-get_weather", "input-available"),
        ("tool-patch", "input-available"),
        ("data-acme:search", None),
        ("text", "done"),
        ("text", "done"),
    ]


@needs_node
def test_the_golden_run_is_read_by_ai_sdk_4() -> None:
    message = run_node("ai_golden.mjs", "ai4", str(FOLDER / "ai-sdk-data-v1.txt"))
    assert [part["type"] for part in message["parts"]] == [
        "step-start",
        "reasoning",
        "text",
        "source",
        *["tool-invocation"] * 3,
    ]
    assert message["content"] == "I look at «Paris» \U0001f324.Paris has 18 °C.Not Oslo."
