"""What the model is told about tools, and the grammar that it is held to: with the real model at the end."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from antiphon.embedded.tool_prompt import (
    build_answer_messages,
    build_call_messages,
    last_question,
    tool_prompt,
    tool_schema,
)
from antiphon.embedded.tool_text import CallArguments, CallEnd, CallStart, ToolTextParser
from tests.embedded.processes import Running


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    description: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


WEATHER = Function(
    "get_weather",
    "Get the current weather for a location",
    {
        "type": "object",
        "properties": {"location": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["location"],
        "additionalProperties": False,
    },
)
MOVE = Function(
    "move",
    "Move a piece",
    {
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/Square"}},
        "required": ["to"],
        "additionalProperties": False,
        "$defs": {
            "Square": {
                "type": "object",
                "properties": {"row": {"type": "integer", "minimum": 1, "maximum": 8}},
                "required": ["row"],
                "additionalProperties": False,
            }
        },
    },
)
PING = Function("ping")

PARIS = {"name": "get_weather", "arguments": {"location": "Paris"}}
ROW = {"name": "move", "arguments": {"to": {"row": 3}}}


@pytest.mark.parametrize(
    ("tools", "call", "fits"),
    [
        ([WEATHER], PARIS, True),
        ([WEATHER], ROW, False),
        ([WEATHER, MOVE], ROW, True),
        ([WEATHER, MOVE, PING], {"name": "ping", "arguments": {}}, True),
        ([WEATHER, MOVE], {"name": "move", "arguments": {"to": {"row": 9}}}, False),
        ([WEATHER, MOVE], {"name": "get_weather", "arguments": {}}, False),
        ([WEATHER], {**PARIS, "more": 1}, False),
        ([PING], {"name": "ping", "arguments": "text"}, False),
    ],
)
def test_the_schema_takes_exactly_the_calls(tools: list[Function], call: Any, fits: bool) -> None:
    one = Draft202012Validator(tool_schema(tools))
    several = Draft202012Validator(tool_schema(tools, parallel=True, most=2))
    assert one.is_valid(call) is fits
    assert several.is_valid([call]) is fits
    assert several.is_valid([call, call]) is fits
    assert not several.is_valid([call] * 3)
    assert not several.is_valid([])


def test_the_prompt_has_each_function_on_a_line() -> None:
    lines = tool_prompt([WEATHER, PING]).splitlines()
    assert [json.loads(line)["name"] for line in lines[1:3]] == ["get_weather", "ping"]


def test_the_prompt_joins_the_instructions() -> None:
    question = {"role": "user", "content": "Weather in Rome?"}
    alone = build_call_messages([question], [WEATHER])
    assert alone == [{"role": "system", "content": tool_prompt([WEATHER])}, question]
    first, *rest = build_call_messages([{"role": "system", "content": "Be brief."}, question], [WEATHER])
    assert first["content"] == f"Be brief.\n\n{tool_prompt([WEATHER])}"
    assert rest == [question]


def call(number: int, city: str) -> dict[str, Any]:
    arguments = json.dumps({"location": city})
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "get_weather", "arguments": arguments},
    }


def test_calls_and_outputs_become_words() -> None:
    history: list[dict[str, Any]] = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Weather in"}, {"type": "text", "text": "Rome?"}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call(1, "Rome")]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    told = build_answer_messages(history)
    assert told[0] == history[0]
    assert told[1:] == [
        {"role": "assistant", "content": 'I called get_weather with {"location": "Rome"}.'},
        {
            "role": "user",
            "content": "The result of get_weather is: sunny\n"
            "With this result, answer my question: Weather in\nRome?",
        },
    ]
    later = [*history, {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "Thanks"}]
    assert [message["content"] for message in build_answer_messages(later)[2:]] == [
        "The result of get_weather is: sunny",
        "Sunny.",
        "Thanks",
    ]
    assert last_question(later) == "Thanks"
    assert last_question([]) == ""


def test_several_outputs_are_told_apart() -> None:
    calls = [call(1, "Rome"), call(2, "Oslo")]
    told = build_call_messages(
        [
            {"role": "user", "content": "Rome and Oslo?"},
            {"role": "assistant", "content": "Let me see.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": "snow"},
            {"role": "tool", "tool_call_id": "lost", "content": "fog"},
        ],
        [WEATHER],
    )
    assert told[2]["content"].startswith("Let me see.\nI called get_weather")
    assert told[3:] == [
        {
            "role": "user",
            "content": 'The result of get_weather {"location": "Rome"} is: sunny\n'
            'The result of get_weather {"location": "Oslo"} is: snow\n'
            "The result of the function is: fog",
        }
    ]


def test_the_model_makes_the_call(child: Running) -> None:
    question = "What's the weather like in Paris?"
    answer = child.chat(
        {
            "messages": build_call_messages([{"role": "user", "content": question}], [WEATHER]),
            "max_tokens": 60,
            "response_format": {"type": "json_schema", "json_schema": {"schema": tool_schema([WEATHER])}},
        }
    )
    begun, arguments, ended = ToolTextParser(question).feed(answer.text)
    assert begun == CallStart("get_weather")
    assert isinstance(arguments, CallArguments)
    assert json.loads(arguments.text)["location"] == "Paris"
    assert ended == CallEnd()


@pytest.mark.parametrize("parallel", [False, True])
def test_the_model_takes_schemas_with_references(child: Running, parallel: bool) -> None:
    schema = tool_schema([MOVE, PING], parallel=parallel, most=2)
    answer = child.chat(
        {
            "messages": build_call_messages([{"role": "user", "content": "Move to row three"}], [MOVE, PING]),
            "max_tokens": 120,
            "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
        }
    )
    Draft202012Validator(schema).validate(json.loads(answer.text))
