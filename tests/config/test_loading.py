import datetime
import hashlib
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import (
    Config,
    ConfigErrors,
    LocalSettings,
    Secret,
    Target,
    UnknownModel,
    UpstreamTimeouts,
    check_exposure,
    config_folder,
    load,
    local_alias,
    locate,
    show,
)
from antiphon.providers.chat import ChatSettings
from antiphon.providers.llama import LlamaSettings
from tests.config.conftest import KNOWN

Load = Callable[..., Config]

EVERYTHING = """\
default_model = "fast"

[providers.groq]
type = "chat"
base_url = "https://api.example.com/openai/v1"
api_key_env = "GROQ_API_KEY"
headers = { X-Title = "antiphon" }
profile = "groq"
max_tokens_field = "max_completion_tokens"
think_tags = true
timeouts = { first_byte = "10 m" }

[providers.third]
type = "third"
api_key = "sk-third"
region = "eu"
retries = 3
nested = { secret = "sk-nested" }
since = 1979-05-27
listed = [{ secret = "sk-listed", weight = 0.5 }]

[models]
fast = "groq/llama-3.3-70b"
"org/model" = ["groq/org/model"]

[server]
host = "0.0.0.0"
port = 9000
workers = 2
origins = ["https://app.example.com"]
hosts = ["api.example.com"]
body_limit = "1 MiB"
created_after = 2.5
websocket_limit = "1 h"
audit = true
dialect = "openai"
receipts = true
strict = true

[keys.alice]
key_env = "ALICE_KEY"
tenant = "research"
dialect = "vtcode"

[keys.bob]
key_sha256 = "ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789"

[store]
path = "/var/lib/antiphon"
synchronous = "full"
ttl = "7 d"
cache_bytes = "8 MB"
pairing = "repair"

[sealing]
keys = ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]

[local]
model = "https://example.com/Qwen3-0.6B.gguf"
images = "refuse"
idle_seconds = 60
slots = 2
context = 4096
threads = 2

[timeouts]
connect = 3
idle = "500 ms"
"""

SECRETS = {"GROQ_API_KEY": "sk-groq", "ALICE_KEY": "sk-alice"}
HIDDEN = ("sk-groq", "sk-third", "sk-nested", "sk-listed", "sk-alice", "AAAAAAAA", "ABCDEF", "abcdef")


def test_without_any_configuration_the_embedded_model_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = load(environ={"HOME": str(tmp_path)}, types=KNOWN)
    assert config.source is None
    assert list(config.providers) == ["local"]
    assert isinstance(config.provider("local"), LlamaSettings)
    assert config.resolve() == Target("local", "smollm2-135m-instruct")
    assert config.resolve("smollm2-135m-instruct") == config.resolve()
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8080)
    assert config.server.body_limit == 36 * 1024 * 1024
    assert check_exposure(config) is None


def test_everything_is_typed(load_text: Load) -> None:
    config = load_text(EVERYTHING, **SECRETS)
    groq = config.provider("groq")
    assert isinstance(groq, ChatSettings)
    assert groq.api_key == Secret("sk-groq")
    assert groq.headers == {"X-Title": Secret("antiphon")}
    assert groq.timeouts == UpstreamTimeouts(connect=3, first_byte=600, idle=0.5)
    third = config.provider("third")
    assert (third.api_key, third.timeouts) == (Secret("sk-third"), config.timeouts)
    assert third.options == {
        "region": "eu",
        "retries": 3,
        "nested": {"secret": "sk-nested"},
        "since": datetime.date(1979, 5, 27),
        "listed": [{"secret": "sk-listed", "weight": 0.5}],
    }
    assert config.server.body_limit == 1024 * 1024
    assert config.server.websocket_limit == 3600
    assert config.server.origins == ("https://app.example.com",)
    assert config.store.ttl == 7 * 86400
    assert config.store.cache_bytes == 8_000_000
    assert config.local.context == 4096
    assert config.source == "antiphon.toml"


def test_only_the_digest_of_a_client_key_is_kept(load_text: Load) -> None:
    alice, bob = load_text(EVERYTHING, **SECRETS).keys.values()
    assert (alice.name, alice.tenant, alice.dialect) == ("alice", "research", "vtcode")
    assert alice.key_sha256 == hashlib.sha256(b"sk-alice").hexdigest()
    assert (bob.tenant, bob.dialect) == ("bob", None)
    assert bob.key_sha256 == "abcdef0123456789" * 4


def test_no_secret_is_ever_shown(load_text: Load) -> None:
    config = load_text(EVERYTHING, **SECRETS)
    for text in (show(config), f"{config.providers} {config.sealing}", str(config.provider("third"))):
        assert not [secret for secret in HIDDEN[:6] if secret in text]
    assert not [secret for secret in HIDDEN if secret in show(config)]
    assert config.provider("third").options["nested"]["secret"] == "sk-nested"


def test_what_is_shown_is_what_is_in_force(load_text: Load, tmp_path: Path) -> None:
    config = load_text(EVERYTHING, **SECRETS)
    shown = tomllib.loads(show(config))
    assert shown["server"]["body_limit"] == 1024 * 1024
    assert shown["timeouts"] == {"connect": 3, "first_byte": 300, "whole": 900, "idle": 0.5, "total": 7200}
    assert shown["providers"]["groq"]["api_key_env"] == "GROQ_API_KEY"
    assert "api_key" not in shown["providers"]["groq"]
    assert shown["models"]["org/model"] == "groq/org/model"
    for table in ("keys", "sealing"):
        del shown[table]
    public = show(load_text(EVERYTHING.partition("[keys.alice]")[0], **SECRETS))
    assert show(load_text(public, **SECRETS)) == public


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("fast", Target("groq", "llama-3.3-70b")),
        (None, Target("groq", "llama-3.3-70b")),
        ("org/model", Target("groq", "org/model")),
        ("groq/anything/at/all", Target("groq", "anything/at/all")),
        ("Qwen3-0.6B", Target("local", "Qwen3-0.6B")),
        ("local/Qwen3-0.6B", Target("local", "Qwen3-0.6B")),
    ],
)
def test_resolve(load_text: Load, model: str | None, target: Target) -> None:
    assert load_text(EVERYTHING, **SECRETS).resolve(model) == target


@pytest.mark.parametrize("model", ["", "/", "gpt", "groq", "groq/", "/groq", "zzz/fast", "Fast", "fast/"])
def test_unknown_models_list_what_there_is(load_text: Load, model: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        load_text(EVERYTHING, **SECRETS).resolve(model)
    assert str(caught.value) == (
        f'the model "{model}" does not exist; there is: fast, org/model, Qwen3-0.6B, groq/…, third/…'
    )
    assert caught.value.model == model


def test_no_model_and_no_default(load_text: Load) -> None:
    config = load_text("[local]\nenabled = false\n")
    assert (config.providers, config.models, config.default_model) == ({}, {}, None)
    with pytest.raises(UnknownModel, match="no model was given and there is no default_model"):
        config.resolve()


def test_the_user_may_take_the_names_of_the_embedded_model(load_text: Load) -> None:
    config = load_text(
        '[providers.local]\ntype = "chat"\nbase_url = "http://127.0.0.1:1"\n[models]\nfast = "local/x"\n'
    )
    assert config.resolve("fast") == Target("local", "x")
    assert config.default_model is None
    other = '[providers.up]\ntype = "chat"\nbase_url = "http://127.0.0.1:1"\n'
    config = load_text(other + '[models]\nsmollm2-135m-instruct = "up/other"\n')
    assert config.resolve() == Target("up", "other")


@pytest.mark.parametrize(
    ("model", "alias"),
    [
        ("smollm2-135m-instruct", "smollm2-135m-instruct"),
        ("/models/Qwen.Q4.gguf", "Qwen.Q4"),
        ("https://example.com/a/Qwen.gguf?download=1", "Qwen"),
        ("https://example.com/", "local"),
        (".gguf", ".gguf"),
    ],
)
def test_alias_of_the_embedded_model(model: str, alias: str) -> None:
    assert local_alias(LocalSettings(model=model)) == alias


def test_the_embedded_model_is_asked_by_its_alias_and_by_no_other_name(load_text: Load) -> None:
    config = load_text('[local]\nmodel = "https://example.com/a/Qwen.gguf"\n')
    assert (
        config.resolve() == config.resolve("local/Qwen") == config.resolve("Qwen") == Target("local", "Qwen")
    )
    for typo in ("local/qwen", "local/typo", "local/Qwen.gguf"):
        with pytest.raises(UnknownModel, match=f'"{typo}" does not exist; there is: Qwen'):
            config.resolve(typo)


def test_environment_is_laid_over_the_file(load_text: Load) -> None:
    config = load_text(
        '[server]\nport = 1\nhost = "localhost"\n[providers."My-Groq"]\ntype = "chat"\nbase_url = "https://a.example.com"\n',
        ANTIPHON_SERVER__PORT="9000",
        ANTIPHON_SERVER__AUDIT="true",
        ANTIPHON_SERVER__ORIGINS="https://a.example.com, https://b.example.com",
        ANTIPHON_SERVER__HOSTS='["a.example.com"]',
        ANTIPHON_SERVER__BODY_LIMIT="2 MiB",
        ANTIPHON_SERVER__KEEPALIVE="7.5",
        ANTIPHON_LOG__LEVEL="debug",
        ANTIPHON_STORE__PATH="",
        ANTIPHON_DEFAULT_MODEL="quick",
        ANTIPHON_MODELS__QUICK="My-Groq/llama",
        ANTIPHON_PROVIDERS__MY_GROQ__API_KEY=" 12345\n",
        ANTIPHON_PROVIDERS__MY_GROQ__HEADERS="{ X-Title = 'antiphon' }",
        ANTIPHON_PROVIDERS__THIRD="{ type = 'third' }",
        ANTIPHON_PROVIDERS__THIRD__RETRIES="3",
        ANTIPHON_PROVIDERS__THIRD__REGION="eu",
        ANTIPHON_PROVIDERS__THIRD__DEEP__FLAG="true",
        ANTIPHON_UNRELATED="x",
        ANTIPHON_MODELS_DIR="/x",
        ANTIPHON_DEBUG="1",
        SOMETHING_ELSE="x",
    )
    server = config.server
    assert (server.port, server.host, server.audit) == (9000, "localhost", True)
    assert server.origins == ("https://a.example.com", "https://b.example.com")
    assert (server.hosts, server.body_limit, server.keepalive) == (("a.example.com",), 2 * 1024 * 1024, 7.5)
    assert config.store.path is None
    assert config.resolve() == Target("My-Groq", "llama")
    groq = config.provider("My-Groq")
    assert isinstance(groq, ChatSettings)
    assert (groq.api_key, groq.headers) == (Secret("12345"), {"X-Title": Secret("antiphon")})
    assert config.provider("third").options == {"retries": 3, "region": "eu", "deep": {"flag": True}}
    assert "ANTIPHON_SERVER__PORT" in config.variables
    assert "ANTIPHON_UNRELATED" not in config.variables


def test_options_are_laid_over_the_environment(load_text: Load) -> None:
    config = load_text(
        "[server]\nport = 1\n", options={"server.port": ("--port", "3")}, ANTIPHON_SERVER__PORT="2"
    )
    assert config.server.port == 3


def test_a_variable_that_holds_a_secret_is_no_setting(load_text: Load) -> None:
    config = load_text(
        '[keys.alice]\nkey_env = "ANTIPHON_SERVER_PORT"\n',
        ANTIPHON_SERVER_PORT="sk-1",
        ANTIPHON_KEYS__BOB__KEY_ENV="ANTIPHON__BOB",
        ANTIPHON__BOB="sk-2",
    )
    assert [key.key_sha256 for key in config.keys.values()] == [
        hashlib.sha256(text).hexdigest() for text in (b"sk-1", b"sk-2")
    ]


def test_where_the_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert locate(None, environ) is None
    folder = config_folder(environ)
    assert folder == tmp_path / "xdg" / "antiphon"
    folder.mkdir(parents=True)
    (folder / "antiphon.toml").write_text("server.port = 1\n")
    assert load(environ=environ, types=KNOWN).server.port == 1
    (tmp_path / "antiphon.toml").write_text("server.port = 2\n")
    assert load(environ=environ, types=KNOWN).server.port == 2
    (tmp_path / "other.toml").write_text("server.port = 3\n")
    assert load("other.toml", environ, types=KNOWN).server.port == 3


def test_a_broken_link_is_a_mistake_and_not_an_absence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "antiphon.toml").symlink_to("nowhere.toml")
    with pytest.raises(
        ConfigErrors, match=r"^antiphon.toml: cannot read the configuration file: No such file"
    ):
        load(environ={"HOME": str(tmp_path)}, types=KNOWN)


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {"HOME": "/h"}, "/h/.config/antiphon"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "relative"}, "/h/.config/antiphon"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/antiphon"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/antiphon"),
    ],
)
def test_the_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, platform: str, environ: dict[str, str], folder: str
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    assert str(config_folder(environ)) == folder


def test_secrets_in_the_environment_can_be_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(EVERYTHING)
    config = load(file, {}, types=KNOWN, secrets=False)
    assert config.provider("groq").api_key is None
    assert config.keys["alice"].key_sha256 is None


def test_without_types_neither_providers_nor_models_are_checked(tmp_path: Path) -> None:
    """A command that calls no upstream gets the rest, whatever stands in their tables."""
    file = tmp_path / "a.toml"
    text = '[providers.x]\ntype = "y"\nprofile = 1\n[models]\na = "local/b"\n[store]\nttl = "1 d"\n'
    file.write_text(text)
    assert load(file, {}, types=None).store.ttl == 86400
    file.write_text(text + "[server]\nport = -1\n")
    with pytest.raises(ConfigErrors, match=r"a\.toml:9:1: server\.port"):
        load(file, {}, types=None)


def test_paths_may_begin_with_the_home_folder(
    load_text: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    config = load_text('[store]\npath = "~/store"\n[local]\nmodel = "~/a.gguf"\n')
    assert (config.store.path, config.local.model) == (f"{tmp_path}/store", f"{tmp_path}/a.gguf")


@pytest.mark.parametrize("key", ["A" * 43, "A" * 43 + "=", "-_" * 21 + "A", "0a" * 32])
def test_sealing_keys_in_any_usual_spelling(load_text: Load, key: str) -> None:
    assert load_text(f'[sealing]\nkeys = ["{key}"]\n').sealing.keys == (Secret(key),)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST."])
def test_loopback_needs_no_keys(load_text: Load, host: str) -> None:
    assert check_exposure(load_text(f'[server]\nhost = "{host}"\n')) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.com", "127.0.0.1.example.com"])
def test_other_hosts_need_keys(load_text: Load, host: str) -> None:
    text = f'[server]\nhost = "{host}"\n'
    reason = check_exposure(load_text(text))
    assert reason == (
        f'host "{host}" can be reached from other machines and there are no keys, '
        "so anyone could use your models; add a [keys.NAME] table, or use host 127.0.0.1"
    )
    assert check_exposure(load_text(f'{text}[keys.a]\nkey_env = "A"\n', A="sk")) is None


def either_way(folder: Path, content: bytes, environ: dict[str, str]) -> None:
    file = folder / "fuzzed.toml"
    file.write_bytes(content)
    try:
        config = load(file, environ, types=KNOWN)
    except ConfigErrors as errors:
        mistakes = errors.mistakes
    else:
        assert tomllib.loads(show(config))["server"]["port"] == config.server.port
        return
    assert mistakes
    assert all(str(mistake).startswith((str(file), "environment variable ")) for mistake in mistakes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(content=st.binary(max_size=200))
def test_any_bytes_give_a_configuration_or_mistakes(folder: Path, content: bytes) -> None:
    either_way(folder, content, {})


LINES = EVERYTHING.splitlines(keepends=True)
VALUES = [
    "1",
    "-1",
    "1e400",
    "nan",
    "0x1F",
    "true",
    "''",
    '"x"',
    "[]",
    "[[1], {}]",
    "{}",
    "{ a = 1 }",
    "1979-05-27",
]


@given(data=st.data())
def test_any_changed_file_gives_a_configuration_or_mistakes(folder: Path, data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(lines) - 1))
        key = lines[index].partition("=")[0]
        lines[index] = data.draw(
            st.sampled_from([f"{key} = {value}\n" for value in VALUES])
            | st.sampled_from(LINES)
            | st.just("")
            | st.text(max_size=20).map(key.__add__)
        )
    either_way(folder, "".join(lines).encode("utf-8", "surrogatepass"), SECRETS)


names = st.sampled_from(
    [name.upper() for name in Config.__struct_fields__] + ["PORT", "TYPE", "GROQ", "A", ""]
)
settings = st.lists(names, min_size=1, max_size=4).map(lambda parts: "ANTIPHON_" + "__".join(parts))


@given(environ=st.dictionaries(settings, st.sampled_from(VALUES) | st.text(max_size=10), max_size=4))
def test_any_environment_gives_a_configuration_or_mistakes(folder: Path, environ: dict[str, str]) -> None:
    either_way(folder, EVERYTHING.encode(), {**SECRETS, **environ})


def test_the_environment_of_the_process_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", "9001")
    (tmp_path / "a.toml").touch()
    assert load(os.fspath(tmp_path / "a.toml"), types=KNOWN).server.port == 9001


def test_a_log_that_is_no_table_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text("log = 5\n[server]\nport = 1\n")
    with pytest.raises(ConfigErrors, match=r"antiphon\.toml:1"):
        load(file, {"HOME": str(tmp_path)}, types=None)
