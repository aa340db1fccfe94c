"""Which function a message asks for: the real model on plain cases, and the bookkeeping around it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.embedded.tool_choice import choose
from tests.embedded.processes import Running


def function(name: str, description: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(name=name, description=description, parameters={})


WEATHER = function("get_weather", "Get the current weather for a location.")
FLIGHTS = function("search_flights", "Search for flights between two airports. Returns a list.")
FILES = function("read_file", "Read the contents of a file from disk")


class Scored:
    """A server for which a message is as likely as its reason says it is."""

    def __init__(self, likely: dict[str, float]) -> None:
        self.likely = likely
        self.asked: list[list[str]] = []

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/tokenize":
            return {"tokens": list(range(len(body["content"])))}
        assert path == "/completion"
        self.asked.append(body["prompt"])
        length = body["n_predict"]
        assert body["grammar"].count("<[") == length
        answers = []
        for index, prompt in enumerate(body["prompt"]):
            score = max((score for word, score in self.likely.items() if word in prompt), default=-100.0)
            token = {"logprob": score / length}
            answers.append({"index": index, "completion_probabilities": [token] * length})
        return answers[::-1]


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("What's the weather like in San Francisco?", "get_weather"),
        ("Is it raining in Tokyo right now?", "get_weather"),
        ("What is 2+2?", None),
        ("Tell me a joke.", None),
    ],
)
async def test_the_model_tells_whether_a_function_is_wanted(
    child: Running, message: str, name: str | None
) -> None:
    chosen = await choose(_post(child), [WEATHER], message)
    assert (chosen and chosen.name) == name


async def test_the_model_tells_which_function_is_wanted(child: Running) -> None:
    tools = [FILES, WEATHER, FLIGHTS]
    flights = await choose(_post(child), tools, "Find me a flight from Rome to London.")
    file = await choose(_post(child), tools, "Show me the contents of main.py.", must=True)
    assert (flights, file) == (FLIGHTS, FILES)


async def test_what_needs_no_model_asks_none() -> None:
    server = Scored({})
    nothing: list[SimpleNamespace] = []
    assert await choose(server.post, nothing, "Hello") is None
    assert await choose(server.post, nothing, "Hello", must=True) is None
    assert await choose(server.post, [WEATHER], "Hello", must=True) is WEATHER
    assert await choose(server.post, [WEATHER], "  ") is None
    assert await choose(server.post, [WEATHER, FILES], "", must=True) is WEATHER
    assert server.asked == []


async def test_functions_compete_with_conversation() -> None:
    server = Scored({"read the contents": -10.0, "weather": -20.0, "chat": -10.5})
    assert await choose(server.post, [WEATHER, FILES], "abc") is FILES
    assert server.asked[0][:2] == [
        'The user wants the assistant to get the current weather for a location. The user says: "',
        'The user wants the assistant to read the contents of a file from disk. The user says: "',
    ]
    server.likely["chat"] = -9.0
    assert await choose(server.post, [WEATHER, FILES], "abc") is None
    assert await choose(server.post, [WEATHER, FILES], "abc", must=True) is FILES


async def test_functions_that_do_not_fit_make_none_likelier() -> None:
    """Twenty functions that are all a little less likely than conversation do not add up to a call."""
    server = Scored({"chat": -10.0, "general knowledge": -10.0, "write something": -10.0, "thing": -10.5})
    assert await choose(server.post, [function(f"thing {n}") for n in range(8)], "abc") is None


@pytest.mark.parametrize("count", [1, 7, 8, 9, 20, 70])
async def test_among_many_functions_the_one_is_found(count: int) -> None:
    tools = [function(f"do_thing-{n}_x") for n in range(count)]
    for wanted in (tools[0], tools[count // 2], tools[-1]):
        server = Scored({f"do thing {tools.index(wanted)} x": -5.0, "chat": -20.0})
        assert await choose(server.post, tools, "abc") is wanted
        assert all(len(asked) <= 8 + 3 for asked in server.asked)
        assert len(server.asked) <= 3


async def test_names_stand_in_for_descriptions_and_acronyms_stay() -> None:
    server = Scored({})
    tools = [
        function("get_current-time"),
        function("q", "SQL query.\nRuns it. Then more."),
        function("z", "Y" * 999),
    ]
    await choose(server.post, tools, "abc", must=True)
    reasons = [prompt.removesuffix('. The user says: "') for prompt in server.asked[0]]
    assert reasons[0] == "The user wants the assistant to get current time"
    assert reasons[1] == "The user wants the assistant to SQL query"
    assert len(reasons[2]) < 250


def _post(child: Running) -> Any:
    async def post(path: str, body: dict[str, Any]) -> Any:
        answer = await asyncio.to_thread(child.post, path, body)
        return answer.raise_for_status().json()

    return post
