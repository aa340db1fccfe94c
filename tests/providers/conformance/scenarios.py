"""The scenarios of the conformance set: what is asked, what the model says, and what must come of it."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.providers.conformance.said import (
    Called,
    Counted,
    Redacted,
    Refused,
    Saying,
    Script,
    Text,
    Thought,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJcOkw7zDtsOfCjEgMCBvYmoKPDwgPj4KZW5kb2JqCg=="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TIME = {
    "type": "function",
    "name": "get_time",
    "parameters": {"type": "object", "properties": {}},
}
SQL = {
    "type": "custom",
    "name": "run_sql",
    "description": "Runs a query.",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "SELECT" /.+/'},
}
GIT = {
    "type": "namespace",
    "name": "mcp__git",
    "description": "A repository.",
    "tools": [{"type": "function", "name": "log", "parameters": {"type": "object", "properties": {}}}],
}
SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string"}},
    "required": ["capital"],
    "additionalProperties": False,
}
PARIS = '{"city": "Paris"}'
TOKYO = '{"city": "Tōkyō 東京"}'
TOOLS: dict[str, Any] = {"input": "What is the weather?", "tools": [WEATHER, TIME]}
THINKING: dict[str, Any] = {"input": "Think.", "reasoning": {"effort": "medium"}}
LARGE = json.dumps({"city": "x" * 200_000})


@dataclass(frozen=True)
class Scenario:
    name: str
    script: Script
    request: dict[str, Any] = field(default_factory=lambda: {"input": "Hi"})
    status: str = "completed"
    why: str | None = None
    """The reason of an incomplete response, or the code of a failed one, if every wire must give the same."""
    sends: tuple[str, ...] = ()
    """Words that must stand in the request which the upstream gets."""
    only_streamed: bool = False
    slice: int = 0
    """The bytes of the answer come in slices of this many."""


def _simple(name: str, *said: Saying, **more: Any) -> Scenario:
    ending = more.pop("ending", "tool_calls" if any(isinstance(one, Called) for one in said) else "stop")
    about = {key: more.pop(key) for key in ("usage", "size", "interleaved") if key in more}
    return Scenario(name, Script(said, ending, **about), **more)


_SAID = Text("Once upon a time")

SCENARIOS = (
    _simple("text", Text("Hello, world."), request={"input": "Hi", "instructions": "Be brief."}),
    _simple("empty text"),
    _simple("unicode", Text("Grüße, 世界 🎼 👩‍👩‍👧 é"), size=1, slice=1),
    _simple("call", Called("get_weather", PARIS), request=TOOLS),
    _simple("call without arguments", Called("get_time"), request=TOOLS),
    _simple(
        "parallel calls",
        Called("get_weather", PARIS, "call_1"),
        Called("get_weather", TOKYO, "call_2"),
        Called("get_time", "{}", "call_3"),
        request=TOOLS,
    ),
    _simple(
        "calls without ids",
        Called("get_weather", PARIS, None),
        Called("get_weather", TOKYO, None),
        request=TOOLS,
    ),
    _simple(
        "interleaved arguments",
        Called("get_weather", PARIS, "call_1"),
        Called("get_weather", TOKYO, "call_2"),
        request=TOOLS,
        interleaved=True,
        only_streamed=True,
    ),
    _simple("large arguments", Called("get_weather", LARGE), request=TOOLS, size=20_000),
    _simple("call after text", Text("Let me look."), Called("get_weather", PARIS), request=TOOLS),
    _simple("reasoning", Thought("Let me think."), Text("Done."), request=THINKING),
    _simple(
        "call after text after reasoning",
        Thought("Where is Paris?"),
        Text("Let me look."),
        Called("get_weather", PARIS),
        request=TOOLS | THINKING,
    ),
    _simple("refusal", Refused("I cannot help with that.")),
    _simple("length", _SAID, ending="length", status="incomplete", why="max_output_tokens"),
    _simple(
        "length in arguments",
        Called("get_weather", '{"city": "Par'),
        ending="length",
        request=TOOLS,
        status="incomplete",
        why="max_output_tokens",
        only_streamed=True,
    ),
    _simple("filter", _SAID, ending="content_filter", status="incomplete", why="content_filter"),
    _simple("stop sequence", _SAID, ending="stop_sequence", request={"input": "Hi", "stop": ["END"]}),
    _simple("error in the stream", _SAID, ending="error", status="failed", only_streamed=True),
    _simple("cut", _SAID, ending="cut", status="failed", why="upstream_closed", only_streamed=True),
    _simple(
        "cut in a call",
        Called("get_weather", '{"city": "Par'),
        ending="cut",
        request=TOOLS,
        status="failed",
        why="upstream_closed",
        only_streamed=True,
    ),
    _simple("no finish reason", _SAID, ending="none"),
    _simple("no usage", _SAID, usage=None),
    _simple("cached tokens", _SAID, usage=Counted(cached=3)),
    _simple("reasoning tokens", Thought("Hm."), _SAID, usage=Counted(reasoning=4), request=THINKING),
    _simple(
        "json_schema",
        Text('{"capital": "Paris"}'),
        request={
            "input": "The capital of France?",
            "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
        },
        sends=("capital",),
    ),
    _simple(
        "everything at once",
        Text("Yes."),
        request={
            "input": [
                {"role": "system", "content": "You are a test."},
                {"role": "user", "content": [{"type": "input_text", "text": "One."}]},
                {"role": "user", "content": "Two."},
                {"role": "developer", "content": "Be brief."},
                {"role": "assistant", "content": [{"type": "output_text", "text": "Three."}]},
                {"role": "assistant", "content": "Four."},
                {"role": "user", "content": "Five."},
            ],
            "instructions": "Count.",
            "temperature": 0.5,
            "top_p": 0.9,
            "max_output_tokens": 100,
            "safety_identifier": "user-1",
            "parallel_tool_calls": False,
            "tools": [WEATHER, SQL, GIT],
            "reasoning": {"effort": "low", "summary": "auto"},
        },
        sends=("You are a test.", "One.", "Two.", "Be brief.", "Three.", "Four.", "Five.", "Count."),
    ),
)

CHOICES: dict[str, Any] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "function": {"type": "function", "name": "get_weather"},
    "custom": {"type": "custom", "name": "run_sql"},
    "allowed_tools": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "get_weather"}],
    },
    "allowed_tools required": {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "get_weather"}],
    },
}
PROOFS: dict[str, Saying] = {
    "signed reasoning": Thought("Let me think about this.", "c2lnbmF0dXJlLW51bWJlci0w"),
    "redacted reasoning": Redacted("cmVkYWN0ZWQtbnVtYmVyLTAw"),
}
OTHERS = ("call ids", "custom tool", "namespace tool", "image", "file", *PROOFS)

NAMES = frozenset(
    {
        *(one.name for one in SCENARIOS),
        *(f"tool_choice {name}" for name in CHOICES),
        *OTHERS,
    }
)
