"""What of a chat is new: nothing that is stored is said twice, and a client that sends all is right."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.bridges.ai_sdk.continuation import HistoryContinuation, continue_history
from antiphon.bridges.ai_sdk.messages import NO_OUTPUT, PlacedItem
from antiphon.spec.codec import Opaque
from antiphon.spec.content import InputText, OutputText, ReasoningText, Refusal
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)


def user(text: str) -> Item:
    return Message(role="user", content=[InputText(text)])


def answer(*texts: str) -> Item:
    return Message(id="msg_1", role="assistant", status="completed", content=[OutputText(t) for t in texts])


def thought(text: str = "hm") -> Item:
    return Reasoning(id="rs_1", summary=[], content=[ReasoningText(text)])


def call(id: str, status: str = "completed") -> FunctionCall:
    return FunctionCall(call_id=id, name="look", arguments="{}", status=status)  # type: ignore[arg-type]


def output(id: str, text: str = "18") -> Item:
    return FunctionCallOutput(call_id=id, output=text, status="incomplete" if text == NO_OUTPUT else None)


def step(
    stored: list[Item], given: list[Item], *, whole: bool = True, again: bool = False
) -> HistoryContinuation:
    said = [PlacedItem(item, f"messages[{n}]") for n, item in enumerate(given)]
    return continue_history(stored, said, is_whole=whole, regenerates=again)


def new(stored: list[Item], given: list[Item], *, whole: bool = True, again: bool = False) -> list[Item]:
    return [one.item for one in step(stored, given, whole=whole, again=again).new]


# --- a client that sends its whole chat -------------------------------------------------------------------


def test_only_the_new_question_is_new() -> None:
    stored = [user("a"), thought(), answer("A")]
    made = step(stored, [user("a"), answer("A"), user("b")])
    assert made.keep == 3
    assert [one.item for one in made.new] == [user("b")]
    assert made.new[0].place == "messages[2]"


def test_where_the_client_differs_it_is_right() -> None:
    stored = [user("a"), answer("A"), user("b"), answer("B")]
    made = step(stored, [user("a"), answer("A"), user("c")])
    assert (made.keep, made.new[0].item) == (2, user("c"))
    assert step(stored, [user("x")]).keep == 0


def test_a_regenerated_answer_is_forgotten_with_its_reasoning() -> None:
    made = step([user("a"), thought(), answer("A")], [user("a")])
    assert (made.keep, made.new) == (1, [])


def test_an_answer_of_several_parts_is_recognised() -> None:
    refused = Message(role="assistant", content=[OutputText("A"), Refusal("B")])
    given = [user("a"), answer("A"), answer("B"), user("c")]
    assert new([user("a"), refused], given) == [user("c")]
    # The client knows only the first half: then the whole answer is the client's.
    assert new([user("a"), refused], [user("a"), answer("A"), user("c")]) == [answer("A"), user("c")]


def test_outputs_are_the_same_however_they_are_spelled() -> None:
    stored = [user("a"), call("c"), output("c", '{"b": 1, "a": 2}'), answer("A")]
    given = [user("a"), call("c"), output("c", '{"a":2,"b":1}'), answer("A"), user("b")]
    assert new(stored, given) == [user("b")]


def test_an_output_that_came_late_takes_the_place_of_none() -> None:
    stored = [user("a"), call("c"), output("c", NO_OUTPUT), answer("A")]
    made = step(stored, [user("a"), call("c"), output("c"), answer("A"), user("b")])
    assert made.keep == 2
    assert [one.item for one in made.new] == [output("c"), answer("A"), user("b")]


def test_vendor_items_and_reasoning_stay_though_no_client_repeats_them() -> None:
    search = Opaque.make(type="acme:search", id="se_1")
    stored = [user("a"), thought(), answer("A"), search]
    made = step(stored, [user("a"), answer("A"), user("b")])
    assert made.keep == 4


# --- a client that sends only what is new -----------------------------------------------------------------


def test_what_is_sent_is_added() -> None:
    stored = [user("hi"), answer("Hello")]
    assert new(stored, [user("b")], whole=False) == [user("b")]
    assert new(stored, [user("hi")], whole=False) == [user("hi")]


def test_what_is_repeated_from_the_end_is_skipped() -> None:
    stored = [user("a"), answer("A"), user("b"), answer("B")]
    assert new(stored, [user("b"), answer("B"), user("c")], whole=False) == [user("c")]
    assert new(stored, [*stored, user("c")], whole=False) == [user("c")]
    assert new([user("a")], [user("a")], whole=False) == []


def test_what_is_repeated_ends_with_an_item() -> None:
    """The longest end that fits may stop in the middle of an answer; then a shorter one counts."""
    stored = [user("a"), answer("A"), answer("B", "A")]
    assert new(stored, [answer("A"), user("c")], whole=False) == [answer("A"), user("c")]
    assert new(stored, [answer("A", "B", "A"), user("c")], whole=False) == [user("c")]
    stored = [user("a"), answer("A", "B"), answer("A")]
    assert new(stored, [answer("A"), user("c")], whole=False) == [user("c")]


def test_a_long_chat_is_looked_through_once() -> None:
    """A search that began anew for each length would compare millions of messages."""
    same = [user("a")] * 3000
    assert new(same, [*same[:-1], user("b")], whole=False) == [user("b")]


def test_a_whole_chat_is_not_doubled_even_when_an_answer_differs() -> None:
    stored = [user("a"), answer("A "), user("b"), answer("B")]
    made = step(stored, [user("a"), answer("A"), user("b"), answer("B"), user("c")], whole=False)
    assert made.keep == 1
    assert len(made.new) == 4


def test_the_output_of_a_call_is_enough() -> None:
    stored = [user("a"), call("c")]
    assert new(stored, [call("c"), output("c")], whole=False) == [output("c")]


def test_another_answer_to_the_last_question() -> None:
    stored = [user("a"), answer("A"), user("b"), thought(), answer("B")]
    made = step(stored, [], whole=False, again=True)
    assert (made.keep, made.new) == (3, [])
    assert step(stored, [user("b")], whole=False, again=True) == made


# --- calls ------------------------------------------------------------------------------------------------


def test_a_call_that_is_never_answered_does_not_end_the_chat() -> None:
    assert new([user("a"), call("c")], [user("b")], whole=False) == [output("c", NO_OUTPUT), user("b")]


def test_a_call_that_was_cut_off_is_forgotten() -> None:
    made = step([user("a"), call("c", "incomplete")], [user("b")], whole=False)
    assert (made.keep, [one.item for one in made.new]) == (1, [user("b")])


def test_the_output_of_a_custom_call_fits_it() -> None:
    custom = CustomToolCall(call_id="c", name="patch", input="x")
    made = new([user("a"), custom], [user("a"), call("c"), output("c")])
    assert made == [CustomToolCallOutput(call_id="c", output="18")]
    missing = CustomToolCallOutput(call_id="c", output=NO_OUTPUT, status="incomplete")
    assert new([custom], [user("b")], whole=False)[0] == missing


# --- laws -------------------------------------------------------------------------------------------------

words = st.sampled_from(["a", "b", "c"])
chats = st.lists(st.builds(user, words) | st.builds(answer, words), max_size=8)


@given(chats, chats)
def test_a_whole_chat_is_what_the_model_is_given(stored: list[Item], given: list[Item]) -> None:
    made = step(stored, given)
    told = [*stored[: made.keep], *(one.item for one in made.new)]
    assert [texts(item) for item in told] == [texts(item) for item in given]


@given(chats, chats, st.booleans())
def test_what_follows_a_whole_chat_is_all_that_is_new(
    stored: list[Item], given: list[Item], whole: bool
) -> None:
    made = step(stored, [*stored, *given], whole=whole)
    assert made.keep == len(stored)
    assert [one.item for one in made.new] == given


def texts(item: Item) -> tuple[str, str]:
    assert isinstance(item, Message)
    return item.role, item.get_text()
