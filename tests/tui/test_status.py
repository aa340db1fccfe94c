"""The line below the composer: what an answer took, of which window, and at which price."""

from pathlib import Path

import pytest

from antiphon.spec.response import Response, Usage
from antiphon.tui.current_chat import Settings
from antiphon.tui.status import Status, StatusModel, cost_of, facts_of
from tests.server.servers import Serving, configure
from tests.tui.conftest import SCRIPTED, Start, script

PRICED = """
[catalogue."demo/script"]
context_window = 2000
[catalogue."demo/script".prices]
input = 2.0
cached_input = 0.5
output = 8.0
"""


async def test_cost_and_context_are_told_where_the_catalogue_knows_them(chat: Start, tmp_path: Path) -> None:
    usage = {"usage": {"input_tokens": 600, "output_tokens": 200, "cached_tokens": 400}}
    told = script({"text": "An answer. ", "times": 5}, usage)
    with Serving(configure(tmp_path / "gateway", SCRIPTED + PRICED)) as serving:
        async with chat(size=(120, 30), base_url=f"{serving.url}/v1", system=told) as chatting:
            await chatting.say("What does it cost?")
            line = str(chatting.app.query_one("#status").render())
            # 200 fresh tokens at 2, 400 from the cache at 0.5, 200 written at 8, for a million each
            assert line.startswith("demo  ·  600 in, 200 out  ·  40% of 2k  ·  $0.0022  ·  first token ")


@pytest.mark.parametrize(("end", "shown"), [(2.5, "100 tok/s"), (0.52, "first token 500 ms")])
def test_speed_is_told_of_what_took_a_while(end: float, shown: str) -> None:
    """An answer that came all at once has none."""
    last = Response(id="resp_1", created_at=1, model="demo", usage=Usage.of(600, 200))
    status = Settings().status(last, {}, (0.5, end), "")
    assert status.line(120).split("  ·  ")[-1] == shown


async def test_what_is_not_known_is_left_out(chat: Start) -> None:
    async with chat(size=(120, 30), system=script({"text": "An answer."})) as chatting:
        await chatting.say("What does it cost?")
        line = str(chatting.app.query_one("#status").render())
        assert "$" not in line
        assert "%" not in line
        assert " in, " in line


def test_prices_of_steps_are_not_guessed() -> None:
    prices = {"input": 2, "output": 8, "steps": [{"above": 1000, "input": 4}]}
    assert facts_of({"antiphon:model": {"prices": prices, "context_window": 8192}}) == StatusModel(8192)
    assert facts_of({"max_model_len": 4096}) == StatusModel(4096)
    assert cost_of(StatusModel(input_price=2), 1, 1, 0) is None


@pytest.mark.parametrize("width", [200, 60, 40, 12])
def test_a_narrow_terminal_drops_what_matters_least(width: int) -> None:
    status = Status("demo", "high", True, 600, 200, 2000, 0.0022, 0.4, 31.0, "answering")
    whole = status.line(1000).split("  ·  ")
    shown = status.line(width).split("  ·  ")
    assert shown == whole[: len(shown)]
    assert shown[:2] == ["answering", "demo"]
    assert len(status.line(width)) <= max(width, len("answering  ·  demo"))
