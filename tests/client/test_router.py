"""The router of the library: several targets, no server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import antiphon
from antiphon.client import UsageError
from antiphon.client.router import ProviderStatus, Router
from antiphon.spec.routing import SpeedRequirement, TaskComplexity
from antiphon.stream.auditor import audit_sse
from tests.client.scripted_server import Player, streamed
from tests.providers.fake_server import Step, Wire

HELLO = [{"role": "user", "content": "Say hello."}]

ANSWERS = {
    "small": "{ text = 'I am small.' }",
    "middle": "{ text = 'I am in the middle.' }",
    "large": "{ text = 'I am large.' }",
}
BROKEN = "{ error = { message = 'out of order', code = 'upstream_error', status = 502 } }"
LIMITED = "{ error = { message = 'slow down', code = 'rate_limit_exceeded', status = 429 } }"
OUT_OF_CREDIT = "{ error = { message = 'pay first', code = 'insufficient_quota', status = 402 } }"
TOO_MUCH = (
    "{ error = { message = 'max_output_tokens 429 is more than 256', type = 'invalid_request',"
    " code = 'invalid_value', status = 400 } }"
)
CUT = "{ text = 'I was about' }, { cut = true }"
LIMITED_LATE = f"{{ text = 'I was about' }}, {LIMITED}"
ENDLESS = "{ text = 'I think' }, { delay = 60 }"

CALLS_FUNCTION = "{ call = 'add', arguments = { a = 1, b = 2 } }"
FUNCTION = {"type": "antiphon:function", "name": "add"}
CALLS_CUSTOM = "{ custom = 'vowel', input = 'b' }"
GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "[aeiou]"}
CUSTOM = {"type": "custom", "name": "vowel", "format": GRAMMAR}

ONE_TARGET = pytest.mark.parametrize("model", ["one", "table", "small/m"])
"""An alias with one target, the same with a table of its own, and the target itself."""


def configured(folder: Path, strategy: str = "tiers", **steps: str) -> Path:
    """A configuration with three targets, each of which plays its steps, and names for one of them."""
    lines = ["default_model = 'any'", "[local]", "enabled = false", "[store]", f"path = '{folder}/data'"]
    for name, played in (ANSWERS | steps).items():
        (folder / f"{name}.toml").write_text(f"[[turns]]\nsteps = [ {played} ]\n")
        lines += [f"[providers.{name}]", "type = 'script'", f"file = '{name}.toml'"]
    targets = ", ".join(f"'{name}/m'" for name in ANSWERS)
    lines += ["[models]", f"any = [{targets}]", "one = 'small/m'", "table = 'small/m'"]
    lines += ["[routes.any]", f"strategy = '{strategy}'", "retries = 2", "[routes.table]", "retries = 2"]
    path = folder / "antiphon.toml"
    path.write_text("\n".join(lines))
    return path


def play_turns(config: Path, first: str, second: str) -> None:
    """The first target answers with a call, and plays the second steps when it is asked again."""
    config.write_text(
        f"{config.read_text()}\n[tools.function]\nload = ['tests.tools.hosted_functions:add']\n"
    )
    (config.parent / "small.toml").write_text(
        f"[[turns]]\nwhen = {{ contains = 'Say hello.' }}\nsteps = [ {first} ]\n"
        f"[[turns]]\nsteps = [ {second} ]\n"
    )


async def told(stream: AsyncIterator[str], *, extensions: bool = False) -> list[dict[str, Any]]:
    """The events of a stream that keeps the rules and ends with `[DONE]`."""
    texts = [text async for text in stream]
    assert texts[-1] == "data: [DONE]\n\n"
    assert audit_sse("".join(texts).encode(), extensions=extensions) == []
    frames = "".join(texts[:-1]).split("\n\n")
    return [msgspec.json.decode(frame.partition("data: ")[2]) for frame in frames if frame]


def error_of(events: list[dict[str, Any]]) -> str:
    """The message of the failure that a stream ends with."""
    assert events[-1]["type"] == "response.failed"
    error = events[-1]["response"]["error"]
    assert error["code"] == "provider_failed"
    return str(error["message"])


async def test_the_task_chooses(tmp_path: Path) -> None:
    async with Router(config=configured(tmp_path)) as router:
        simple = await told(router.stream_open_responses(HELLO, complexity=TaskComplexity.SIMPLE))
        critical = await told(router.stream_open_responses(HELLO, "Be brief.", "critical", "normal"))
    assert simple[-1]["response"]["model"] == "small/m"
    assert critical[-1]["response"]["model"] == "large/m"
    assert critical[-1]["response"]["instructions"] == "Be brief."
    assert router.status("small").requests_today == 1
    assert router.status("small").tokens_today > 0
    assert router.status("middle").requests_today == 0


async def test_a_decision_without_a_request(tmp_path: Path) -> None:
    async with Router(config=configured(tmp_path)) as router:
        found = await router.route(HELLO, complexity="complex", speed=SpeedRequirement.NORMAL)
    assert isinstance(found, antiphon.RoutingDecision)
    assert (found.provider_name, found.model_name) == ("middle", "m")
    assert found.fallback_providers == ["large/m", "small/m"]
    assert found.reasoning == "complex task, normal answer: the tier for it"
    assert found.estimated_cost is None


async def test_a_name_with_one_target_decides_nothing(tmp_path: Path) -> None:
    async with Router("small/m", config=configured(tmp_path)) as router:
        found = await router.route()
        assert (found.provider_name, found.reasoning) == ("small", "the only target")
        assert (await told(router.stream_open_responses(HELLO)))[-1]["type"] == "response.completed"


async def test_another_provider_answers_when_the_first_fails(tmp_path: Path) -> None:
    async with Router(config=configured(tmp_path, middle=BROKEN)) as router:
        events = await told(router.stream_open_responses(HELLO))
    assert [event["type"] for event in events].count("response.created") == 1
    assert events[-1]["response"]["model"] == "large/m"
    assert router.status("middle").last_error == "502 upstream_error: out of order"
    assert router.status("middle").can_use()
    assert (router.status("middle").requests_today, router.status("middle").tokens_today) == (0, 0)
    assert router.status("large").requests_today == 1
    assert router.status("large").tokens_today == events[-1]["response"]["usage"]["total_tokens"]


async def test_a_provider_with_too_many_requests_is_left_alone(tmp_path: Path) -> None:
    async with Router(config=configured(tmp_path, middle=LIMITED)) as router:
        await told(router.stream_open_responses(HELLO))
        assert not router.status("middle").can_use()
        found = await router.route(HELLO)
    assert found.provider_name == "large"
    assert "middle/m" not in found.fallback_providers


async def test_a_daily_limit(tmp_path: Path) -> None:
    async with Router(config=configured(tmp_path), daily_limits={"small": 1}) as router:
        models = [
            (await told(router.stream_open_responses(HELLO, complexity="simple")))[-1]["response"]["model"]
            for _ in range(2)
        ]
    assert models == ["small/m", "middle/m"]


async def test_a_daily_limit_holds_whatever_the_strategy(tmp_path: Path) -> None:
    path = configured(tmp_path, strategy="order")
    async with Router(config=path, daily_limits={"small": 1}) as router:
        models = [
            (await told(router.stream_open_responses(HELLO)))[-1]["response"]["model"] for _ in range(2)
        ]
    assert models == ["small/m", "middle/m"]


@pytest.mark.parametrize(
    ("steps", "told_of"),
    [
        (BROKEN, "large: out of order"),
        (LIMITED, "large: slow down"),
        (CUT, "small: the connection was closed in the middle of the answer"),
    ],
)
async def test_a_failure_at_the_end_is_told_as_one_of_the_provider(
    tmp_path: Path, steps: str, told_of: str
) -> None:
    config = configured(tmp_path, "order", small=steps, middle=steps, large=steps)
    async with Router(config=config) as router:
        events = await told(router.stream_open_responses(HELLO))
    assert error_of(events) == told_of
    assert [event["type"] for event in events].count("response.created") == 1


async def test_when_all_have_too_many_requests_all_are_left_alone(tmp_path: Path) -> None:
    config = configured(tmp_path, "order", small=LIMITED, middle=LIMITED, large=LIMITED)
    async with Router(config=config) as router:
        await told(router.stream_open_responses(HELLO))
        statuses = dict(router.statuses)
        message = error_of(await told(router.stream_open_responses(HELLO)))
        with pytest.raises(UsageError, match=r"small: 429 .*; middle: 429 .*; large: 429 "):
            await router.route(HELLO)
    assert list(statuses) == list(ANSWERS)
    for name, status in statuses.items():
        assert not status.can_use()
        assert (status.requests_today, status.last_error) == (0, "429 rate_limit_exceeded: slow down")
        assert f"{name}: 429 rate_limit_exceeded: slow down, free again in " in message


async def test_of_several_that_cannot_be_asked_the_first_to_be_free_is_told_first(tmp_path: Path) -> None:
    config = configured(tmp_path, "order", middle=LIMITED)
    async with Router(config=config, daily_limits={"small": 1, "large": 0}) as router:
        router.status("middle").record_error("429")
        router.status("large").available = False
        await told(router.stream_open_responses(HELLO))
        message = error_of(await told(router.stream_open_responses(HELLO)))
    first, second, third = message.split("; ")
    assert first.startswith("middle: 429, free again in ")
    assert second.startswith("small: its daily limit of 1 is reached, free again in ")
    assert third == "large: it is not to be asked"


@ONE_TARGET
async def test_the_only_target_is_counted(tmp_path: Path, model: str) -> None:
    async with Router(model, config=configured(tmp_path)) as router:
        ends = [(await told(router.stream_open_responses(HELLO)))[-1]["response"] for _ in range(2)]
        small = router.status("small")
    assert (small.requests_today, small.last_error) == (2, None)
    assert small.tokens_today == sum(end["usage"]["total_tokens"] for end in ends) > 0


@ONE_TARGET
async def test_a_daily_limit_of_the_only_target(tmp_path: Path, model: str) -> None:
    async with Router(model, config=configured(tmp_path), daily_limits={"small": 1}) as router:
        first = await told(router.stream_open_responses(HELLO))
        message = error_of(await told(router.stream_open_responses(HELLO)))
        with pytest.raises(UsageError, match="small: its daily limit of 1 is reached, free again in "):
            await router.route(HELLO)
    assert first[-1]["type"] == "response.completed"
    assert message.startswith("small: its daily limit of 1 is reached, free again in ")
    assert router.status("small").requests_today == 1


@ONE_TARGET
@pytest.mark.parametrize("steps", [LIMITED, LIMITED_LATE])
async def test_the_only_target_is_left_alone_with_too_many_requests(
    tmp_path: Path, model: str, steps: str
) -> None:
    async with Router(model, config=configured(tmp_path, small=steps)) as router:
        first = error_of(await told(router.stream_open_responses(HELLO)))
        small = router.status("small")
        assert (small.requests_today, small.tokens_today, small.can_use()) == (0, 0, False)
        second = error_of(await told(router.stream_open_responses(HELLO)))
    assert first == "small: slow down"
    assert small.last_error is not None
    assert small.last_error.endswith("rate_limit_exceeded: slow down")
    assert second.startswith(f"small: {small.last_error}, free again in ")


@pytest.mark.parametrize("model", ["one", "table", "small/m", "any"])
async def test_a_reader_that_leaves_is_counted(tmp_path: Path, model: str) -> None:
    async with Router(model, config=configured(tmp_path, "order", small=ENDLESS)) as router:
        async with aclosing(router.stream_open_responses(HELLO)) as stream:
            await anext(stream)
            assert router.status("small").requests_today == 1
        assert router.status("small").requests_today == 1
    assert router.status("small").requests_today == 1
    assert router.status("small").last_error is None
    assert list(router.statuses) == ["small"]


@pytest.mark.parametrize(("model", "answered"), [("one", 1), ("any", 4)])
async def test_a_daily_limit_holds_for_requests_at_the_same_time(
    tmp_path: Path, model: str, answered: int
) -> None:
    async with Router(model, config=configured(tmp_path, "order"), daily_limits={"small": 1}) as router:
        streams = [told(router.stream_open_responses(HELLO)) for _ in range(4)]
        ends = [events[-1] for events in await asyncio.gather(*streams)]
    assert [end["type"] for end in ends].count("response.completed") == answered
    assert [end["response"]["model"] for end in ends if end["response"]["output"]].count("small/m") <= 1
    assert router.status("small").requests_today == 1


@pytest.mark.parametrize("model", ["one", "table", "any"])
async def test_a_request_of_several_model_turns_counts_once(tmp_path: Path, model: str) -> None:
    path = configured(tmp_path, "order")
    play_turns(path, CALLS_FUNCTION, ANSWERS["small"])
    async with Router(model, config=path, daily_limits={"small": 1}) as router:
        stream = router.stream_open_responses(HELLO, tools=[FUNCTION])
        end = (await told(stream, extensions=True))[-1]
    assert end["type"] == "response.completed"
    assert [item["type"] for item in end["response"]["output"]] == ["antiphon:function_call", "message"]
    assert router.status("small").requests_today == 1
    assert router.status("small").tokens_today == end["response"]["usage"]["total_tokens"]


@pytest.mark.parametrize(
    ("model", "call", "tool", "ending"),
    [
        ("one", CALLS_FUNCTION, FUNCTION, "response.failed"),
        ("any", CALLS_FUNCTION, FUNCTION, "response.completed"),
        ("one", CALLS_CUSTOM, CUSTOM, "response.completed"),
    ],
    ids=["the only target", "one of several", "a correction"],
)
async def test_a_provider_that_has_answered_is_counted_when_a_later_turn_fails(
    tmp_path: Path, model: str, call: str, tool: dict[str, Any], ending: str
) -> None:
    path = configured(tmp_path, "order")
    play_turns(path, call, BROKEN)
    async with Router(model, config=path, daily_limits={"small": 1}) as router:
        texts = [text async for text in router.stream_open_responses(HELLO, tools=[tool])]
        small = router.status("small")
    assert f"event: {ending}\n" in texts[-2]
    assert small.last_error == "502 upstream_error: out of order"
    assert (small.requests_today, small.can_use()) == (1, False)


async def test_a_request_of_yesterday_that_fails_takes_none_of_today_back(tmp_path: Path) -> None:
    now, midnight = [86400.0 * 20000 - 1], asyncio.Event()
    async with Player(Wire([midnight, Step.CLOSE]), streamed("Good morning.")) as upstream:
        path = configured(tmp_path)
        remote = f"[providers.remote]\ntype = 'responses'\nbase_url = '{upstream.base_url}'\n"
        path.write_text(f"{path.read_text()}\n{remote}")
        async with Router("remote/m", config=path, daily_limits={"remote": 1}) as router:
            status = router.status("remote")
            status.clock = lambda: now[0]
            first = asyncio.create_task(told(router.stream_open_responses(HELLO)))
            await upstream.asked.wait()
            now[0] += 2
            second = await told(router.stream_open_responses(HELLO))
            midnight.set()
            error_of(await first)
    assert second[-1]["type"] == "response.completed"
    assert (status.requests_today, status.can_use()) == (1, False)


@pytest.mark.parametrize(
    ("steps", "can_use"),
    [(TOO_MUCH, True), (LIMITED, False), (LIMITED_LATE, False), (OUT_OF_CREDIT, False)],
    ids=["a number", "a rate limit", "a rate limit in the middle", "a quota"],
)
async def test_the_kind_of_a_failure_blocks_and_not_its_words(
    tmp_path: Path, steps: str, can_use: bool
) -> None:
    async with Router("one", config=configured(tmp_path, small=steps)) as router:
        error_of(await told(router.stream_open_responses(HELLO)))
        assert router.status("small").can_use() == can_use


async def test_words_that_are_none_are_refused(tmp_path: Path) -> None:
    async with Router(config=configured(tmp_path)) as router:
        with pytest.raises(UsageError, match="there is no TaskComplexity 'hard'; there are 'simple', "):
            await told(router.stream_open_responses(HELLO, complexity="hard"))
        with pytest.raises(UsageError, match="there is no SpeedRequirement 'warp'"):
            await router.route(HELLO, speed="warp")


async def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    async with Router("nobody", config=configured(tmp_path)) as router:
        events = await told(router.stream_open_responses(HELLO))
        assert "does not exist" in events[-1]["response"]["error"]["message"]
        with pytest.raises(UsageError, match="does not exist"):
            await router.route()


def test_the_status_of_a_provider() -> None:
    now = [86400.0 * 20000 + 100]
    status = ProviderStatus("groq", 2, clock=lambda: now[0])
    assert status.can_use()
    status.record_request(10)
    status.record_request()
    assert (status.requests_today, status.tokens_today, status.can_use()) == (2, 10, False)
    now[0] += 86400
    assert status.can_use()
    assert status.requests_today == 0
    status.record_error("HTTP 429: slow down")
    assert (status.can_use(), status.last_error) == (False, "HTTP 429: slow down")
    now[0] += 299
    assert not status.can_use()
    now[0] += 1
    assert status.can_use()
    status.record_error("Rate limit reached")
    assert not status.can_use()
    now[0] += 300
    status.record_error("it fell over (upstream request id 0e429c-14290)")
    assert status.can_use()
    status.available = False
    assert not status.can_use()
