"""A provider whose key is not set: it is disabled, the warning has its place, and no key is repeated."""

from collections.abc import Callable

import pytest

from antiphon.config import Config, Target

Load = Callable[..., Config]


@pytest.mark.parametrize("unset", ["", "  "])
def test_an_unset_variable_disables_its_provider_and_no_other(load_text: Load, unset: str) -> None:
    text = '[providers.{0}]\ntype = "chat"\nbase_url = "https://a.example.com"\napi_key_env = "{1}"\n'
    config = load_text(
        text.format("one", "ONE_KEY") + text.format("two", "TWO_KEY") + '[models]\nfast = "two/x"\n',
        ONE_KEY="sk-1",
        TWO_KEY=unset,
    )
    why = "the environment variable TWO_KEY is not set"
    assert (config.providers["one"].disabled, config.providers["two"].disabled) == ("", why)
    assert config.available() == ["smollm2-135m-instruct", "one/…"]
    assert config.resolve("fast") == Target("two", "x")
    assert [str(one) for one in config.warnings] == [
        f"antiphon.toml:8:1: providers.two.api_key_env: {why}, so this provider is disabled; "
        "where the gateway runs: export TWO_KEY=…"
    ]


@pytest.mark.parametrize("name", ["gsk_0123456789abcdef", "sk_LIVE", "KEYWITHOUTUNDERSCORE", "_A", "A_"])
def test_what_may_be_a_key_in_the_place_of_a_variable_is_not_repeated(load_text: Load, name: str) -> None:
    text = '[providers.x]\ntype = "chat"\nbase_url = "https://a.example.com"\napi_key_env = "{}"\n'
    config = load_text(text.format(name))
    assert config.providers["x"].disabled == ("the environment variable that `api_key_env` names is not set")
    assert name not in str(config.warnings)


def test_a_preset_without_its_variable_is_disabled_where_its_table_begins(load_text: Load) -> None:
    (warning,) = load_text('[providers.x]\ntype = "groq"\n').warnings
    assert str(warning) == (
        "antiphon.toml:1:12: providers.x: the environment variable GROQ_API_KEY is not set, "
        "so this provider is disabled; where the gateway runs: export GROQ_API_KEY=…"
    )
