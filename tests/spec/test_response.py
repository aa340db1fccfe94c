"""What a response says about itself."""

from antiphon.spec.content import InputText, OutputText, Refusal
from antiphon.spec.items import FunctionCall, Message, Reasoning
from antiphon.spec.response import Response


def test_its_words_are_those_of_its_messages_and_no_others() -> None:
    response = Response.new("resp_1", "m", now=1)
    assert response.output_text == ""
    thought = Reasoning(summary=[])
    thought.append_content("hm")
    response.output += [
        thought,
        Message(role="assistant", content=[OutputText("one "), Refusal("never"), OutputText("two ")]),
        FunctionCall(call_id="call_1", name="f", arguments="{}"),
        Message(role="assistant", content="as it came, "),
        Message(role="assistant", content=[InputText("not said"), OutputText("three")]),
    ]
    assert response.output_text == "one two as it came, three"
