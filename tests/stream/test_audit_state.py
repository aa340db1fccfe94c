"""What the Auditor takes as said: one fault is told once, and what the specification allows is none."""

from collections.abc import Callable
from copy import deepcopy

import pytest

from antiphon.stream.auditor import audit
from tests.stream import streams
from tests.stream.streams import Payload


def broken(stream: list[Payload]) -> list[str]:
    return sorted({violation.rule for violation in audit(stream)})


@pytest.mark.parametrize("of", [streams.text, streams.calls, streams.annotations], ids=lambda of: of.__name__)
@pytest.mark.parametrize("keys", [("output_index",), ("content_index",), ("output_index", "content_index")])
def test_indexes_that_are_missing_everywhere_are_one_fault(
    of: Callable[[], list[Payload]], keys: tuple[str, ...]
) -> None:
    stream = of()
    kept = [{key: value for key, value in event.items() if key not in keys} for event in stream]
    assert broken(kept) == (["keys.required"] if kept != stream else [])


def test_an_annotation_without_an_index_was_announced_all_the_same() -> None:
    stream = streams.annotations()
    for event in stream:
        event.pop("annotation_index", None)
    assert broken(stream) == ["keys.required"]


def test_deltas_may_go_on_from_what_a_part_was_added_with() -> None:
    stream = streams.text()
    deltas = [event for event in stream if event["type"] == "response.output_text.delta"]
    (added,) = [event for event in stream if event["type"] == "response.content_part.added"]
    added["part"]["text"] = deltas[0]["delta"]
    rest = [event for event in stream if event is not deltas[0]]
    for number, event in enumerate(rest):
        event["sequence_number"] = number
    assert broken(rest) == ["part.starts_empty"]
    added["part"]["text"] = "something else"
    assert broken(rest) == ["part.starts_empty", "text.deltas_equal_done"]


def test_a_key_with_null_is_as_good_as_none() -> None:
    stream = [deepcopy(event) for event in streams.text()]
    for item in stream[-1]["response"]["output"]:
        item["acme"] = None
        for part in item["content"]:
            part["acme"] = None
    assert broken(stream) == []
    stream[-1]["response"]["output"][0]["content"][0]["acme"] = 0
    assert broken(stream) == ["response.output_final"]
