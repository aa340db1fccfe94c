"""What is measured is what users get: no path for benchmarks, and the same bytes under the Auditor."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench import load
from bench.contenders import Contender, folder, ours, over_socket, upstream
from bench.contenders import start_ours as start
from bench.processes import Program

ROOT = Path(__file__).parents[2]
TOKENS = 30
_CHANGING = (
    (re.compile(rb"\b([a-z]+)_[0-9a-zA-Z]{16,}"), rb"\1_id"),
    (re.compile(rb'"(created_at|completed_at)":\d+'), rb'"\1":0'),
)


def test_the_product_knows_of_no_benchmark() -> None:
    known = [
        str(file.relative_to(ROOT))
        for file in (ROOT / "antiphon").rglob("*.py")
        if re.search("bench", file.read_text(), re.IGNORECASE)
    ]
    assert known == []


@pytest.fixture(scope="module")
def gateways() -> Iterator[dict[str, Program]]:
    """One as it is measured and one whose Auditor is on, before the same upstream."""
    with folder() as where, upstream(where) as behind, ExitStack() as stack:
        programs = {}
        for name, audit in (("measured", "false"), ("audited", "true")):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("ANTIPHON_SERVER__AUDIT", audit)
                programs[name] = stack.enter_context(start(where / name, behind.port))
        for program in programs.values():
            program.wait_until_up("/healthz")
        yield programs


def body(one: Contender, model: str, *, stream: bool) -> bytes:
    """The last of three answers, without what differs between any two."""
    outcome = load.run(load.send(one.request(model, stream=stream), count=3, connections=1, limit=10))
    assert (outcome.answers, outcome.failed) == (3, 0), outcome.body
    text = outcome.body
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    return text


@pytest.mark.parametrize("model", [f"each-{TOKENS}", f"burst-{TOKENS}"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_auditor_changes_no_byte(gateways: dict[str, Program], model: str, stream: bool) -> None:
    measured, audited = (body(ours(gateways[name]), model, stream=stream) for name in ("measured", "audited"))
    assert measured == audited
    assert (measured.count(b"event: response.output_text.delta\n") == TOKENS) is stream


def test_the_auditor_changes_no_byte_of_a_websocket(gateways: dict[str, Program]) -> None:
    measured, audited = (
        body(over_socket(gateways[name]), f"each-{TOKENS}", stream=True) for name in ("measured", "audited")
    )
    assert measured == audited
    assert measured.count(b'"type":"response.output_text.delta"') == TOKENS
