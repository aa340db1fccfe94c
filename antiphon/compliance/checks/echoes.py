"""Checks that the response repeats parameters of the request."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from antiphon.compliance.catalog import ServerRule, add_check, check
from antiphon.compliance.checks.inputs import ENOUGH, WEATHER
from antiphon.compliance.http_exchange import Json
from antiphon.compliance.probe import Probe, expect

_SCHEMA: Final = "Schema of ResponseResource"

# The value that is sent. What comes back is the same, or an object that holds at least these keys.
_ECHOES: Final[dict[str, Any]] = {
    "instructions": "Answer briefly.",
    "metadata": {"topic": "echo", "n": "1"},
    "temperature": 0.5,
    "top_p": 0.9,
    "presence_penalty": 0.25,
    "frequency_penalty": 0.25,
    "max_output_tokens": 48,
    "max_tool_calls": 3,
    "parallel_tool_calls": False,
    "store": False,
    "truncation": "auto",
    "prompt_cache_key": "echo-key",
    "safety_identifier": "echo-user",
    "text": {"format": {"type": "text"}},
}


def _repeats(name: str, value: Any) -> Callable[[Probe], Coroutine[Any, Any, None]]:
    async def run(probe: Probe) -> None:
        body = {"max_output_tokens": ENOUGH, name: value}
        response = await probe.create_if_supported(f"`{name}`", input="Say hello.", **body)
        expect(
            _holds(response.get(name), value),
            f"{name} was {value!r}, the response says {response.get(name)!r}",
        )

    return run


def _holds(found: Any, sent: Any) -> bool:
    if isinstance(sent, dict):
        return isinstance(found, dict) and all(_holds(found.get(key), value) for key, value in sent.items())
    return bool(found == sent)


for _name, _value in _ECHOES.items():
    add_check(
        ServerRule(
            f"echo.{_name}",
            "SHOULD",
            f"The response repeats `{_name}`.",
            _SCHEMA,
            ("json",),
            "echoes",
            proof=f"`echoes[{_name}]`",
        ),
        _repeats(_name, _value),
    )


@check("echo.tools", "SHOULD", _SCHEMA)
async def tools(probe: Probe) -> None:
    """The response repeats the tools, with every key of the schema."""
    response = await probe.create(
        input="Say hello.", tools=[WEATHER], tool_choice="none", max_output_tokens=ENOUGH
    )
    found: list[Json] = response.get("tools") or []
    expect([tool.get("name") for tool in found] == ["get_weather"], f"the tools are {found!r}")
    expect(found[0].get("parameters") == WEATHER["parameters"], "the parameters of the tool were changed")


@check("echo.tool_choice", "SHOULD", _SCHEMA)
async def tool_choice(probe: Probe) -> None:
    """The response repeats `tool_choice`, in its own form."""
    for choice in ("none", {"type": "allowed_tools", "tools": [{"type": "function", "name": "get_weather"}]}):
        response = await probe.create(
            input="Say hello.", tools=[WEATHER], tool_choice=choice, max_output_tokens=ENOUGH
        )
        found = response.get("tool_choice")
        expect(_kind(found) == _kind(choice), f"tool_choice was {choice!r}, the response says {found!r}")


def _kind(choice: Any) -> Any:
    return (choice.get("type"), choice.get("tools")) if isinstance(choice, dict) else choice


@check("echo.format", "SHOULD", _SCHEMA)
async def text_format(probe: Probe) -> None:
    """The response repeats a `json_schema` format."""
    shape = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}
    wanted = {"type": "json_schema", "name": "shape", "schema": shape, "strict": False}
    asked: Json = {"input": "Say {}.", "text": {"format": wanted}, "max_output_tokens": ENOUGH}
    response = await probe.create_if_supported("`json_schema`", **asked)
    found = (response.get("text") or {}).get("format") or {}
    expect(found.get("type") == "json_schema", f"the format is {found.get('type')!r}")
    expect(found.get("name") == "shape", f"the name is {found.get('name')!r}")


@check("echo.stream", "SHOULD", _SCHEMA, "sse", drives=True)
async def echo_in_stream(probe: Probe) -> None:
    """A stream repeats them too, from `response.created` on."""
    sent = {"instructions": "Answer briefly.", "metadata": {"topic": "echo"}, "temperature": 0.5}
    exchange = await probe.stream(input="Say hello.", max_output_tokens=ENOUGH, **sent)
    for event in exchange.events:
        if isinstance(response := event.get("response"), dict):
            expect(_holds(response, sent), f"{event.get('type')} does not repeat what was sent")
