"""The small Python: what it runs, and what it refuses."""

from pathlib import Path

import pytest

from antiphon.tools.code_interpreter.engine import Monty


@pytest.fixture
def engine() -> Monty:
    made = Monty(seconds=2, memory=64 << 20, output=1000)
    assert made.unavailable() is None
    return made


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('a')\n[n * n for n in range(4)]", "a\n[0, 1, 4, 9]"),
        ("import math, json\njson.dumps({'x': math.floor(2.5)})", "'{\"x\": 2}'"),
        ("x = 1", ""),
        ("print('y' * 5000)", "y" * 1000),
        ("'y' * 5000", "'" + "y" * 999),
        ("x = 'é'; (x,\r\n 2)  # at last", "('é', 2)"),
        ("print('a'); 1, 2;", "a\n(1, 2)"),
        ("None", ""),
        ("", ""),
    ],
)
async def test_code_gives_what_it_prints_and_its_value(
    engine: Monty, tmp_path: Path, code: str, text: str
) -> None:
    ran = await engine.run(code, tmp_path, tmp_path)
    assert (ran.text, ran.failed) == (text, False)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("open('/etc/passwd').read()", "Permission"),
        ("import socket", "socket"),
        ("import subprocess", "subprocess"),
        ("import os\nos.environ['HOME']", "environ"),
        ("while True: pass", "TimeoutError"),
        ("held = 'a' * 10 ** 10", "MemoryError"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("x = (", "parsing"),
        ("10 ** 20000", "4300 digits"),
        # What it holds is small as long as it is shared, and endless written down.
        ("x = []\nfor i in range(60): x = [x, x]\nx", "worker"),
        ("raise ValueError('no such luck')", "no such luck"),
    ],
)
async def test_what_it_may_not_do_is_told(engine: Monty, tmp_path: Path, code: str, says: str) -> None:
    ran = await engine.run(code, tmp_path, tmp_path)
    assert ran.failed
    assert says in ran.text


async def test_nothing_is_kept_between_calls(engine: Monty, tmp_path: Path) -> None:
    await engine.run("x = 1", tmp_path, tmp_path)
    assert "NameError" in (await engine.run("x", tmp_path, tmp_path)).text
