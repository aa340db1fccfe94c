"""Calls that the grammar makes of a model's words, told as the tools that the client declared."""

import json
from typing import Any

import pytest

from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.llama import CallStream
from antiphon.providers.tools import flatten
from tests.providers.chat import wire
from tests.providers.compose import compose, make_turn, plain
from tests.providers.conformance import scenarios


def answered(tool: dict[str, Any], *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """The output when the model writes these calls; every character comes as a chunk of its own."""
    names = flatten(make_turn({"input": "Go.", "tools": [tool]}), "local")
    reader = CallStream(ChatStream(names), names, "Go.")
    words = json.dumps(list(calls))
    deltas = [reader.feed(piece) for piece in (*(wire.text(letter) for letter in words), wire.finish())]
    output: list[dict[str, Any]] = plain(compose([*deltas, reader.end()]))["output"]
    return output


@pytest.mark.parametrize("query", ["SELECT 1", 'SELECT "naïve"\nFROM t', ""])
def test_a_call_of_a_custom_tool_is_a_custom_tool_call(query: str) -> None:
    [call] = answered(scenarios.SQL, {"name": "run_sql", "arguments": {"input": query}})
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "run_sql", query)


def test_a_call_of_a_function_keeps_its_arguments() -> None:
    [call] = answered(scenarios.WEATHER, {"name": "get_weather", "arguments": {"city": "Paris"}})
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert json.loads(call["arguments"]) == {"city": "Paris"}


def test_a_call_of_a_namespace_leads_back_to_it() -> None:
    [call] = answered(scenarios.GIT, {"name": "mcp__git__log", "arguments": {}})
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "mcp__git", "log")
