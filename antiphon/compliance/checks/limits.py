"""The limits of each field: what is outside the schema is refused, what is just inside is taken."""

from collections.abc import Callable
from typing import Any, Final

from antiphon.compliance.catalog import Level, ServerRule, add_check
from antiphon.compliance.checks.inputs import ENOUGH, WEATHER, assistant, call, output, user
from antiphon.compliance.http_exchange import Json
from antiphon.compliance.probe import Probe, expect

_SCHEMA: Final = "Schema of CreateResponseBody"
_TEXT_LIMIT: Final = 10_485_760


def _function_named(name: str) -> Json:
    return {**WEATHER, "name": name}


def _allowed_tools(count: int) -> Json:
    return {"type": "allowed_tools", "tools": [{"type": "function", "name": "get_weather"}] * count}


def _metadata(pairs: int, key: int = 3, value: int = 1) -> Json:
    return {f"{n:0{key}d}": "v" * value for n in range(pairs)}


_WRONG: Final[dict[str, tuple[Level, str, Callable[[], Json]]]] = {
    # MUST: what no server could carry out as it was asked. SHOULD: unknown words, numbers, lengths, and texts
    # that may be read as true or false, because the specification lets a server take more than it names.
    "limit.input": ("MUST", "`input` is a text or a list of items.", lambda: {"input": 7}),
    "limit.input_item": ("MUST", "An item of the input is an object.", lambda: {"input": ["Hello"]}),
    "limit.role": (
        "SHOULD",
        "A role is one of the schema's.",
        lambda: {"input": [user("Hi") | {"role": "king"}]},
    ),
    "limit.content": (
        "MUST",
        "The content of a message is a text or a list of parts.",
        lambda: {"input": [user(7)]},
    ),
    "limit.message_content": (
        "MUST",
        "A message has content.",
        lambda: {"input": [{"type": "message", "role": "user"}]},
    ),
    "limit.phase": (
        "SHOULD",
        "A `phase` is `commentary` or `final_answer`.",
        lambda: {"input": [user("Hi"), assistant("Hello", phase="humming"), user("Bye")]},
    ),
    "limit.tools": ("MUST", "`tools` is a list.", lambda: {"tools": "all"}),
    "limit.tool_name_missing": (
        "MUST",
        "A function tool has a name.",
        lambda: {"tools": [{"type": "function", "parameters": {}}]},
    ),
    "limit.tool_choice": (
        "SHOULD",
        "`tool_choice` has a form of the schema.",
        lambda: {"tool_choice": "perhaps"},
    ),
    "limit.truncation": (
        "SHOULD",
        "`truncation` is `auto` or `disabled`.",
        lambda: {"truncation": "sometimes"},
    ),
    "limit.include": ("SHOULD", "`include` has values of the schema.", lambda: {"include": ["everything"]}),
    "limit.effort": (
        "SHOULD",
        "`reasoning.effort` is a word of the schema.",
        lambda: {"reasoning": {"effort": "x"}},
    ),
    "limit.temperature_type": ("MUST", "`temperature` is a number.", lambda: {"temperature": "hot"}),
    "limit.stream_type": ("SHOULD", "`stream` is true or false.", lambda: {"stream": "yes"}),
    "limit.store_type": ("SHOULD", "`store` is true or false.", lambda: {"store": "yes"}),
    "limit.format": (
        "SHOULD",
        "`text.format` is of the schema's types.",
        lambda: {"text": {"format": {"type": "x"}}},
    ),
    "limit.service_tier": (
        "SHOULD",
        "`service_tier` is a word of the schema.",
        lambda: {"service_tier": "gold"},
    ),
    "limit.max_output_tokens": (
        "SHOULD",
        "`max_output_tokens` is at least 16.",
        lambda: {"max_output_tokens": 15},
    ),
    "limit.max_tool_calls": ("SHOULD", "`max_tool_calls` is at least 1.", lambda: {"max_tool_calls": 0}),
    "limit.top_logprobs": ("SHOULD", "`top_logprobs` is at most 20.", lambda: {"top_logprobs": 21}),
    "limit.top_logprobs_low": ("SHOULD", "`top_logprobs` is at least 0.", lambda: {"top_logprobs": -1}),
    "limit.metadata_pairs": (
        "SHOULD",
        "`metadata` has at most 16 pairs.",
        lambda: {"metadata": _metadata(17)},
    ),
    "limit.metadata_key": (
        "SHOULD",
        "A key of `metadata` has at most 64 characters.",
        lambda: {"metadata": _metadata(1, key=65)},
    ),
    "limit.metadata_value": (
        "SHOULD",
        "A value of `metadata` has at most 512 characters.",
        lambda: {"metadata": _metadata(1, value=513)},
    ),
    "limit.safety_identifier": (
        "SHOULD",
        "`safety_identifier` has at most 64 characters.",
        lambda: {"safety_identifier": "s" * 65},
    ),
    "limit.prompt_cache_key": (
        "SHOULD",
        "`prompt_cache_key` has at most 64 characters.",
        lambda: {"prompt_cache_key": "k" * 65},
    ),
    "limit.tool_name": (
        "SHOULD",
        "The name of a function has 1 to 64 letters, digits, `_` and `-`.",
        lambda: {"tools": [_function_named("get weather!")]},
    ),
    "limit.tool_name_length": (
        "SHOULD",
        "The name of a function has at most 64 characters.",
        lambda: {"tools": [_function_named("f" * 65)]},
    ),
    "limit.allowed_tools_none": (
        "SHOULD",
        "`allowed_tools` names at least one tool.",
        lambda: {"tools": [WEATHER], "tool_choice": _allowed_tools(0)},
    ),
    "limit.allowed_tools_many": (
        "SHOULD",
        "`allowed_tools` names at most 128 tools.",
        lambda: {"tools": [WEATHER], "tool_choice": _allowed_tools(129)},
    ),
    "limit.call_id": (
        "SHOULD",
        "A `call_id` has at most 64 characters.",
        lambda: {"input": [user("Hi"), call("c" * 65), output("c" * 65)]},
    ),
    "limit.call_id_empty": (
        "SHOULD",
        "A `call_id` has at least one character.",
        lambda: {"input": [user("Hi"), call(""), output("")]},
    ),
    "limit.text": (
        "SHOULD",
        "A text has at most 10,485,760 characters.",
        lambda: {"input": "a" * (_TEXT_LIMIT + 1)},
    ),
}

_RIGHT: Final[dict[str, tuple[str, Callable[[], Json]]]] = {
    "limit.max_output_tokens_ok": ("`max_output_tokens` may be 16.", lambda: {"max_output_tokens": 16}),
    "limit.metadata_ok": (
        "`metadata` may have 16 pairs, keys of 64 and values of 512 characters.",
        lambda: {"metadata": _metadata(16, key=64, value=512)},
    ),
    "limit.safety_identifier_ok": (
        "`safety_identifier` may have 64 characters.",
        lambda: {"safety_identifier": "s" * 64},
    ),
    "limit.prompt_cache_key_ok": (
        "`prompt_cache_key` may have 64 characters.",
        lambda: {"prompt_cache_key": "k" * 64},
    ),
    "limit.tool_name_ok": (
        "The name of a function may have 64 characters, `_` and `-` among them.",
        lambda: {"tools": [_function_named("get_weather-" + "x" * 52)], "tool_choice": "none"},
    ),
    "limit.call_id_ok": (
        "A `call_id` may have 64 characters.",
        lambda: {"input": [user("Weather?"), call("c" * 64), output("c" * 64)], "tools": [WEATHER]},
    ),
}


def _refuses(make: Callable[[], Json]) -> Callable[[Probe], Any]:
    async def run(probe: Probe) -> None:
        error = await probe.require_refusal(**{"input": "Say hello.", "max_output_tokens": ENOUGH, **make()})
        expect(error.get("message"), "the refusal says nothing")

    return run


def _takes(make: Callable[[], Json]) -> Callable[[Probe], Any]:
    async def run(probe: Probe) -> None:
        await probe.create(**{"input": "Say hello.", "max_output_tokens": ENOUGH, **make()})

    return run


for _id, (_level, _says, _make) in _WRONG.items():
    add_check(
        ServerRule(
            _id,
            _level,
            f"{_says} Anything else is refused.",
            _SCHEMA,
            ("json",),
            "limits",
            proof=f"`limits[{_id}]`",
        ),
        _refuses(_make),
        alone=_id == "limit.text",
    )
for _id, (_says, _make) in _RIGHT.items():
    add_check(
        ServerRule(_id, "MUST", _says, _SCHEMA, ("json",), "limits", proof=f"`limits[{_id}]`"), _takes(_make)
    )
