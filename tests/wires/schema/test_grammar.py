"""The input of a custom tool against its grammar: what fits, what does not, and what cannot be known."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.wires.schema.grammar import objection
from antiphon.wires.schema.jobs import UNCHECKED
from antiphon.wires.schema.pool import SchemaPool

PATCH = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?
hunk: "*** Add File: " filename LF add_line+
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line // a line may be empty
%import common.LF
"""


def lark(definition: str) -> dict[str, object]:
    return {"type": "grammar", "syntax": "lark", "definition": definition}


def regex(definition: str) -> dict[str, object]:
    return {"type": "grammar", "syntax": "regex", "definition": definition}


LINES = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=12), min_size=1)


@settings(max_examples=30, deadline=None)
@given(lines=LINES)
def test_whatever_stands_in_a_line_of_a_patch_fits(lines: list[str]) -> None:
    text = "".join(f"+{line}\n" for line in lines)
    assert objection(lark(PATCH), f"*** Begin Patch\n*** Add File: a b.py\n{text}*** End Patch") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("*** Begin Patch\n*** Add File: a\n+x\n", "it ends too early"),
        ("*** Begin Patch\n*** Add a\n+x\n*** End Patch", "line 2 goes wrong at character 1: *** Add a"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3 goes wrong at character 1: x"),
        ("", "it ends too early"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, why: str) -> None:
    assert objection(lark(PATCH), text) == why


def test_an_expression_must_match_the_whole_input() -> None:
    assert objection(regex(r"\d+-\d+"), "12-34") is None
    assert objection(regex(r"\d+-\d+"), "12-34x") == "it does not match the expression"


@pytest.mark.parametrize(
    "format",
    [
        {"type": "grammar", "syntax": "lark"},
        {"type": "grammar", "syntax": "abnf", "definition": "x"},
        lark("start: nothing"),
        lark("start: ("),
        lark("start: A\nA: /a*/"),
        regex("("),
    ],
)
def test_a_grammar_that_cannot_be_applied_says_nothing_about_the_input(format: dict[str, object]) -> None:
    assert (objection(format, "a" * 40 + "!") or "").startswith(UNCHECKED)


@pytest.fixture
async def pool() -> AsyncIterator[SchemaPool]:
    pool = SchemaPool()
    yield pool
    await pool.close()


async def test_the_check_runs_apart_and_can_be_killed(pool: SchemaPool) -> None:
    assert await pool.objection_to_text("t", lark(PATCH), "no") == "line 1 goes wrong at character 1: no"
    # Ambiguous beyond reason: every way to part the text is looked at.
    slow = lark("start: a+\na: (b | b b | b b b)+\nb: /x/")
    assert (await pool.objection_to_text("t", slow, "x" * 20_000) or "").startswith(UNCHECKED)
    assert await pool.objection_to_text("t", lark(PATCH), "no") is not None
