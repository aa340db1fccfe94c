"""`Agent(output=...)`: the answer as a value, and what there is when it is none."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from antiphon.client import Agent, Incomplete, Limits, Mismatch, NoAnswer, Refused, ResponseFailed, UsageError
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.request import Request, TextParam
from antiphon.spec.tools import JsonSchemaFormat
from antiphon.stream.deltas import Failure, Finish, MessageStart, RefusalDelta, TextDelta
from tests.client.scripted_model import ScriptedModel, call, get_weather, say


class Place(msgspec.Struct):
    city: str
    degrees: int


@dataclass
class Point:
    city: str
    degrees: int


class Spot(pydantic.BaseModel):
    city: str
    degrees: int


ANSWER = '{"city": "Paris", "degrees": 18}'


@pytest.mark.parametrize("kind", [Place, Point, Spot])
async def test_the_answer_is_a_value_after_as_many_calls_as_it_takes(kind: type[Any]) -> None:
    model = ScriptedModel([*call("get_weather", '{"city":"Paris"}'), Finish()], say(ANSWER))
    result = await Agent(tools=[get_weather], output=kind, client=model).run("Where is it warm?")
    assert result.output == kind(city="Paris", degrees=18)
    assert result.output is result.output
    assert result.text == ANSWER
    for request in model.requests:
        assert request.text is not None
        assert isinstance(request.text.format, JsonSchemaFormat)
        assert (request.text.format.name, request.text.format.strict) == (kind.__name__, True)


async def test_what_else_is_said_of_the_text_stays() -> None:
    model = ScriptedModel(say(ANSWER))
    base = Request(text=TextParam(verbosity="low"))
    await Agent(output=Place, client=model, request=base).run("Q")
    text = model.requests[0].text
    assert text is not None
    assert text.verbosity == "low"
    assert isinstance(text.format, JsonSchemaFormat)


async def test_without_a_type_it_is_the_text() -> None:
    for agent in (
        Agent(client=ScriptedModel(say("Hello."))),
        Agent(output=str, client=ScriptedModel(say("Hi."))),
    ):
        result = await agent.run("Q")
        assert result.output == result.text != ""


async def test_commentary_is_no_part_of_the_value() -> None:
    model = ScriptedModel(
        [MessageStart("commentary"), TextDelta("Let me see."), MessageStart("final_answer"), *say(ANSWER)]
    )
    result = await Agent(output=Place, client=model).run("Q")
    assert result.output == Place("Paris", 18)


@pytest.mark.parametrize(
    ("scene", "error"),
    [
        (say('{"city": "Paris"}'), Mismatch),
        ([RefusalDelta("No."), Finish()], Refused),
        ([TextDelta('{"ci'), Finish("length")], Incomplete),
        ([Failure(ErrorPayload("server_error", "broken"))], ResponseFailed),
    ],
)
async def test_an_answer_that_is_no_such_value_is_an_error_of_the_output_alone(
    scene: Any, error: type[Exception]
) -> None:
    result = await Agent(output=Place, client=ScriptedModel(scene)).run("Q")
    with pytest.raises(error):
        _ = result.output


@pytest.mark.parametrize("output", [None, Place])
async def test_a_run_without_an_answer_says_why(output: type[Place] | None) -> None:
    model = ScriptedModel([*call("get_weather", '{"city":"Paris"}'), Finish()])
    agent = Agent(tools=[get_weather], output=output, client=model, limits=Limits(steps=1))
    result = await agent.run("Q")
    with pytest.raises(NoAnswer, match=r"the limit of steps was reached; raise `Limits\.steps`") as raised:
        _ = result.output
    assert raised.value.stopped == "steps"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (int, "not an object with named fields"),
        (list[int], "not an object with named fields"),
        ("Place", "the output is a class: .*, and not a str"),
        (Place("Paris", 18), "the output is a class: .*, and not a Place"),
    ],
)
def test_a_type_that_is_no_object_is_refused_at_once(output: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Agent(output=output)
