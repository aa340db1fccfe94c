"""Items of words under a key: they grow side by side and close in the order in which they opened."""

from antiphon.spec.codec import to_builtins
from antiphon.spec.errors import model_error
from antiphon.spec.response import Response
from antiphon.stream.auditor import audit
from antiphon.stream.deltas import Failure, Finish, ItemEnd, PartEnd, TextDelta, Words, WordsStart
from tests.stream.composed import compose, types


def texts(response: Response) -> list[tuple[str, list[str]]]:
    """The status of each item, and the texts of its parts."""
    items = to_builtins(response.output)
    return [(item["status"], [part["text"] for part in item["content"]]) for item in items]


def test_an_item_and_its_part_are_there_before_the_first_word() -> None:
    events, response = compose(WordsStart("a"), Finish())
    assert types(events)[2:4] == ["output_item.added", "content_part.added"]
    assert types(events)[4:7] == ["output_text.done", "content_part.done", "output_item.done"]
    assert audit(events) == []
    assert texts(response) == [("completed", [""])]


def test_two_items_grow_side_by_side() -> None:
    events, response = compose(
        WordsStart("a"),
        WordsStart("b", "reasoning"),
        Words("a", "one "),
        Words("b", "hm"),
        Words("a", "two"),
        ItemEnd("b"),
        ItemEnd("a"),
        Words("a", "nobody hears this"),
        Finish(),
    )
    assert audit(events) == []
    assert texts(response) == [("completed", ["one two"]), ("completed", ["hm"])]


def test_the_end_of_a_part_begins_another_in_the_same_item() -> None:
    events, response = compose(
        WordsStart("a"), Words("a", "draft"), PartEnd("a"), Words("a", "final"), Finish()
    )
    assert audit(events) == []
    assert texts(response) == [("completed", ["draft", "final"])]


def test_the_same_key_again_is_another_item() -> None:
    events, response = compose(
        WordsStart("a"), Words("a", "one"), WordsStart("a"), Words("a", "two"), Finish()
    )
    assert audit(events) == []
    assert texts(response) == [("completed", ["one"]), ("completed", ["two"])]


def test_words_without_a_key_go_their_own_way() -> None:
    events, response = compose(WordsStart("a"), TextDelta("free"), Words("a", "keyed"), Finish())
    assert audit(events) == []
    assert texts(response) == [("completed", ["keyed"]), ("completed", ["free"])]


def test_a_failure_leaves_what_was_open_incomplete() -> None:
    events, response = compose(
        WordsStart("a"), ItemEnd("a"), WordsStart("b"), Words("b", "x"), Failure(model_error("it broke"))
    )
    assert audit(events) == []
    assert texts(response) == [("completed", [""]), ("incomplete", ["x"])]


def test_what_a_client_must_not_see_is_not_opened() -> None:
    events, response = compose(
        WordsStart("a", "reasoning"), Words("a", "hm"), Finish(), shows=lambda kind: None
    )
    assert types(events) == ["created", "in_progress", "completed"]
    assert response.output == []
