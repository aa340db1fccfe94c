"""The 17 acceptance scenarios of the specification, under their own ids."""

import json
from collections.abc import Callable

from antiphon.compliance.catalog import SPECS, CheckRun, RuleTransport, check
from antiphon.compliance.checks.inputs import ROOM, WEATHER, assistant, message, red_square, text, user
from antiphon.compliance.http_exchange import Json, calls_of
from antiphon.compliance.probe import (
    Failed,
    Probe,
    TooWeak,
    expect,
    refusal,
    require_completed,
    require_offered,
    respond,
)
from antiphon.spec.codec import to_builtins
from antiphon.spec.content import OutputText
from antiphon.spec.items import Message, Phase
from antiphon.spec.response import Response
from antiphon.stream.json_shapes import RESOURCES

OFFICIAL: list[str] = []
"""The ids of the acceptance tests of the specification."""


def _scenario(transport: RuleTransport = "json", *, drives: bool = False) -> Callable[[CheckRun], CheckRun]:
    """Registers an acceptance test of the specification, under the name of its function."""

    def register(run: CheckRun) -> CheckRun:
        id = getattr(run, "__name__", "").replace("_", "-")
        is_new = id.startswith(("websocket", "compact")) or "phase" in id
        OFFICIAL.append(id)
        specs = SPECS[1:] if is_new else SPECS
        return check(id, "MUST", "Acceptance tests", transport, model=True, drives=drives, specs=specs)(run)

    return register


@_scenario(drives=True)
async def basic_response(probe: Probe) -> None:
    """A text is answered with a completed response."""
    _expect_output(await probe.create(input=[user("Say hello in exactly 3 words.")]))


@_scenario()
async def assistant_phase(probe: Probe) -> None:
    """Assistant messages of a history may have a `phase`."""
    history = [
        user("Please answer in two steps."),
        assistant("I will look first.", phase="commentary"),
        assistant("The answer is four.", phase="final_answer"),
        user("Thank you. Say goodbye."),
    ]
    _expect_output(await probe.create(input=history))


@_scenario()
async def response_output_phase_schema(probe: Probe) -> None:
    """Messages of a response may have a `phase` of the schema.

    As in the official runner: the schema of answers must allow both phases and no others, and then the
    server's own phases must fit it, if it sends any.
    """
    phases: tuple[Phase, ...] = ("commentary", "final_answer")
    response = Response.new("resp_1", probe.model, now=1)
    response.output = [
        Message(id=f"m_{phase}", role="assistant", status="completed", phase=phase, content=[OutputText("a")])
        for phase in phases
    ]
    response.complete(None, now=2)
    payload = to_builtins(response)
    assert isinstance(payload, dict)
    expect(not _objections(payload), "a response with both phases is not valid")
    expect([item["phase"] for item in payload["output"]] == list(phases), "the phases were lost")
    payload["output"][0]["phase"] = "thinking"
    expect(_objections(payload), "a phase outside the schema is valid")
    answer = await probe.create(
        input=[user("Say hello."), assistant("Hello.", phase="final_answer"), user("Bye.")]
    )
    for item in answer["output"]:
        expect(item.get("phase") in (None, *phases), f"a message has the phase {item.get('phase')!r}")


class _Objections:
    def __init__(self) -> None:
        self.rules: list[str] = []

    def report(self, rule: str, message: str) -> None:
        self.rules.append(rule)

    def quote(self, value: object) -> str:
        return ""

    def admits(self, type_name: str) -> bool:
        return False

    def admits_tools(self) -> bool:
        return False


def _objections(payload: Json) -> list[str]:
    judge = _Objections()
    RESOURCES["response"].check(payload, "", judge)
    return judge.rules


@_scenario("sse", drives=True)
async def streaming_response(probe: Probe) -> None:
    """The answer can be streamed as server-sent events."""
    exchange = await probe.stream(input=[user("Count from 1 to 5.")])
    _expect_output(exchange.response or {})


@_scenario("websocket", drives=True)
async def websocket_response(probe: Probe) -> None:
    """The answer can come over a WebSocket."""
    async with probe.socket() as socket:
        await socket.complete_turn(input=[user("Count from 1 to 3.")])


@_scenario("websocket")
async def websocket_sequential_responses(probe: Probe) -> None:
    """A WebSocket carries one turn after the other."""
    async with probe.socket() as socket:
        first = await socket.complete_turn(store=False, input="Reply with exactly: first")
        second = await socket.complete_turn(store=False, input="Reply with exactly: second")
        expect(first["id"] != second["id"], "two turns have the same response id")


@_scenario("websocket")
async def websocket_continuation(probe: Probe) -> None:
    """A turn continues one that was not stored, on the same socket."""
    async with probe.socket() as socket:
        first = await socket.complete_turn(
            store=False, input="Remember the code word: cobalt. Reply with OK."
        )
        second = await socket.complete_turn(
            store=False,
            previous_response_id=first["id"],
            input="What is the code word? Reply with only that.",
        )
        expect(second["previous_response_id"] == first["id"], "the response does not name the previous one")


@_scenario("websocket")
async def websocket_reconnect_store_false_recovery(probe: Probe) -> None:
    """After reconnecting what was not stored is gone, and the new socket works."""
    async with probe.socket() as socket:
        first = await socket.complete_turn(
            store=False, input="Remember the code word: copper. Reply with OK."
        )
    async with probe.socket() as socket:
        lost = await socket.turn(store=False, previous_response_id=first["id"], input="Go on after all.")
        _not_found(refusal(lost))
        await socket.complete_turn(store=False, input=[user("Start anew and reply with exactly: recovered")])


@_scenario("websocket")
async def websocket_previous_response_not_found(probe: Probe) -> None:
    """An unknown previous response is an error with the code `previous_response_not_found`."""
    async with probe.socket() as socket:
        turn = await socket.turn(
            store=False, previous_response_id="resp_that_never_was", input="This must fail."
        )
        _not_found(refusal(turn))


@_scenario("websocket")
async def websocket_failed_continuation_evicts_cache(probe: Probe) -> None:
    """A continuation that fails drops the response that it continued."""
    async with probe.socket() as socket:
        first = await socket.complete_turn(store=False, input="Remember the code word: ember. Reply with OK.")
        orphan = {"type": "function_call_output", "call_id": "call_of_nobody", "output": "no call"}
        refusal(await socket.turn(store=False, previous_response_id=first["id"], input=[orphan]))
        retried = await socket.turn(
            store=False, previous_response_id=first["id"], input="Go on all the same."
        )
        _not_found(refusal(retried))


@_scenario("websocket")
async def websocket_compact_new_chain(probe: Probe) -> None:
    """The output of a compaction begins a new chain on a WebSocket."""
    compacted = await compact(probe, input=[user("The code word is amber."), assistant("Understood.")])
    async with probe.socket() as socket:
        response = await socket.complete_turn(
            store=False, input=[*compacted["output"], user("Reply with exactly: continued")]
        )
        expect(response["previous_response_id"] is None, "a new chain has no previous response")


@_scenario()
async def system_prompt(probe: Probe) -> None:
    """Messages of the role `system` are taken."""
    prompt = message("system", "You are a pirate. Always talk like one.")
    _expect_output(await probe.create(input=[prompt, user("Say hello.")]))


@_scenario()
async def tool_calling(probe: Probe) -> None:
    """The model can call a function, with arguments as JSON."""
    question = "What's the weather like in San Francisco?"
    # The runner sets no limit; with one, a weak model that does not call does not talk for minutes either.
    response = await probe.create(input=[user(question)], tools=[WEATHER], max_output_tokens=ROOM)
    calls = calls_of(response)
    if not calls:
        raise TooWeak("the model did not call the tool")
    for call in calls:
        expect(call["name"] == "get_weather", f"a tool that was not given was called: {call['name']!r}")
        try:
            arguments = json.loads(call["arguments"])
        except ValueError:
            raise TooWeak("the model's arguments are no JSON") from None
        if not isinstance(arguments, dict) or not isinstance(arguments.get("location"), str):
            raise TooWeak("the model's arguments do not fit the tool's schema")


@_scenario()
async def image_input(probe: Probe) -> None:
    """Pictures are taken as input."""
    parts = [
        text("What do you see in this image? Answer in one sentence."),
        {"type": "input_image", "image_url": red_square()},
    ]
    _expect_output(await probe.create_if_supported("images as input", input=[user(parts)]))


@_scenario()
async def multi_turn(probe: Probe) -> None:
    """A history of several turns is taken."""
    history = [user("My name is Alice."), assistant("Hello Alice! How can I help?"), user("What is my name?")]
    _expect_output(await probe.create(input=history))


@_scenario()
async def compact_response(probe: Probe) -> None:
    """`/responses/compact` gives a compaction."""
    await compact(
        probe,
        prompt_cache_key="scenario-compact",
        input=[user("We launch on Tuesday and tell support first."), assistant("Understood: Tuesday.")],
    )


@_scenario()
async def compact_missing_model(probe: Probe) -> None:
    """A compaction without a model is refused."""
    exchange = await probe.post("/responses/compact", {"input": [user("Compact this conversation.")]})
    refusal(exchange)
    expect(exchange.status in (400, 422), f"a missing model is 400 or 422, not {exchange.status}")


async def compact(probe: Probe, **body: object) -> Json:
    """A compaction that must come, with one compaction item in it."""
    exchange = await probe.post("/responses/compact", {"model": probe.model, **body})
    if "previous_response_id" not in body:
        require_offered(exchange, "/responses/compact")
    resource = exchange.json
    if exchange.status != 200 or not isinstance(resource, dict):
        respond(exchange)
        raise Failed("the answer is no compaction")
    expect(resource.get("object") == "response.compaction", f"object is {resource.get('object')!r}")
    kinds = [item.get("type") for item in resource.get("output") or () if isinstance(item, dict)]
    expect("compaction" in kinds, f"the output has no compaction item, it has {kinds}")
    return resource


def _expect_output(response: Json) -> None:
    require_completed(response)
    expect(response.get("output"), "the response has no output")


def _not_found(error: Json) -> None:
    code = error.get("code")
    expect(code == "previous_response_not_found", f"the code is {code!r}, not previous_response_not_found")
