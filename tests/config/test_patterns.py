"""Aliases that are patterns: which one a name gets, and what becomes of its text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import UnknownModel
from antiphon.config.routes import best_pattern, fill_wildcard
from tests.config.conftest import Load, Mistakes

TWO = (
    '[providers.a]\ntype = "chat"\nbase_url = "http://127.0.0.1:1"\n'
    '[providers.b]\ntype = "chat"\nbase_url = "http://127.0.0.1:1"\n'
    "[models]\n"
)
PATTERNS = TWO + (
    '"claude-*" = "a/x"\n"claude-haiku-*" = "a/small"\n"claude-opus-5" = "a/exact"\n"*-latest" = "a/newest"\n'
    '"up-*" = "b/down-*"\n"many-*" = ["a/x", "b/y"]\n'
)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("claude-sonnet-5", "a/x"),
        ("claude-", "a/x"),
        ("claude-haiku-5-5", "a/small"),
        ("claude-opus-5", "a/exact"),
        ("gpt-latest", "a/newest"),
        ("claude-opus-latest", "a/x"),
        ("up-and/away", "b/down-and/away"),
        ("up-", "b/down-"),
        ("b/claude-x", "b/claude-x"),
        ("many-more", "a/x"),
    ],
)
def test_the_most_specific_name_wins(load_text: Load, name: str, target: str) -> None:
    assert str(load_text(PATTERNS).resolve(name)) == target


def test_what_fits_no_pattern_is_unknown(load_text: Load) -> None:
    config = load_text(PATTERNS)
    with pytest.raises(UnknownModel, match="claude-\\*"):
        config.resolve("claude")
    assert [alias for alias in config.aliases() if "claude" in alias or "*" in alias] == ["claude-opus-5"]


def test_a_pattern_with_several_targets_is_a_route(load_text: Load) -> None:
    config = load_text(PATTERNS)
    found = config.route("many-more")
    assert found is not None
    assert (found.name, [str(one) for one in found.targets]) == ("many-*", ["a/x", "b/y"])
    assert config.route("claude-x") is None
    assert load_text(f'default_model = "claude-x"\n{PATTERNS}').resolve() == config.resolve("claude-x")


def test_mistakes_in_patterns_have_their_line(mistakes: Mistakes) -> None:
    (line,) = mistakes(TWO + '"a*b*" = "a/x"\n')
    assert "antiphon.toml:8:" in line
    assert "a pattern has one *, and this one has 2" in line
    for wrong in ('"x" = "a/*"', '"x*" = ["a/*", "b/y"]', '"x*" = "a/*"\n[routes."x*"]'):
        (line,) = mistakes(f"{TWO}{wrong}\n")
        assert "antiphon.toml:8:" in line
        assert "only where it is the one target of a pattern" in line


NAMES = st.text("ab-*", max_size=6)


@given(st.lists(NAMES), st.text("ab-", max_size=8))
def test_what_is_chosen_fits_and_nothing_longer_does(aliases: list[str], name: str) -> None:
    aliases = [alias for alias in aliases if alias.count("*") <= 1]
    chosen = best_pattern(aliases, name)
    fitting = [
        alias
        for alias in aliases
        for text in [name[: len(name) + 1]]
        if "*" in alias and any(alias.replace("*", text[i:j]) == name for i in range(9) for j in range(i, 10))
    ]
    assert (chosen is None) == (not fitting)
    if chosen is not None:
        assert len(chosen) == max(map(len, fitting))
        assert fill_wildcard(chosen, (chosen,), name) == (name,)
