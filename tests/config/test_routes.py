"""Aliases with several targets, and how their list is used."""

import tomllib

from antiphon.config import show
from tests.config.conftest import Load

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
    shown = tomllib.loads(show(load_text(TWO + "[routes.two]\nweights = [3, 1]\n")))
    assert shown["models"]["two"] == ["a/x", "a/y"]
    assert shown["models"]["one"] == "a/x"
    assert shown["routes"]["two"]["weights"] == [3, 1]
