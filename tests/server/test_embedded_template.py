"""An embedded model whose own chat template takes tools and has a switch for thinking.

The weights are the default model's, which was trained for neither, so what it says is of no interest: what
is tested is the way there and back. It can repeat, so it is given what to say.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.embedded import weights
from tests.embedded.templates import TOOLS_AND_THINKING, with_template
from tests.server.servers import Client, Serving, configure

pytestmark = pytest.mark.embedded

Json = dict[str, Any]
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("template")
    model = with_template(weights.pull(), folder / "tools.gguf", TOOLS_AND_THINKING)
    config = configure(
        folder, LOCAL__ENABLED="true", LOCAL__MODEL=str(model), LOCAL__SLOTS="1", LOCAL__CONTEXT="1024"
    )
    with Serving(config) as serving:
        yield serving
    model.unlink()


@pytest.fixture
def client(server: Serving) -> Client:
    client = server.client(X_Antiphon_Receipts="1")
    client.timeout = 120
    return client


def said(role: str, text: str) -> Json:
    return {"role": role, "content": text}


def kinds(response: Json) -> list[str]:
    return [item["type"] for item in response["output"]]


def test_a_call_is_made_by_the_models_own_template(client: Client) -> None:
    response = client.create(
        input=[said("user", f"Repeat after me: {CALL}")],
        tools=[WEATHER],
        reasoning={"effort": "none"},
        temperature=0,
        max_output_tokens=80,
    )
    assert kinds(response) == ["function_call"]
    assert response["output"][0]["name"] == "get_weather"
    assert response["output"][0]["arguments"] == '{"city": "Oslo"}'
    assert response["status"] == "completed"


def test_its_output_goes_back_by_the_template_and_is_counted(client: Client) -> None:
    turns = [
        said("user", "What is the weather in Oslo?"),
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": '{"city": "Oslo"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "rain, 12 degrees"},
    ]
    response = client.create(input=turns, tools=[WEATHER], max_output_tokens=16)
    body = {"input": turns, "tools": [WEATHER]}
    counted = client.ok("POST", "/v1/responses/input_tokens", json=body)
    assert counted["input_tokens"] == response["usage"]["input_tokens"]
    without = client.ok("POST", "/v1/responses/input_tokens", json={"input": turns})
    assert without["input_tokens"] < counted["input_tokens"]


def test_a_call_that_must_be_made_is_held_to_by_the_grammar(client: Client) -> None:
    response = client.create(
        input="What is the weather in Paris?",
        tools=[WEATHER],
        tool_choice="required",
        reasoning={"effort": "none"},
        temperature=0,
        max_output_tokens=80,
    )
    assert set(kinds(response)) == {"function_call"}


def test_thoughts_are_a_reasoning_item(client: Client) -> None:
    asked = {"input": "Say hello.", "temperature": 0, "max_output_tokens": 16}
    thinking = client.create(**asked)
    assert kinds(thinking)[0] == "reasoning"
    assert thinking["output"][0]["content"][0]["type"] == "reasoning_text"
    assert thinking["output"][0]["content"][0]["text"]


def test_the_effort_none_turns_thinking_off(client: Client) -> None:
    response = client.create(input="Say hello.", reasoning={"effort": "none"}, max_output_tokens=16)
    assert kinds(response) == ["message"]


def test_another_model_is_left_as_it_was_made(client: Client) -> None:
    response = client.create(input="Say hello.", max_output_tokens=16)
    assert (response["temperature"], response["top_p"]) == (0.6, 0.95)
    assert response["usage"]["input_tokens"] < 20
