"""The examples of docs/wire.md are true."""

import doctest
import re
from pathlib import Path

import pytest

from antiphon.spec import limits
from antiphon.spec.errors import STATUS

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"


def test_every_example_prints_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    globs: dict[str, object] = {}
    runner = doctest.DocTestRunner()
    said: list[str] = []
    for n, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, globs, f"wire.md block {n}", str(PAGE), 0)
        runner.run(test, out=said.append, clear_globs=False)
        globs = test.globs
    assert runner.failures == 0, "".join(said)
    assert runner.tries > 30


@pytest.mark.parametrize(
    "words",
    [
        f"{limits.MAX_DEPTH} levels of nesting",
        f"{limits.MAX_VALUES:,} values and field names in one body",
        f"grows to {limits.MAX_PROBLEMS} at most",
        f"{limits.MAX_UNKNOWN_FIELDS} unknown fields with names of {limits.MAX_UNKNOWN_NAME} characters",
        f"{limits.MAX_UNKNOWN_SHAPES} different sets of unknown fields",
        f"{limits.MAX_BODY // 2**20} MiB",
        *(f"`{kind}` {status}" for kind, status in STATUS.items() if kind != "server_error"),
    ],
)
def test_the_numbers_on_the_page_are_those_of_the_code(words: str) -> None:
    assert words in PAGE.read_text()
