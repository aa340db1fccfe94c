"""The router of the library: several targets, no server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import antiphon
from antiphon.client import UsageError
from antiphon.client.router import ProviderStatus, Router
from antiphon.spec.routing import SpeedRequirement, TaskComplexity
from antiphon.stream.auditor import audit_sse

HELLO = [{"role": "user", "content": "Say hello."}]

ANSWERS = {
    "small": "{ text = 'I am small.' }",
    "middle": "{ text = 'I am in the middle.' }",
    "large": "{ text = 'I am large.' }",
}
BROKEN = "{ error = { message = 'out of order', code = 'upstream_error', status = 502 } }"
LIMITED = "{ error = { message = 'slow down', code = 'rate_limit_exceeded', status = 429 } }"
CUT = "{ text = 'I was about' }, { cut = true }"


def configured(folder: Path, strategy: str = "tiers", **steps: str) -> Path:
    """A configuration with three targets, each of which plays its steps."""
    lines = ["default_model = 'any'", "[local]", "enabled = false", "[store]", f"path = '{folder}/data'"]
    for name, played in (ANSWERS | steps).items():
        (folder / f"{name}.toml").write_text(f"[[turns]]\nsteps = [ {played} ]\n")
        lines += [f"[providers.{name}]", "type = 'script'", f"file = '{name}.toml'"]
    targets = ", ".join(f"'{name}/m'" for name in ANSWERS)
    lines += ["[models]", f"any = [{targets}]", "[routes.any]", f"strategy = '{strategy}'", "retries = 2"]
    path = folder / "antiphon.toml"
    path.write_text("\n".join(lines))
    return path


async def told(stream: AsyncIterator[str]) -> list[dict[str, Any]]:
    """The events of a stream that keeps the rules and ends with `[DONE]`."""
    texts = [text async for text in stream]
    assert texts[-1] == "data: [DONE]\n\n"
    assert audit_sse("".join(texts).encode()) == []
    frames = "".join(texts[:-1]).split("\n\n")
    return [msgspec.json.decode(frame.partition("data: ")[2]) for frame in frames if frame]


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
    assert router.status("middle").last_error == "server_error"
    assert router.status("middle").can_use()


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


@pytest.mark.parametrize("steps", [BROKEN, CUT])
async def test_a_failure_at_the_end_is_told_as_one_of_the_provider(tmp_path: Path, steps: str) -> None:
    config = configured(tmp_path, "order", small=steps, middle=steps, large=steps)
    async with Router(config=config) as router:
        events = await told(router.stream_open_responses(HELLO))
    assert events[-1]["type"] == "response.failed"
    error = events[-1]["response"]["error"]
    assert error["code"] == "provider_failed"
    assert [event["type"] for event in events].count("response.created") == 1


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
    status.record_error("it fell over")
    assert status.can_use()
    status.available = False
    assert not status.can_use()
