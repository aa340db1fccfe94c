"""The WebSocket, besides the official scenarios."""

import json
from collections.abc import Callable

from antiphon.compliance.catalog import SPECS, CheckRun, Level, check
from antiphon.compliance.checks.inputs import ENOUGH, ROOM, TEMPTATIONS, TIME, WEATHER, user
from antiphon.compliance.checks.tools import no_forbidden
from antiphon.compliance.http_exchange import calls_of
from antiphon.compliance.probe import (
    Failed,
    NotOffered,
    Probe,
    Skipped,
    TooWeak,
    describe_answer,
    expect,
    refusal,
    require_contact,
)


def _check(id: str, level: Level, **options: bool) -> Callable[[CheckRun], CheckRun]:
    source = "OpenAPI: WebSocket /responses"
    return check(f"websocket.{id}", level, source, "websocket", specs=SPECS[1:], **options)


@_check("bad_json", "MUST")
async def bad_json(probe: Probe) -> None:
    """A message that is not JSON is answered with an error."""
    async with probe.socket() as socket:
        refusal(await socket.send_message('{"type": "response.create", '))


@_check("unknown_type", "MUST")
async def unknown_type(probe: Probe) -> None:
    """A message of an unknown type is answered with an error."""
    async with probe.socket() as socket:
        refusal(await socket.send_message(json.dumps({"type": "response.sing", "model": probe.model})))


@_check("bad_request", "MUST", drives=True)
async def bad_request(probe: Probe) -> None:
    """A wrong request is answered with one error envelope alone."""
    async with probe.socket() as socket:
        exchange = await socket.turn(input=7)
        error = refusal(exchange)
        expect(exchange.types == ["error"], f"the turn had {exchange.types}, not one error")
        expect(error.get("code"), "the error has no code")


@_check("after_error", "SHOULD")
async def after_an_error(probe: Probe) -> None:
    """After an error the socket goes on."""
    async with probe.socket() as socket:
        refusal(await socket.turn(input=7))
        exchange = await socket.turn(input="Say hello.", max_output_tokens=ENOUGH)
        expect(exchange.response is not None, f"the next turn ended with {describe_answer(exchange)}")


@_check("in_order", "MUST")
async def in_order(probe: Probe) -> None:
    """Turns sent at once are answered in order, not interleaved."""
    async with probe.socket() as socket:
        marks = ("one", "two")
        turns = await socket.say_all(
            *(
                {
                    "input": "Say hello.",
                    "metadata": {"mark": mark},
                    "max_output_tokens": ENOUGH,
                    "store": False,
                }
                for mark in marks
            )
        )
        found = [((turn.response or {}).get("metadata") or {}).get("mark") for turn in turns]
        expect(tuple(found) == marks, f"the turns came as {found}: {describe_answer(turns[-1])}")


@_check("stream_fields", "SHOULD")
async def ignores_stream(probe: Probe) -> None:
    """`stream` and `background` in a message do no harm."""
    async with probe.socket() as socket:
        exchange = await socket.turn(
            input="Say hello.", stream=True, background=False, max_output_tokens=ENOUGH
        )
        require_contact(exchange)
        expect(exchange.arrivals, "nothing came")
        expect(exchange.response is not None or exchange.error is not None, "the turn has no proper end")


@_check("local_memory", "MUST")
async def local_memory(probe: Probe) -> None:
    """What a socket remembers unstored is not visible over HTTP."""
    async with probe.socket() as socket:
        first = await socket.complete_turn(input="Say OK.", store=False)
        exchange = await probe.ask(input="Go on.", previous_response_id=first["id"])
        if exchange.status == 200:
            raise Failed("what was not stored could be continued over HTTP")
        refusal(exchange)


@_check("stored", "MUST")
async def stored_memory(probe: Probe) -> None:
    """What was stored can be continued elsewhere."""
    async with probe.socket() as socket:
        exchange = await socket.turn(input="Say OK.", store=True, max_output_tokens=ENOUGH)
    first = exchange.response
    if first is None:
        raise Failed(f"the turn ended with {describe_answer(exchange)}")
    if first.get("store") is False:
        raise Skipped("capability absent: the server says that it stores nothing")
    second = await probe.create(input="Go on.", previous_response_id=first["id"], max_output_tokens=ENOUGH)
    expect(second.get("previous_response_id") == first["id"], "the response does not name the previous one")


@_check("calls", "MUST", model=True)
async def calls(probe: Probe) -> None:
    """A call can be answered in the next turn of the socket."""
    async with probe.socket() as socket:
        exchange = await socket.turn(
            input=[user("What is the weather in Paris? Use the tool.")],
            tools=[WEATHER],
            tool_choice="required",
            store=False,
            max_output_tokens=ROOM,
        )
        first = exchange.response
        made = calls_of(first) if first is not None else []
        if first is None or not made:
            raise TooWeak(f"the model made no call: {describe_answer(exchange)}")
        outputs = [
            {"type": "function_call_output", "call_id": c["call_id"], "output": "Sunny."} for c in made
        ]
        second = await socket.turn(
            input=outputs, previous_response_id=first["id"], store=False, max_output_tokens=ENOUGH
        )
        expect(second.response is not None, f"the output was answered with {describe_answer(second)}")


@_check("allowed_tools", "MUST", tempts=True)
async def choose_allowed(probe: Probe) -> None:
    """`allowed_tools` holds on a WebSocket too."""
    choice = {"type": "allowed_tools", "tools": [{"type": "function", "name": "get_time"}]}
    async with probe.socket() as socket:
        exchange = await socket.turn(
            input=TEMPTATIONS[probe.number - 1],
            tools=[WEATHER, TIME],
            tool_choice=choice,
            store=False,
            max_output_tokens=ENOUGH,
        )
    no_forbidden(exchange)


@_check("key", "MUST")
async def key_required(probe: Probe) -> None:
    """A socket with a wrong key is not served."""
    if probe.target.api_key is None:
        raise Skipped("no --api-key was given, so the server is taken as open")
    try:
        async with probe.socket(key="no-such-key-0123456789") as socket:
            exchange = await socket.turn(input="Hello.")
    except NotOffered:
        raise
    except Failed:
        return
    expect(exchange.response is None, "a socket with a wrong key was served")


@_check("limit", "MUST")
async def connection_limit(probe: Probe) -> None:
    """A socket that is too old is closed, with an error that says so."""
    limit = probe.target.websocket_limit
    if limit is None:
        raise Skipped("the limit is 60 minutes; give --websocket-limit when the server's was made short")
    async with probe.socket() as socket:
        exchange = await socket.wait_for_close(limit + probe.target.timeout)
    require_contact(exchange)
    code = (exchange.error or {}).get("code")
    expect(code == "websocket_connection_limit_reached", f"the socket ended with {code!r}")
