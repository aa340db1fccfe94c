"""Presets: one line is enough, what is written beside it wins, and a wrong type says what to write."""

import dataclasses
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from antiphon.config import Config, ConfigErrors, HttpSettings, load, show
from antiphon.providers.base import Environment
from antiphon.providers.chat import ChatProvider
from antiphon.providers.chat.profiles import PROFILES
from antiphon.providers.http import UpstreamClient
from antiphon.providers.presets import PRESETS
from antiphon.providers.registry import TYPES, create_provider
from antiphon.providers.responses import OpenResponses
from tests.providers.build import environment as lent
from tests.providers.chat.fake import FakeChat
from tests.providers.compose import answer, make_turn


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return lent(UpstreamClient(), tmp_path)


def configured(folder: Path, text: str, **environ: str) -> Config:
    file = folder / "a.toml"
    file.write_text(text)
    return load(file, environ, types=TYPES)


@pytest.mark.parametrize("kind", PRESETS)
def test_one_line_is_enough(kind: str, tmp_path: Path, environment: Environment) -> None:
    preset = PRESETS[kind]
    secrets = {preset.api_key_env: "sk-1"} if preset.api_key_env else {}
    settings = configured(tmp_path, f'[providers.x]\ntype = "{kind}"\n', **secrets).providers["x"]
    assert settings.base_url == preset.base_url
    assert (settings.api_key.reveal() if settings.api_key else None) == secrets.get(preset.api_key_env or "")
    provider = create_provider(settings, environment)
    if isinstance(provider, OpenResponses):
        assert (preset.adapter, provider.quirks.name) == ("responses", preset.profile)
    else:
        assert isinstance(provider, ChatProvider)
        assert (preset.adapter, provider.profile.name) == ("chat", preset.profile)


def test_openai_and_xai_speak_responses_and_nobody_else_does() -> None:
    assert {kind for kind, preset in PRESETS.items() if preset.adapter == "responses"} == {"openai", "xai"}


def test_every_hosted_vendor_that_chat_knows_has_a_preset() -> None:
    """One with an address of its own, that is: some have one for each region or account."""
    fixed = {name for name, one in PROFILES.items() if any("*" not in host for host in one.hosts)}
    assert fixed - {"ollama"} <= set(PRESETS)
    for name in fixed & {kind for kind, preset in PRESETS.items() if preset.adapter == "chat"}:
        assert urlsplit(PRESETS[name].base_url).hostname in PROFILES[name].hosts


def test_what_the_table_says_wins(tmp_path: Path, environment: Environment) -> None:
    text = (
        '[providers.groq]\ntype = "groq"\nbase_url = "http://127.0.0.1:9/v1"\nprofile = "vllm"\n'
        'api_key = "sk-mine"\nthink_tags = false\ntimeouts = { idle = 7 }\n'
    )
    config = configured(tmp_path, text, GROQ_API_KEY="sk-environment")
    settings = config.providers["groq"]
    assert isinstance(settings, HttpSettings)
    assert settings.api_key is not None
    assert (settings.base_url, settings.api_key.reveal()) == ("http://127.0.0.1:9/v1", "sk-mine")
    provider = create_provider(settings, environment)
    assert isinstance(provider, ChatProvider)
    assert provider.profile == dataclasses.replace(PROFILES["vllm"], think_tags=False)
    assert settings.timeouts.idle == 7
    assert "api_key_env" not in show(config)
    config = configured(tmp_path, '[providers.g]\ntype = "groq"\napi_key_env = "MINE"\n', MINE="sk-2")
    key = config.providers["g"].api_key
    assert key is not None
    assert key.reveal() == "sk-2"


async def test_a_preset_asks_with_its_key(tmp_path: Path) -> None:
    async with FakeChat() as upstream:
        text = f'[providers.groq]\ntype = "groq"\nbase_url = "{upstream.base_url}"\n'
        settings = configured(tmp_path, text, GROQ_API_KEY="sk-7").providers["groq"]
        http = UpstreamClient()
        try:
            await answer(create_provider(settings, lent(http, tmp_path)), make_turn())
        finally:
            await http.close()
        assert upstream.requests[0].headers["authorization"] == "Bearer sk-7"
        assert "max_completion_tokens" not in upstream.body


def test_a_mistake_in_the_table_of_a_preset_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        configured(tmp_path, '[providers.x]\ntype = "groq"\nprofil = "vllm"\n', GROQ_API_KEY="sk-1")
    assert str(caught.value).endswith(
        "a.toml:3:1: providers.x.profil: unknown key `profil`, did you mean `profile`?"
    )


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("gorq", "groq"),
        ("OpenAI", "openai"),
        ("claude", "anthropic"),
        ("google", "gemini"),
        ("grok", "xai"),
        ("x-ai", "xai"),
        ("llama.cpp", "llamacpp"),
        ("LM Studio", "lmstudio"),
        ("openai-compatible", "chat"),
        ("openai_compatible", "chat"),
        ("Azure OpenAI", "azure"),
        ("aws", "bedrock"),
    ],
)
def test_a_wrong_type_says_what_to_write(
    tmp_path: Path, environment: Environment, kind: str, meant: str
) -> None:
    said = f'providers.x.type: unknown provider type "{kind}", did you mean `{meant}`?'
    with pytest.raises(ConfigErrors) as caught:
        configured(tmp_path, f'[providers.x]\ntype = "{kind}"\nbase_url = "http://127.0.0.1:9"\n')
    assert str(caught.value) == f"{tmp_path}/a.toml:2:1: {said}"
    with pytest.raises(ConfigErrors, match=f"did you mean `{meant}`"):
        create_provider(HttpSettings(type=kind, name="x"), environment)


def test_settings_can_be_changed_and_stay_those_of_the_preset(environment: Environment) -> None:
    settings = replace(TYPES["groq"](type="groq", name="a"), name="b")
    assert create_provider(settings, environment).name == "b"
