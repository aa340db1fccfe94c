"""One set of scenarios for every provider: over a real socket, streamed and whole.

Whatever the wire, the same items must come out, every event must fit the schema, the Auditor must have
nothing to say, and the provider's own official types must accept every request.
"""

import copy
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from antiphon.providers.base import Provider, Turn, UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import OURS
from antiphon.spec.codec import to_builtins
from antiphon.spec.response import Response
from tests.providers.compose import as_functions, batches, compose, make_turn, plain
from tests.providers.conformance import scenarios
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.said import Called, Fake, Redacted, Refused, Saying, Script, Text, Thought
from tests.providers.conformance.scenarios import CHOICES, NAMES, PROOFS, SCENARIOS, Scenario
from tests.spec.validators import assert_valid_response

LACKS = {name: dict(make().lacks) for name, make in FAKES.items()}
MODES = ("streamed", "whole")


def wires(scenario: str) -> list[str]:
    """The fakes that can play a scenario."""
    return [name for name in FAKES if scenario not in LACKS[name]]


def cases(*names: str) -> list[Any]:
    return [pytest.param(wire, name, id=f"{wire}-{name}") for name in names for wire in wires(name)]


class Stage:
    """One fake and our adapter for it; every request that it gets is held against the official types."""

    def __init__(self, fake: Fake, provider: Provider, mode: str) -> None:
        self.fake = fake
        self.provider = provider
        self._stream = mode == "streamed"

    def turn(self, request: dict[str, Any]) -> Turn:
        return make_turn(request, stream=self._stream)

    async def answer(self, request: dict[str, Any]) -> Response:
        return await self.run(self.turn(request))

    async def run(self, turn: Turn) -> Response:
        response = compose(await batches(self.provider, turn), schema=True)
        assert_valid_response(as_functions(plain(response)))
        assert self.fake.mistakes(self.fake.requests[-1]) == []
        return response

    def sent(self, n: int = -1) -> str:
        return json.dumps(self.fake.requests[n].body, ensure_ascii=False)


@pytest.fixture
async def stage(wire: str, mode: str, http: UpstreamClient) -> AsyncIterator[Stage]:
    async with FAKES[wire]() as fake:
        provider = fake.provider(http)
        yield Stage(fake, provider, mode)
        await provider.close()


def went_in(script: Script) -> list[Any]:
    """What the model says, in short; reasoning without words is told apart."""
    return [short for one in script.said if (short := _said(one))]


def _said(one: Saying) -> Any:
    match one:
        case Text(text):
            return "text", text
        case Refused(text):
            return "refusal", text
        case Thought(text):
            return ("reasoning", text) if text else None
        case Called(name, arguments):
            return "call", name, _value(arguments)
        case Redacted():
            return None


def came_out(response: Response) -> list[Any]:
    found: list[Any] = []
    for item in plain(response)["output"]:
        match item["type"]:
            case "message":
                found += [
                    ("text", part["text"]) if part["type"] == "output_text" else ("refusal", part["refusal"])
                    for part in item["content"]
                ]
            case "reasoning":
                parts = item.get("content") or item["summary"]
                if text := "".join(part["text"] for part in parts):
                    found.append(("reasoning", text))
            case "function_call":
                found.append(("call", item["name"], _value(item["arguments"])))
            case other:
                found.append(other)
    return found


def _value(arguments: str) -> Any:
    """Arguments as a value where they are JSON: a wire that carries objects may space them its own way."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def call_ids(response: Response) -> list[str]:
    return [item["call_id"] for item in plain(response)["output"] if "call_id" in item]


# --- what is there ----------------------------------------------------------------------------------------


def test_every_provider_type_of_ours_has_a_fake() -> None:
    assert set(OURS) - {"llama", "script"} == {name.partition(" ")[0] for name in FAKES}


@pytest.mark.parametrize(
    ("wire", "scenario"),
    [pytest.param(wire, name, id=f"{wire}-{name}") for wire, lacks in LACKS.items() for name in lacks],
)
def test_what_a_wire_cannot_say_has_a_reason(wire: str, scenario: str) -> None:
    assert scenario in NAMES
    assert len(LACKS[wire][scenario].split()) >= 4, "a reason is a sentence"


# --- scenarios --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "scenario", "mode"),
    [
        pytest.param(wire, one, mode, id=f"{wire}-{one.name}-{mode}")
        for one in SCENARIOS
        for wire in wires(one.name)
        for mode in (MODES[:1] if one.only_streamed else MODES)
    ],
)
async def test_scenario(stage: Stage, scenario: Scenario) -> None:
    stage.fake.slice = scenario.slice
    stage.fake.plays(scenario.script)
    response = await stage.answer(scenario.request)
    assert came_out(response) == went_in(scenario.script)
    assert response.status == scenario.status
    if scenario.status == "incomplete":
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == scenario.why
        assert plain(response)["output"][-1]["status"] == "incomplete"
    if scenario.status == "failed":
        assert response.error is not None
        assert scenario.why in (None, response.error.code)
    ids = call_ids(response)
    assert all(ids)
    assert len(set(ids)) == len(ids)
    check_usage(response, scenario.script)
    for words in scenario.sends:
        assert words in stage.sent()


def check_usage(response: Response, script: Script) -> None:
    if script.ending in ("cut", "error"):
        return
    if script.usage is None:
        assert response.usage is None
        return
    assert response.usage is not None
    assert response.usage.input_tokens == script.usage.input
    assert response.usage.output_tokens == script.usage.output
    assert response.usage.input_tokens_details.cached_tokens == script.usage.cached
    assert response.usage.output_tokens_details.reasoning_tokens == script.usage.reasoning


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wire", wires("call ids"))
async def test_call_ids_are_kept(stage: Stage) -> None:
    stage.fake.plays(
        Script((Called("get_weather", id="call_a"), Called("get_time", id="call_b")), "tool_calls")
    )
    assert call_ids(await stage.answer(scenarios.TOOLS)) == ["call_a", "call_b"]


# --- tool loops -------------------------------------------------------------------------------------------


def put_back(response: Response, *, bare: bool = False) -> list[dict[str, Any]]:
    """The output as the next input, as a client sends it; `bare` without the words of the reasoning."""
    items: list[dict[str, Any]] = plain(response)["output"]
    if bare:
        items = [
            item | {"content": None, "summary": []} if item["type"] == "reasoning" else item for item in items
        ]
    results = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
    outputs = [
        {"type": results[item["type"]], "call_id": item["call_id"], "output": f"Result {n}."}
        for n, item in enumerate(items)
        if item["type"] in results
    ]
    return items + outputs


def list_pages(saying: Saying, n: int) -> Saying:
    """The same with another proof of the same length."""
    match saying:
        case Thought(text, signature):
            return Thought(f"{text} {n}", f"{signature[:-2]}{n}0")
        case Redacted(data):
            return Redacted(f"{data[:-2]}{n}0")
    return saying


def proof(saying: Saying) -> str:
    match saying:
        case Thought(_, signature):
            return signature
        case Redacted(data):
            return data
    return ""


@pytest.mark.parametrize("bare", [False, True], ids=["with words", "bare"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("wire", "name"), cases(*PROOFS))
async def test_proofs_of_reasoning_through_three_tool_turns(stage: Stage, name: str, bare: bool) -> None:
    assert stage.provider.capabilities.proofs
    said = [list_pages(PROOFS[name], n) for n in range(3)]
    proofs = [proof(one) for one in said]
    calls = [Called("get_weather", scenarios.PARIS, f"call_{n}") for n in range(3)]
    stage.fake.plays(
        *(Script((one, call), "tool_calls") for one, call in zip(said, calls, strict=True)),
        Script((Text("It rains."),)),
    )
    history: list[dict[str, Any]] = [{"role": "user", "content": "What is the weather?"}]
    for n in range(4):
        response = await stage.answer(scenarios.TOOLS | scenarios.THINKING | {"input": history})
        assert response.status == "completed"
        body = stage.sent()
        assert [body.count(one) for one in proofs] == [1] * n + [0] * (3 - n)
        places = [body.index(one) for one in proofs[:n]]
        assert places == sorted(places)
        assert body.count("Result ") == n
        if n < 3:
            blobs = [item.get("encrypted_content") or "" for item in plain(response)["output"]]
            assert proofs[n] in "".join(blobs)
        history += put_back(response, bare=bare)
    assert came_out(response) == [("text", "It rains.")]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wire", wires("custom tool"))
async def test_custom_tool(stage: Stage) -> None:
    """A true custom call comes out, and goes back in as the wire wants it."""
    query = 'SELECT "naïve"\nFROM t'
    wrapped = json.dumps({"input": query})
    stage.fake.plays(Script((Called("run_sql", wrapped),), "tool_calls"), Script((Text("One row."),)))
    asked: list[dict[str, Any]] = [{"role": "user", "content": "Ask."}]
    tools = [scenarios.SQL, scenarios.WEATHER]
    first = await stage.answer({"input": asked, "tools": tools})
    [call] = plain(first)["output"]
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "run_sql", query)
    assert "lark" in stage.sent()
    second = await stage.answer({"input": asked + put_back(first), "tools": tools})
    assert came_out(second) == [("text", "One row.")]
    assert stage.sent().count("run_sql") >= 2
    assert "Result 0." in stage.sent()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wire", wires("namespace tool"))
async def test_namespace_tool(stage: Stage) -> None:
    stage.fake.plays(Script((Called("mcp__git__log"),), "tool_calls"), Script((Text("Nothing."),)))
    asked: list[dict[str, Any]] = [{"role": "user", "content": "Log."}]
    tools = [scenarios.GIT, scenarios.WEATHER]
    first = await stage.answer({"input": asked, "tools": tools})
    [call] = plain(first)["output"]
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "mcp__git", "log")
    second = await stage.answer({"input": asked + put_back(first), "tools": tools})
    assert came_out(second) == [("text", "Nothing.")]
    assert stage.sent().count("mcp__git") >= 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("wire", "name"), cases(*(f"tool_choice {name}" for name in CHOICES)))
async def test_tool_choice(stage: Stage, name: str) -> None:
    """A choice reaches the upstream, or a receipt says that it does not."""
    choice = CHOICES[name.removeprefix("tool_choice ")]
    request = {"input": "Go.", "tools": [scenarios.WEATHER, scenarios.TIME, scenarios.SQL]}
    stage.fake.plays(Script((Text("Yes."),)), Script((Text("Yes."),)))
    await stage.answer(request)
    turn = stage.turn(request | {"tool_choice": choice})
    response = await stage.run(turn)
    assert came_out(response) == [("text", "Yes.")]
    if choice not in ("auto", CHOICES["allowed_tools"]):
        told = any(receipt.param == "tool_choice" for receipt in turn.receipts)
        assert told or stage.sent(-1) != stage.sent(-2)


# --- the check itself -------------------------------------------------------------------------------------

FAULTS = (
    "unknown key",
    "unknown role",
    "unknown key inside",
    "wrong type inside",
    "unknown key in a tool",
    "call without a result",
)
LENIENT = {("ollama", "call without a result")}
"""Ollama takes a history as it is."""


def spoiled(body: dict[str, Any], how: str) -> dict[str, Any]:
    """A body of ours with one fault."""
    bad: dict[str, Any] = copy.deepcopy(body)
    [speech] = [name for name in ("messages", "contents", "input") if name in bad]
    match how:
        case "unknown key":
            bad["bogus"] = 1
        case "unknown role":
            bad[speech][0]["role"] = "bogus"
        case "unknown key inside":
            bad[speech][0]["bogus"] = 1
        case "wrong type inside":
            bad[speech][0]["parts" if speech == "contents" else "content"] = 7
        case "unknown key in a tool":
            bad.get("toolConfig", bad)["tools"][0]["bogus"] = 1
        case "call without a result":
            del bad[speech][-1]
    return bad


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("wire", "how"), [(wire, how) for wire in FAKES for how in FAULTS if (wire, how) not in LENIENT]
)
async def test_a_bad_body_is_caught(stage: Stage, how: str) -> None:
    """Whatever our adapter would do wrong, the official types or the rules of the API notice."""
    called = Script((Called("get_weather", scenarios.PARIS),), "tool_calls")
    stage.fake.plays(called, Script((Text("Rain."),)))
    asked: list[dict[str, Any]] = [{"role": "user", "content": "What is the weather?"}]
    first = await stage.answer(scenarios.TOOLS | {"input": asked})
    await stage.answer(scenarios.TOOLS | {"input": asked + put_back(first)})
    good = stage.fake.requests[-1]
    assert stage.fake.mistakes(replace(good, body=spoiled(good.body, how))) != []


# --- media ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("wire", "name"), cases("image", "file"))
async def test_media(stage: Stage, name: str) -> None:
    """It reaches the upstream, or is refused with its place when the provider says that it takes none."""
    part = {
        "image": {"type": "input_image", "image_url": f"data:image/png;base64,{scenarios.PNG}"},
        "file": {
            "type": "input_file",
            "filename": "report.pdf",
            "file_data": f"data:application/pdf;base64,{scenarios.PDF}",
        },
    }[name]
    content = [{"type": "input_text", "text": "What is this?"}, part]
    request = {"input": [{"role": "user", "content": content}]}
    if not getattr(stage.provider.capabilities, f"{name}s"):
        with pytest.raises(UpstreamError) as caught:
            await stage.answer(request)
        assert caught.value.payload.param == "input[0].content[1]"
        assert caught.value.payload.code == "unsupported_content"
        assert stage.fake.requests == []
        return
    stage.fake.plays(Script((Text("A dot."),)))
    assert came_out(await stage.answer(request)) == [("text", "A dot.")]
    assert {"image": scenarios.PNG, "file": scenarios.PDF}[name] in stage.sent()
    assert "What is this?" in stage.sent()


def test_the_check_of_the_schema_sees_custom_calls() -> None:
    """What stands for a custom call must be what the schema demands of a function call."""
    item = to_builtins(msgspec.json.decode(b'{"type":"custom_tool_call","id":"a","input":"x"}'))
    assert as_functions([item]) == [{"type": "function_call", "id": "a", "arguments": "x"}]
