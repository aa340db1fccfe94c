"""Scripts: every step, every mistake, and the examples of the documentation."""

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ConfigErrors, Where
from antiphon.providers.base import Environment, UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import create_provider
from antiphon.providers.script import ScriptProvider, ScriptSettings
from antiphon.providers.script.file import parse
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_item
from antiphon.spec.response import Response
from antiphon.stream.deltas import CallDelta, Failure, Finish, TextDelta
from tests.providers.build import build
from tests.providers.build import environment as lent
from tests.providers.compose import answer, answering, batches, make_turn, plain, told

DOCS = Path(__file__).parents[3] / "docs/providers/script.md"


def demo(**keys: Any) -> ScriptProvider:
    return build(ScriptProvider, "demo", UpstreamClient(), **keys)


def scripted(script: Any) -> ScriptProvider:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(script if isinstance(script, str) else json.dumps(script))
        file.flush()
        return demo(file=file.name)


async def play(*steps: Any, request: Any = "Hi") -> Response:
    return await answer(scripted(list(steps)), make_turn(request))


async def refused(provider: ScriptProvider, request: Any = "Hi") -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn(request))
    return caught.value


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)


# --- the documentation ------------------------------------------------------------------------------------


async def test_paris_and_tokyo() -> None:
    _, script = blocks("toml")
    provider = scripted(script)
    turn = make_turn("What is the weather in Paris and Tokyo?")
    first = await answer(provider, turn)
    assert told(first) == [
        "reasoning: Two cities, so two calls.",
        ("get_weather", '{"city":"Paris"}', "call_paris"),
        ("get_weather", '{"city":"Tokyo"}', "call_tokyo"),
    ]
    outputs = [
        {"type": "function_call_output", "call_id": call_id, "output": "18"}
        for call_id in ("call_paris", "call_tokyo")
    ]
    turn.items += [*first.output, *(decode_item(encode(output)) for output in outputs)]
    second = await answer(provider, turn)
    assert told(second) == ["Paris has 18 degrees, Tokyo has 25."]
    assert second.usage is not None
    assert (second.usage.total_tokens, second.usage.input_tokens_details.cached_tokens) == (72, 20)


async def test_the_errors_of_the_documentation() -> None:
    early, late = blocks("json")
    error = await refused(scripted(early))
    assert (error.status, error.payload.code, error.retry_after) == (429, "rate_limit_exceeded", 2)
    made = await answer(scripted(late), make_turn())
    assert (told(made), made.status) == (["!Once upon a"], "failed")


async def test_the_script_in_a_request_of_the_documentation() -> None:
    [message] = re.findall(r"^````text\n(.*?)^````", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    made = await answer(demo(), make_turn(message))
    assert (told(made), made.status) == (["!Once upon a time"], "incomplete")


def test_every_step_is_documented() -> None:
    from antiphon.providers.script.steps import STEPS

    rows = re.findall(r"^\| `(\w+)` \| [a-z]", DOCS.read_text(), re.MULTILINE)
    assert set(STEPS) <= set(rows)


# --- steps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "output"),
    [
        ([], []),
        ([{"text": "Hello", "chunk": 2}], ["Hello"]),
        ([{"text": "ab", "times": 3}], ["ababab"]),
        ([{"text": "Grüße 🎼", "chunk": 1}], ["Grüße 🎼"]),
        ([{"text": ""}], []),
        ([{"reasoning": "Hm", "chunk": 1}, {"text": "Yes"}], ["reasoning: Hm", "Yes"]),
        ([{"refusal": "No", "chunk": 1}], ["No"]),
        ([{"echo": True, "chunk": 1}], ["Hi"]),
        ([{"call": "f", "id": "a"}], [("f", "{}", "a")]),
        ([{"call": "f", "arguments": {"a": 1}, "id": "a", "chunk": 2}], [("f", '{"a":1}', "a")]),
        ([{"call": "f", "arguments": "not json", "id": "a"}], [("f", "not json", "a")]),
        (
            [
                {
                    "calls": [
                        {"call": "f", "arguments": {"a": 1}, "id": "a", "chunk": 3},
                        {"call": "g", "id": "b"},
                    ]
                }
            ],
            [("f", '{"a":1}', "a"), ("g", "{}", "b")],
        ),
        ([{"custom": "patch", "input": "*** x", "id": "c", "chunk": 2}], [("patch", "*** x", "c")]),
        ([{"text": "a"}, {"message": "final_answer"}, {"text": "b"}], ["a", "b"]),
        ([{"call": "f", "arguments": '{"a', "id": "a"}, {"finish": "length"}], [("!f", '{"a', "a")]),
    ],
)
async def test_steps(steps: list[Any], output: list[Any]) -> None:
    assert told(await play(*steps)) == output


async def test_calls_are_interleaved() -> None:
    calls = [{"call": "f", "arguments": "abcd", "chunk": 2}, {"call": "g", "arguments": "xy", "chunk": 1}]
    played = [delta for batch in await batches(scripted([{"calls": calls}]), make_turn()) for delta in batch]
    said = [(delta.name, delta.arguments) for delta in played if isinstance(delta, CallDelta)]
    assert said == [("f", ""), ("g", ""), ("", "ab"), ("", "x"), ("", "cd"), ("", "y")]


async def test_every_piece_is_a_batch() -> None:
    played = await batches(scripted([{"text": "abcd", "chunk": 2}]), make_turn())
    assert played[:3] == [[], [TextDelta("ab")], [TextDelta("cd")]]
    assert played[-1][-1] == Finish("stop")


async def test_summaries_signatures_and_annotations() -> None:
    cited = {
        "type": "url_citation",
        "url": "https://a.example",
        "title": "A",
        "start_index": 0,
        "end_index": 2,
    }
    made = await play(
        {"summary": "One", "chunk": 1},
        {"summary": "Two", "part": 1},
        {"signature": "sealed"},
        {"text": "Hi"},
        {"annotation": cited},
    )
    thought, said = plain(made)["output"]
    assert [part["text"] for part in thought["summary"]] == ["One", "Two"]
    assert thought["encrypted_content"] == "sealed"
    assert said["content"][0]["annotations"] == [cited]


async def test_vendor_items_and_events() -> None:
    made = await play(
        {"item": {"type": "acme:search", "status": "completed", "query": "x"}},
        {"event": "acme:progress", "fields": {"percent": 50}},
    )
    [item] = plain(made)["output"]
    assert (item["type"], item["query"]) == ("acme:search", "x")


@pytest.mark.parametrize(
    ("reason", "status"), [("stop", "completed"), ("length", "incomplete"), ("content_filter", "incomplete")]
)
async def test_finishes(reason: str, status: str) -> None:
    assert (await play({"text": "x"}, {"finish": reason})).status == status


async def test_usage_is_estimated_when_it_is_not_given() -> None:
    made = await play({"text": "x" * 40}, request={"input": "y" * 21, "instructions": "z" * 20})
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens) == (11, 10)


async def test_a_cut() -> None:
    made = await play({"text": "On"}, {"cut": True})
    assert made.error is not None
    assert (told(made), made.error.code) == (["!On"], "upstream_closed")


async def test_errors_have_a_status_of_their_own_or_of_their_type() -> None:
    assert (await refused(scripted([{"error": {"status": 503}}]))).status == 503
    assert (await refused(scripted([{"delay": 0.001}, {"error": {"type": "not_found"}}]))).status == 404


async def test_delays_follow_the_clock() -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    played = await batches(
        scripted([{"text": "abc", "chunk": 1, "delay": 0.02}, {"delay": 0.02}]), make_turn()
    )
    assert loop.time() - started >= 0.079
    assert [batch for batch in played if batch == []] == [[], []]


async def test_a_long_delay_can_be_left() -> None:
    stream = answering(scripted([{"delay": 60}, {"text": "x"}]), make_turn())
    assert await anext(stream) == []
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await stream.aclose()


# --- when -------------------------------------------------------------------------------------------------


def saying(word: str, **when: Any) -> dict[str, Any]:
    return {"when": when, "steps": [{"text": word}]}


async def test_the_number_of_the_turn() -> None:
    provider = scripted({"turns": [saying("one", turn=1), saying("three", turn=3), saying("other")]})
    history: list[Any] = []
    said = []
    for n in range(4):
        history.append({"role": "user", "content": str(n)})
        made = await answer(provider, make_turn({"input": history}))
        said += told(made)
        history += plain(made)["output"]
    assert said == ["one", "other", "three", "other"]


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ({"contains": "ello"}, True),
        ({"contains": "bye"}, False),
        ({"model": "m"}, True),
        ({"model": "n"}, False),
        ({"last": "message"}, True),
        ({"last": "function_call_output"}, False),
        ({"last": "message", "turn": 2}, False),
    ],
)
async def test_conditions(when: dict[str, Any], fits: bool) -> None:
    provider = scripted({"turns": [saying("yes", **when), saying("no")]})
    assert told(await answer(provider, make_turn("Hello"))) == ["yes" if fits else "no"]


async def test_no_turn_fits() -> None:
    error = await refused(scripted({"turns": [saying("x", turn=2)]}))
    assert (error.status, error.payload.code) == (400, "invalid_script")
    assert "turn 1" in error.payload.message


# --- scripts in requests ----------------------------------------------------------------------------------


def fenced(script: str) -> str:
    return f"Please.\n```script\n{script}\n```\nThanks."


async def test_the_newest_script_wins() -> None:
    request = {
        "instructions": fenced('[{"text":"instructed"}]'),
        "input": [
            {"role": "user", "content": fenced('[{"text":"old"}]')},
            {"role": "user", "content": fenced("[[steps]]\ntext = 'new'")},
            {"role": "user", "content": "go"},
        ],
    }
    assert told(await answer(demo(), make_turn(request))) == ["new"]
    assert told(await answer(demo(), make_turn({**request, "input": "go"}))) == ["instructed"]


async def test_a_provider_can_ignore_scripts_in_requests() -> None:
    words = fenced('[{"text":"new"}]')
    provider = demo(from_requests=False)
    assert told(await answer(provider, make_turn(words))) == [words]


@pytest.mark.parametrize(
    ("where", "request_"),
    [
        ("input", {"input": fenced("[{]")}),
        ("instructions", {"input": "x", "instructions": fenced("nonsense")}),
    ],
)
async def test_a_bad_script_in_a_request(where: str, request_: dict[str, Any]) -> None:
    error = await refused(demo(), request_)
    assert (error.status, error.payload.code, error.payload.param) == (400, "invalid_script", where)


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("7", "not valid TOML"),
        ("{}", "expected a list of steps"),
        ('{"turns": []}', "turns: expected a list"),
        ('{"turns": [{"steps": [], "if": 1}]}', r"turns\[0\]: expected a table with `steps`"),
        ('{"turns": [{"steps": [], "when": {"turn": 0}}]}', r"turns\[0\]\.when: .*>= 1"),
        ('{"turns": [{"steps": {}}]}', r"turns\[0\]\.steps: expected a list"),
        ('[{"txt": "x"}]', r"steps\[0\]: no such step; .*text, reasoning"),
        ('["x"]', r"steps\[0\]: expected a table"),
        ('[{"text": 7}]', r"steps\[0\]: Expected `str`"),
        ('[{"text": "x", "colour": "red"}]', r"steps\[0\]: .*unknown field `colour`"),
        ('[{"text": "x", "delay": 61}]', r"steps\[0\]: .*<= 60"),
        ('[{"finish": "stop"}, {"text": "x"}]', r"steps\[1\]: nothing can follow"),
        ('[{"finish": "because"}]', r"steps\[0\]: Invalid enum value"),
    ],
)
def test_mistakes_are_told_with_their_place(script: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(script)


# --- configuration ----------------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return lent(UpstreamClient(), tmp_path)


def config(folder: Path, **options: Any) -> ScriptSettings:
    origin = Where(str(folder / "antiphon.toml"), 2)
    return ScriptSettings(type="script", name="demo", origin=origin, **options)


async def test_a_file_beside_the_configuration(tmp_path: Path, environment: Environment) -> None:
    (tmp_path / "a.json").write_text('[{"text": "from a file"}]')
    provider = create_provider(config(tmp_path, file="a.json"), environment)
    assert told(await answer(provider, make_turn())) == ["from a file"]
    assert await provider.models() == ["demo"]
    assert await provider.count_tokens(make_turn()) is None
    await provider.close()


async def test_without_a_file_it_echoes(tmp_path: Path, environment: Environment) -> None:
    provider = ScriptProvider(config(tmp_path), environment)
    assert told(await answer(provider, make_turn("Is there an echo?"))) == ["Is there an echo?"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"file": "missing.toml"}, r"antiphon\.toml:2: providers\.demo\.file: the script: .*No such file"),
        ({"file": "bad.toml"}, r"providers\.demo\.file: the script: .*not valid TOML"),
    ],
)
def test_mistakes_in_the_configuration(
    tmp_path: Path, environment: Environment, options: dict[str, Any], complaint: str
) -> None:
    (tmp_path / "bad.toml").write_text("[[[")
    with pytest.raises(ConfigErrors, match=complaint):
        ScriptProvider(config(tmp_path, **options), environment)


async def test_a_failure_in_the_middle_has_its_own_words() -> None:
    played = await batches(
        scripted([{"text": "x"}, {"error": {"message": "boom", "param": "input"}}]), make_turn()
    )
    last = played[-1][-1]
    assert isinstance(last, Failure)
    assert (last.error.message, last.error.code, last.error.param) == ("boom", "scripted", "input")
