"""Function tools: every form of `tool_choice`, parallel calls, the loop with the client."""

import json
from typing import Final

from antiphon.compliance.catalog import check
from antiphon.compliance.checks.inputs import ENOUGH, ROOM, TEMPTATIONS, TIME, WEATHER, output, user
from antiphon.compliance.http_exchange import Json, RecordedExchange, calls_of, text_of
from antiphon.compliance.probe import (
    Failed,
    Probe,
    Skipped,
    TooWeak,
    describe_answer,
    expect,
    require_contact,
    respond,
    response_unless_model_failed,
)

_CHOICE: Final = "tool_choice"
_ALLOWED: Final = "allowed_tools"
_ASKS: Final = "What is the weather in Paris? Use the tool."


class NoCall(Failed):
    """A call was required, and none came."""


def _only(*names: str, mode: str | None = None) -> Json:
    choice: Json = {"type": "allowed_tools", "tools": [{"type": "function", "name": name} for name in names]}
    return choice if mode is None else choice | {"mode": mode}


def _names(response: Json) -> list[str]:
    return [str(call.get("name")) for call in calls_of(response)]


async def required_call(probe: Probe) -> tuple[Json, list[Json]]:
    """A response with at least one call, or a skip: that none came is the matter of `tools.required`."""
    try:
        response = await _with_call(probe)
    except NoCall as none:
        raise TooWeak(str(none)) from none
    return response, calls_of(response)


async def _with_call(probe: Probe) -> Json:
    return _or_model_error(
        await probe.ask(
            input=[user(_ASKS)], tools=[WEATHER], tool_choice="required", store=True, max_output_tokens=ROOM
        )
    )


def _or_model_error(exchange: RecordedExchange) -> Json:
    """A response with a call. That none came may only be the model's fault, and then the server says so."""
    require_contact(exchange)
    response = exchange.response
    if exchange.status == 200 and response is not None and response.get("status") != "failed":
        if calls_of(response):
            return response
        if response.get("status") == "incomplete":
            raise TooWeak("the model reached its limit before it made a call")
        raise NoCall("a call was required, and a response without any was given as if nothing were wrong")
    if exchange.status is not None and 400 <= exchange.status < 500:
        raise Skipped(f"capability absent: a required call ({describe_answer(exchange)})")
    raise TooWeak(f"the model made no call, and the server said so: {describe_answer(exchange)}")


@check("tools.required", "MUST", _CHOICE, model=True)
async def choose_required(probe: Probe) -> None:
    """`required`: there is a call, or an error."""
    response = await _with_call(probe)
    expect(set(_names(response)) == {"get_weather"}, f"the calls are {_names(response)}")


@check("tools.required_streamed", "MUST", _CHOICE, "sse", model=True, drives=True)
async def choose_required_streamed(probe: Probe) -> None:
    """The same in a stream."""
    exchange = await probe.ask(
        input=[user(_ASKS)], tools=[WEATHER], tool_choice="required", max_output_tokens=ROOM, stream=True
    )
    _or_model_error(exchange)
    expect("response.function_call_arguments.done" in exchange.types, "the arguments were never done")


@check("tools.none", "MUST", _CHOICE, tempts=True)
async def none(probe: Probe) -> None:
    """`none`: there is no call, however often it is asked for."""
    response = await probe.create(
        input=TEMPTATIONS[probe.number - 1], tools=[WEATHER], tool_choice="none", max_output_tokens=ENOUGH
    )
    expect(not calls_of(response), f"{_names(response)} was called all the same")


@check("tools.named", "MUST", _CHOICE, model=True)
async def choose_named(probe: Probe) -> None:
    """A function that is named is the one that is called."""
    exchange = await probe.ask(
        input=[user("What time is it, and what is the weather in Paris?")],
        tools=[TIME, WEATHER],
        tool_choice={"type": "function", "name": "get_weather"},
        max_output_tokens=ROOM,
    )
    response = _or_model_error(exchange)
    expect(set(_names(response)) == {"get_weather"}, f"the calls are {_names(response)}")


@check("tools.allowed", "MUST", _ALLOWED, tempts=True)
async def choose_allowed(probe: Probe) -> None:
    """A tool outside `allowed_tools` is never called, however the model is tempted."""
    exchange = await probe.ask(
        input=TEMPTATIONS[probe.number - 1],
        tools=[WEATHER, TIME],
        tool_choice=_only("get_time"),
        max_output_tokens=ENOUGH,
    )
    no_forbidden(exchange)


@check("tools.allowed_streamed", "MUST", _ALLOWED, "sse", tempts=True)
async def allowed_streamed(probe: Probe) -> None:
    """The same in a stream, in any event."""
    exchange = await probe.ask(
        input=TEMPTATIONS[probe.number - 1],
        tools=[WEATHER, TIME],
        tool_choice=_only("get_time"),
        max_output_tokens=ENOUGH,
        stream=True,
    )
    no_forbidden(exchange)
    for event in exchange.events:
        item = event.get("item")
        if isinstance(item, dict) and item.get("name") == "get_weather":
            raise Failed(f"{event.get('type')} tells of a call of get_weather, which is not allowed")


def no_forbidden(exchange: RecordedExchange) -> None:
    response = response_unless_model_failed(exchange, "allowed_tools")
    expect("get_weather" not in _names(response or {}), "get_weather was called, which is not allowed")


@check("tools.allowed_required", "MUST", _ALLOWED, model=True)
async def allowed_required(probe: Probe) -> None:
    """With the mode `required` there is a call of an allowed tool, or an error."""
    exchange = await probe.ask(
        input=[user("What is the weather in Paris?")],
        tools=[TIME, WEATHER],
        tool_choice=_only("get_weather", mode="required"),
        max_output_tokens=ROOM,
    )
    response = _or_model_error(exchange)
    expect(set(_names(response)) == {"get_weather"}, f"the calls are {_names(response)}")


@check("tools.allowed_unknown", "SHOULD", _ALLOWED)
async def allowed_unknown(probe: Probe) -> None:
    """`allowed_tools` names tools that are in `tools`."""
    await probe.require_refusal(input="Hello.", tools=[WEATHER], tool_choice=_only("get_lost"))


@check("tools.unknown", "SHOULD", _CHOICE)
async def unknown(probe: Probe) -> None:
    """A function that `tool_choice` names is in `tools`."""
    choice = {"type": "function", "name": "get_lost"}
    await probe.require_refusal(input="Hello.", tools=[WEATHER], tool_choice=choice)


@check("tools.one_at_a_time", "MUST", _CHOICE, model=True)
async def one_at_a_time(probe: Probe) -> None:
    """Without `parallel_tool_calls` there is one call at most."""
    response = await probe.create(
        input=[user("Get the weather in Paris and in Tokyo. Make both calls at once.")],
        tools=[WEATHER],
        parallel_tool_calls=False,
        max_output_tokens=ROOM,
    )
    expect(len(calls_of(response)) <= 1, f"there are {len(calls_of(response))} calls")


@check("tools.max_calls", "SHOULD", "Schema of CreateResponseBody", model=True)
async def max_calls(probe: Probe) -> None:
    """There are not more calls than `max_tool_calls`."""
    response = await probe.create_if_supported(
        "`max_tool_calls`",
        input=[user("Get the weather in Paris and in Tokyo. Make both calls at once.")],
        tools=[WEATHER],
        max_tool_calls=1,
        max_output_tokens=ROOM,
    )
    expect(len(calls_of(response)) <= 1, f"there are {len(calls_of(response))} calls")


@check("tools.parallel", "MUST", "The Agentic loop", model=True)
async def parallel(probe: Probe) -> None:
    """Several calls of one response have call ids of their own."""
    response = await probe.create(
        input=[user("Get the weather in Paris and in Tokyo. Make both calls at once.")],
        tools=[WEATHER],
        max_output_tokens=ROOM,
    )
    calls = calls_of(response)
    if len(calls) < 2:
        raise TooWeak(f"the model made {len(calls)} calls, not two")
    expect(len({call["call_id"] for call in calls}) == len(calls), "two calls have one call id")


@check("tools.arguments", "MUST", "Schema of FunctionCall", model=True)
async def arguments(probe: Probe) -> None:
    """Arguments are a text that holds a JSON object."""
    _, calls = await required_call(probe)
    for call in calls:
        given = call.get("arguments")
        expect(isinstance(given, str), f"the arguments are {given!r}, not a text")
        try:
            decoded = json.loads(str(given))
        except ValueError:
            raise TooWeak("the model's arguments are no JSON") from None
        if isinstance(decoded, str):
            raise Failed("the arguments are encoded twice")


@check("tools.result", "MUST", "The Agentic loop", model=True)
async def result(probe: Probe) -> None:
    """The output of a call leads to an answer."""
    _, calls = await required_call(probe)
    history = [user(_ASKS), *calls, *(output(call["call_id"]) for call in calls)]
    response = await probe.create(
        input=history, tools=[WEATHER], tool_choice="none", max_output_tokens=ENOUGH
    )
    if not text_of(response):
        raise TooWeak("the model said nothing")


@check("tools.strict_null", "MUST", "Schema of FunctionToolParam")
async def minimal(probe: Probe) -> None:
    """A tool may leave out description, parameters and strict."""
    respond(
        await probe.ask(
            input="Say hello.",
            tools=[{"type": "function", "name": "ping"}],
            tool_choice="none",
            max_output_tokens=ENOUGH,
        )
    )
