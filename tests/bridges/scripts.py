"""What the `script` provider says in the tests of bridges, and a server that has it."""

import json
from typing import Any

TOML = """\
default_model = "demo"
[providers.demo]
type = "script"
[models]
demo = "demo/any"
"smollm2-135m-instruct" = "demo/any"
"""

Json = dict[str, Any]

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CITATION = {
    "type": "url_citation",
    "url": "https://w.example",
    "title": "W",
    "start_index": 0,
    "end_index": 5,
}

EVERYTHING: list[Json] = [
    {"reasoning": "Weather,\nthen. Ünïcode", "chunk": 6},
    {"signature": "proof-1"},
    {"text": "It is «18 °C» \U0001f324.\nBye", "chunk": 5},
    {"annotation": CITATION},
    {"item": {"type": "acme:search", "id": "se_1", "status": "completed", "query": "paris"}},
    {"event": "acme:progress", "fields": {"done": 1}},
    {"usage": {"input_tokens": 11, "output_tokens": 7, "cached_tokens": 2, "reasoning_tokens": 3}},
]
ROUND: list[Json] = [
    {
        "when": {"last": "message"},
        "steps": [
            {"reasoning": "Two cities."},
            {"text": "Let me look."},
            {"call": "get_weather", "arguments": {"city": "Paris"}, "id": "call_paris", "chunk": 4},
            {"call": "get_weather", "arguments": {"city": "Tokyo"}, "id": "call_tokyo"},
        ],
    },
    {"when": {"last": "function_call_output"}, "steps": [{"text": "Paris 18, Tokyo 25.", "chunk": 4}]},
]
FAILURE: list[Json] = [
    {"text": "Once upon"},
    {"error": {"message": "the model is overloaded", "code": "model_overloaded"}},
]
ENDLESS: list[Json] = [{"text": "word ", "chunk": 5, "times": 20000, "delay": 0.005}]


def said(steps: list[Json]) -> str:
    """A prompt that makes the provider say this: steps, or turns with steps."""
    script = {"turns": steps} if "steps" in steps[0] else steps
    return f"```script\n{json.dumps(script)}\n```"
