"""Aliases with several targets, and how their list is used."""

import tomllib

import pytest

from antiphon.config import show
from tests.config.conftest import Load, Mistakes

TWO = (
    '[providers.a]\ntype = "chat"\nbase_url = "http://127.0.0.1:1"\n'
    '[models]\none = "a/x"\ntwo = ["a/x", "a/y"]\ntiers = ["a/x", "a/y"]\n'
)


def test_an_alias_with_one_target_and_no_table_is_no_route(load_text: Load) -> None:
    config = load_text(TWO)
    assert config.route("one") is None
    assert config.route("a/x") is None
    found = config.route("two")
    assert found is not None
    assert [str(target) for target in found.targets] == ["a/x", "a/y"]
    assert (found.settings.retries, found.settings.cooldown, found.settings.on_cut) == (2, 60.0, "restart")
    assert load_text(TWO + "[routes.one]\n").route("one") is not None


def test_targets_rest_longer_in_tiers_unless_the_table_says_how_long(load_text: Load) -> None:
    config = load_text(TWO + '[routes.tiers]\nstrategy = "tiers"\n')
    assert config.routes["tiers"].cooldown == 300
    config = load_text(TWO + '[routes.tiers]\nstrategy = "tiers"\ncooldown = "60 s"\n')
    assert config.routes["tiers"].cooldown == 60


def test_a_route_is_shown_with_all_its_targets(load_text: Load) -> None:
    shown = tomllib.loads(show(load_text(TWO + '[routes.two]\nstrategy = "weighted"\nweights = [3, 1]\n')))
    assert shown["models"]["two"] == ["a/x", "a/y"]
    assert shown["models"]["one"] == "a/x"
    assert shown["routes"]["two"]["weights"] == [3, 1]


def test_each_mistake_in_a_list_has_its_own_line(mistakes: Mistakes) -> None:
    text = (
        '[providers.a]\ntype = "chat"\nbase_url = "http://127.0.0.1:1"\n'
        '[models]\nfast = [\n  "a/x",\n  "zz/x",\n  5,\n  "plain",\n  "a/x",\n  "a/*",\n]\n'
        '[routes.fast]\nstrategy = "weighted"\nfallback_on = [\n  "timeout",\n  "never",\n]\n'
        "weights = [\n  1,\n  -2,\n  inf,\n  nan,\n  0,\n  0,\n]\n"
    )
    assert [" ".join(line.split(" ")[:5]) for line in mistakes(text)] == [
        "antiphon.toml:7:3: models.fast[1]: there is no",
        "antiphon.toml:8:3: models.fast[2]: expected a text",
        "antiphon.toml:9:3: models.fast[3]: expected a target",
        'antiphon.toml:10:3: models.fast[4]: the target "a/x"',
        "antiphon.toml:11:3: models.fast[5]: a target may",
        "antiphon.toml:17:3: routes.fast.fallback_on[1]: expected one of",
        "antiphon.toml:21:3: routes.fast.weights[1]: expected a weight",
        "antiphon.toml:22:3: routes.fast.weights[2]: expected a weight",
        "antiphon.toml:23:3: routes.fast.weights[3]: expected a weight",
    ]


def test_an_element_from_a_variable_is_told_with_the_variable(mistakes: Mistakes) -> None:
    (line,) = mistakes(TWO, ANTIPHON_MODELS__TWO="a/x, zz/x")
    assert line == (
        'environment variable ANTIPHON_MODELS__TWO: models.two: there is no provider "zz"; there is: a, local'
    )


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ANTIPHON_ROUTES__TWO__WEIGHTS", '[1, "x"]'),
        ("ANTIPHON_ROUTES__TWO__WEIGHTS", "1, x"),
        ("ANTIPHON_ROUTES__TWO", '{weights = [1, "x"]}'),
        ("ANTIPHON_ROUTES", '{two = {weights = [1, "x"]}}'),
    ],
)
def test_a_weight_from_a_variable_that_cannot_be_read_is_counted(
    mistakes: Mistakes, variable: str, text: str
) -> None:
    assert mistakes(TWO, **{variable: text}) == [
        f"environment variable {variable}: routes.two.weights[1]: "
        'expected a weight from 0 to 1000000, got "x"'
    ]


def test_too_many_weights_from_a_variable_are_told_beside_one_that_cannot_be_read(mistakes: Mistakes) -> None:
    _, line = mistakes(TWO, ANTIPHON_ROUTES__TWO__WEIGHTS="1, x, 3")
    assert line.endswith("routes.two.weights: expected a weight for each target, 2 in all, got 3")


def test_a_target_from_a_variable_that_cannot_be_read_is_counted(mistakes: Mistakes) -> None:
    (line,) = mistakes(TWO, ANTIPHON_MODELS__NEW='["a/x", 5]', ANTIPHON_ROUTES__NEW__WEIGHTS="1, 2")
    assert line.startswith("environment variable ANTIPHON_MODELS__NEW: models.new[1]: expected a text")


def test_a_table_from_a_variable_has_the_keys_that_it_spells(load_text: Load) -> None:
    config = load_text(TWO, ANTIPHON_ROUTES__TIERS='{strategy = "tiers", cooldown = "60 s"}')
    assert config.routes["tiers"].cooldown == 60
    config = load_text(TWO, ANTIPHON_PROVIDERS__B='{type = "chat", base_url = "http://127.0.0.1:2"}')
    assert "b" in config.providers


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (
            '[routes.two]\ncontext_window_fallback = "a/*"\n',
            '9:1: routes.two.context_window_fallback: expected one target, got "a/*": '
            "only the target of a pattern may have a *",
        ),
        (
            '[routes.one]\ncontext_window_fallback = "a/x"\n',
            '9:1: routes.one.context_window_fallback: "a/x" is the only target already; '
            "name one with a larger window, or leave this out",
        ),
    ],
)
def test_a_fallback_that_could_not_help_is_refused(mistakes: Mistakes, table: str, line: str) -> None:
    assert mistakes(TWO + table) == [f"antiphon.toml:{line}"]


def test_a_fallback_may_be_one_of_several_targets(load_text: Load) -> None:
    """Otherwise a context too long for the first would never reach the second."""
    found = load_text(TWO + '[routes.two]\ncontext_window_fallback = "a/y"\n').route("two")
    assert found is not None
    assert str(found.spare) == "a/y"


def test_a_route_that_has_the_name_of_its_own_target_is_refused(mistakes: Mistakes, load_text: Load) -> None:
    """The name of a target leads to that target alone, also when a response is followed up."""
    (line,) = mistakes(TWO + '"a/y" = ["a/x", "a/y"]\n')
    assert line == (
        'antiphon.toml:8:1: models."a/y": a route cannot have the name of one of its targets, '
        "which leads to that target alone; give it another name"
    )
    assert load_text(TWO + '"a/y" = "a/y"\n').route("a/y") is None
    assert load_text(TWO + '"a/z" = ["a/x", "a/y"]\n').route("a/z") is not None


def test_a_mistake_in_a_list_from_a_variable_names_the_variable(mistakes: Mistakes) -> None:
    """Not the line of the file that it has replaced."""
    (line,) = mistakes(TWO, ANTIPHON_MODELS__TWO='["a/x", 5]')
    assert line.startswith("environment variable ANTIPHON_MODELS__TWO: models.two[1]: expected a text")
