"""Each kind of mistake, with the exact line that a user sees."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.config import Config, ConfigErrors, Mistake, Where, load
from antiphon.config.mistakes import quote, spell
from antiphon.providers.registry import TYPES
from tests.config.conftest import KNOWN

Load = Callable[..., Config]
Mistakes = Callable[..., list[str]]

CHAT = '[providers.groq]\ntype = "chat"\nbase_url = "https://api.example.com/v1"\n'
TIME = 'expected a time in seconds, or a text such as "30 s" or "1 h"'

ONE_MISTAKE = {
    "typo in a key": (
        "[server]\nprot = 9000\n",
        "2:1: server.prot: unknown key `prot`, did you mean `port`?",
    ),
    "typo in a section": (
        "\n[sever]\nport = 9000\n",
        "2:2: sever: unknown key `sever`, did you mean `server`?",
    ),
    "key of a section at the top": (
        "port = 9000\n",
        "1:1: port: unknown key `port`; it belongs in [server]",
    ),
    "top key in a section": (
        '[store]\ndefault_model = "x"\n',
        "2:1: store.default_model: unknown key `default_model`; "
        "it belongs at the top of the file, before the first [table]",
    ),
    "key that is like none": (
        "timeouts.zzz = 1\n",
        "1:10: timeouts.zzz: unknown key `zzz`; [timeouts] can have connect, first_byte, whole, idle, total",
    ),
    "filled-in names are no keys": (
        CHAT + 'origin = "x"\n',
        "4:1: providers.groq.origin: unknown key `origin`; [providers.groq] can have type, base_url, "
        "api_key, api_key_env, timeouts, headers, profile, max_tokens_field, think_tags",
    ),
    "a model of the catalogue without its provider": (
        "[catalogue.gpt-5]\ntools = true\n",
        '1:12: catalogue.gpt-5: expected a name of the form "provider/model", in quotes, got "gpt-5"',
    ),
    "a model of the catalogue whose provider is not there": (
        CHAT + '[catalogue."grok/m"]\ntools = true\n',
        '4:12: catalogue."grok/m": there is no provider "grok", did you mean `groq`?',
    ),
    "a price that is none": (
        CHAT + '[catalogue."groq/m"]\nprices = { input = -1 }\n',
        '5:12: catalogue."groq/m".prices.input: '
        "expected a price in USD for a million tokens, got the number -1",
    ),
    "a kind of input that there is not": (
        CHAT + '[catalogue."groq/m"]\ninput_modalities = ["text", "smell"]\n',
        '5:29: catalogue."groq/m".input_modalities[1]: '
        'expected one of "text", "image", "file", "audio", "video", got "smell"',
    ),
    "text for a number": (
        '[server]\n  port = "http"\n',
        '2:3: server.port: expected a port number from 0 to 65535, got "http"',
    ),
    "number out of range": (
        "server = { port = 65536 }\n",
        "1:12: server.port: expected a port number from 0 to 65535, got the number 65536",
    ),
    "number far out of range": (
        "[local]\nthreads = 123456789012345678901234567890\n",
        "2:1: local.threads: expected a whole number, or 0 for as many as fit, got a number of many digits",
    ),
    "fraction for a whole number": (
        "[server]\nworkers = 1.5\n",
        "2:1: server.workers: expected a whole number from 1 to 65536, got the number 1.5",
    ),
    "truth for a number": (
        "[local]\nslots = true\n",
        "2:1: local.slots: expected a whole number from 1 to 65536, got true",
    ),
    "text for truth": (
        '[local]\nenabled = "yes"\n',
        '2:1: local.enabled: expected true or false, got "yes"',
    ),
    "no such choice": (
        '[log]\nformat = "xml"\n',
        '2:1: log.format: expected one of "text", "json", got "xml"',
    ),
    "date for a choice": (
        "[store]\nsynchronous = 1979-05-27\n",
        '2:1: store.synchronous: expected one of "normal", "full", got a date',
    ),
    "no database": (
        '[store]\nurl = "mysql://me:secret@host/db"\n',
        '2:1: store.url: expected an address such as "postgresql://user@host:5432/database", '
        "got other text, not shown here",
    ),
    "database without sealing keys": (
        '[store]\nurl = "postgresql://me:secret@host/db"\n',
        "2:1: store.url: with PostgreSQL, all machines need the same sealing keys: make one with "
        "`openssl rand -base64 32` and write it as `keys` into [sealing]",
    ),
    "database twice": (
        '[store]\nurl = "postgresql://host/db"\nurl_env = "SET"\n',
        "3:1: store.url_env: expected `url` or `url_env`, got both",
    ),
    "variable without a database": (
        f'[store]\nurl_env = "SET"\n[sealing]\nkeys = ["{"0" * 64}"]\n',
        "2:1: store.url_env: the environment variable that it names holds no address of PostgreSQL, "
        'such as "postgresql://user@host/database"',
    ),
    "negative time": (
        "[server]\ndrain = -1\n",
        f"2:1: server.drain: {TIME}, got the number -1",
    ),
    "no time at all": (
        "[timeouts]\nidle = nan\n",
        f"2:1: timeouts.idle: {TIME}, got the number nan",
    ),
    "endless time": (
        "[timeouts]\nidle = inf\n",
        f"2:1: timeouts.idle: {TIME}, got the number inf",
    ),
    "unknown unit": (
        '[server]\nbody_limit = "64 miles"\n',
        '2:1: server.body_limit: expected a size in bytes, or a text such as "64 MiB", got "64 miles"',
    ),
    "less memory than a body": (
        '[server]\nmemory_limit = "1 MiB"\n',
        "2:1: server.memory_limit: expected at least as much as `body_limit`, which must fit in",
    ),
    "text for a table": ('server = "x"\n', '1:1: server: expected a table, got "x"'),
    "list for a table": ("[[server]]\nport = 1\n", "1:3: server: expected a table, got a list"),
    "text for a list": (
        '[server]\nhosts = "a.example.com"\n',
        '2:1: server.hosts: expected a list, got "a.example.com"',
    ),
    "element of a list": (
        '[server]\norigins = [\n  "https://a.example.com",\n  "https://b.example.com/", # no\n]\n',
        '4:3: server.origins[1]: expected an origin such as "https://app.example.com", '
        'without a path, or "*", got "https://b.example.com/"',
    ),
    "provider without type": (
        '[providers.groq]\nbase_url = "https://api.example.com"\n',
        "1:12: providers.groq: missing key `type`, expected a text that is not empty, on one line",
    ),
    "chat without address": (
        '[providers.groq]\ntype = "chat"\n',
        "1:12: providers.groq: missing key `base_url`, "
        'expected an address such as "https://api.example.com/v1"',
    ),
    "option that chat has not": (
        CHAT + "think_tag = true\n",
        "4:1: providers.groq.think_tag: unknown key `think_tag`, did you mean `think_tags`?",
    ),
    "password in the address": (
        '[providers.groq]\ntype = "chat"\nbase_url = "https://me:hunter2@example.com"\n',
        '3:1: providers.groq.base_url: expected an address such as "https://api.example.com/v1", '
        'without user name, "?" or "#", got other text, not shown here',
    ),
    "provider with a slash": (
        '[providers."a/b"]\ntype = "third"\n',
        '1:12: providers."a/b": a provider\'s name has only letters, digits, `-`, `_` and `.`, '
        "at most 64 of them",
    ),
    "header that is none": (
        CHAT + 'headers = { "X Y" = "1" }\n',
        '4:13: providers.groq.headers."X Y": not the name of an HTTP header',
    ),
    "header over two lines": (
        CHAT + 'headers = { X = "1\\nY: 2" }\n',
        "4:13: providers.groq.headers.X: expected a text of printable ASCII characters, "
        "got other text, not shown here",
    ),
    "empty secret": (
        CHAT + 'api_key = ""\n',
        "4:1: providers.groq.api_key: expected a text of printable ASCII characters, got an empty text",
    ),
    "secret of the wrong type": (
        CHAT + "api_key = 12345\n",
        "4:1: providers.groq.api_key: expected a text of printable ASCII characters, got a whole number",
    ),
    "two secrets": (
        CHAT + 'api_key = "sk"\napi_key_env = "SET"\n',
        "5:1: providers.groq.api_key_env: expected `api_key` or `api_key_env`, got both",
    ),
    "no name of a variable": (
        CHAT + 'api_key_env = "sk-123"\n',
        "4:1: providers.groq.api_key_env: expected the name of an environment variable, "
        "got other text, not shown here",
    ),
    "client key not in the environment": (
        '[keys.alice]\nkey_env = "ALICE"\n',
        "2:1: keys.alice.key_env: the environment variable that it names is not set",
    ),
    "client without key": (
        '[keys.alice]\ntenant = "a"\n',
        "1:7: keys.alice: expected `key_env` or `key_sha256`, got neither",
    ),
    "client with two keys": (
        f'[keys.alice]\nkey_env = "SET"\nkey_sha256 = "{"0" * 64}"\n',
        "1:7: keys.alice: expected `key_env` or `key_sha256`, got both",
    ),
    "two clients with one key": (
        '[keys.alice]\nkey_env = "SET"\n[keys.bob]\nkey_env = "SET"\n',
        "3:7: keys.bob: the same key as `alice`; each client needs its own",
    ),
    "digest that is none": (
        '[keys.alice]\nkey_sha256 = "abc"\n',
        "2:1: keys.alice.key_sha256: expected 64 hexadecimal digits, got other text, not shown here",
    ),
    "unknown dialect": (
        '[keys.alice]\nkey_env = "SET"\ndialect = "openapi"\n',
        '3:1: keys.alice.dialect: expected one of "auto", "open_responses", "openai", "ai_sdk", '
        '"vtcode", "vertice", got other text, not shown here',
    ),
    "key in place of its table": (
        '[keys]\nalice = "hunter2"\n',
        "2:1: keys.alice: expected a table, got other text, not shown here",
    ),
    "provider's key in place of its table": (
        '[providers]\nopenai = "sk-123"\n',
        "2:1: providers.openai: expected a table, got other text, not shown here",
    ),
    "sealing key in place of a list": (
        '[sealing]\nkeys = "c2hvcnQ="\n',
        "2:1: sealing.keys: expected a list, got other text, not shown here",
    ),
    "sealing key too short": (
        '[sealing]\nkeys = ["c2hvcnQ="]\n',
        "2:9: sealing.keys[0]: expected 32 random bytes in base64 or hexadecimal, "
        "such as `openssl rand -base64 32` makes, got other text, not shown here",
    ),
    "key of Python": (
        CHAT + "[providers.groq.timeouts]\n__class__ = 1\n",
        "5:1: providers.groq.timeouts.__class__: unknown key `__class__`; "
        "[providers.groq.timeouts] can have connect, first_byte, whole, idle, total",
    ),
    "alias to nowhere": (
        CHAT + '[models]\n"fast.one" = "grok/llama"\n',
        '5:1: models."fast.one": there is no provider "grok", did you mean `groq`?',
    ),
    "alias to nothing like it": (
        '[models]\nfast = "zzz/llama"\n',
        '2:1: models.fast: there is no provider "zzz"; there is: local',
    ),
    "alias without a provider": (
        '[models]\nfast = "llama"\n',
        '2:1: models.fast: expected a target of the form "provider/model", got "llama"',
    ),
    "alias without a model": (
        '[models]\nfast = "local/"\n',
        '2:1: models.fast: expected a target of the form "provider/model", got "local/"',
    ),
    "the same target twice": (
        CHAT + '[models]\nfast = ["groq/a", "groq/b", "groq/a"]\n',
        '5:29: models.fast[2]: the target "groq/a" is there more than once; use weights instead',
    ),
    "route without an alias": (
        CHAT + '[models]\nfast = "groq/a"\n[routes.fats]\nretries = 1\n',
        '6:9: routes.fats: there is no alias "fats" in [models], did you mean `fast`?',
    ),
    "too few weights": (
        CHAT + '[models]\nfast = ["groq/a", "groq/b"]\n[routes.fast]\nstrategy = "weighted"\nweights = [1]\n',
        "8:1: routes.fast.weights: expected a weight for each target, 2 in all, got 1",
    ),
    "weights of nothing": (
        CHAT
        + '[models]\nfast = ["groq/a", "groq/b"]\n[routes.fast]\nstrategy = "weighted"\nweights = [0, 0]\n',
        "8:1: routes.fast.weights: expected a weight above 0 for one target at least",
    ),
    "a weight below nothing": (
        CHAT
        + '[models]\nfast = ["groq/a", "groq/b"]\n[routes.fast]\nstrategy = "weighted"\nweights = [1, -2]\n',
        "8:15: routes.fast.weights[1]: expected a weight from 0 to 1000000, got the number -2",
    ),
    "no such strategy": (
        CHAT + '[models]\nfast = ["groq/a", "groq/b"]\n[routes.fast]\nstrategy = "random"\n',
        '7:1: routes.fast.strategy: expected one of "order", "weighted", "fastest", "cheapest", "tiers", '
        'got "random"',
    ),
    "no such failure": (
        CHAT + '[models]\nfast = ["groq/a", "groq/b"]\n[routes.fast]\nfallback_on = ["timeout", "x"]\n',
        '7:27: routes.fast.fallback_on[1]: expected one of "connection", "timeout", "rate_limit", '
        '"overloaded", "server_error", "auth", got "x"',
    ),
    "too many retries": (
        CHAT + '[models]\nfast = ["groq/a", "groq/b"]\n[routes.fast]\nretries = -1\n',
        "7:1: routes.fast.retries: expected a whole number from 0 to 100, got the number -1",
    ),
    "fallback without its provider": (
        CHAT + '[models]\nfast = "groq/a"\n[routes.fast]\ncontext_window_fallback = "gorq/a"\n',
        '7:1: routes.fast.context_window_fallback: there is no provider "gorq", did you mean `groq`?',
    ),
    "fallback that is no target": (
        CHAT + '[models]\nfast = "groq/a"\n[routes.fast]\ncontext_window_fallback = "fast"\n',
        '7:1: routes.fast.context_window_fallback: expected a target of the form "provider/model", '
        'got "fast"',
    ),
    "typo in a route": (
        CHAT + '[models]\nfast = "groq/a"\n[routes.fast]\non_cuts = "fail"\n',
        "7:1: routes.fast.on_cuts: unknown key `on_cuts`, did you mean `on_cut`?",
    ),
    "alias with no target": (
        "[models]\nfast = []\n",
        '2:1: models.fast: expected a target such as "groq/llama-3.3-70b", got an empty list',
    ),
    "alias without a name": (
        CHAT + '[models]\n"" = "groq/a"\n',
        '5:1: models."": an alias needs a name',
    ),
    "alias of another embedded model": (
        '[models]\nfast = "local/typo"\n',
        '2:1: models.fast: local has no model "typo"; there is: smollm2-135m-instruct',
    ),
    "default that the embedded model is not": (
        'default_model = "local/typo"\n',
        '1:1: default_model: the model "local/typo" does not exist; there is: smollm2-135m-instruct',
    ),
    "embedded model that is not there": (
        '[local]\nmodel = "/nope"\n',
        "2:1: local.model: The model file /nope cannot be read (No such file or directory).",
    ),
    "embedded model that is none": (
        '[local]\nmodel = "/dev/null"\n',
        "2:1: local.model: /dev/null is not a GGUF file: it does not begin with the letters GGUF.",
    ),
    "address of an embedded model that is none": (
        '[local]\nmodel = "https://[/a.gguf"\n',
        "2:1: local.model: https://[/a.gguf is not the name, the path or the address of a model.",
    ),
    "unknown default": (
        'default_model = "gpt"\n[local]\nenabled = false\n',
        '1:1: default_model: the model "gpt" does not exist; there is: no model at all',
    ),
    "not TOML": (
        "[server]\nport = eighty\n",
        "2:8: not valid TOML: expected a value; a text stands in quotes, and true and false are lower case",
    ),
    "no closing quote": (
        '[providers.x]\ntype = "groq\napi_key_env = "A"\n',
        "2:13: not valid TOML: a text ends on the line that it begins on; a quote may be missing",
    ),
    "no closing single quote": (
        "[providers.x]\ntype = 'groq\n",
        "2:13: not valid TOML: a text has no end; a quote may be missing",
    ),
    "no closing triple quote": (
        '[providers.x]\ntype = """groq\n',
        "2:15: not valid TOML: a text has no end; a quote may be missing",
    ),
    "key set twice": (
        "[server]\nport = 1\nport = 2\n\n",
        "3:9: not valid TOML: this key is already set",
    ),
    "too deep": ("a = 1\nb" + ".c" * 40 + " = 1\n", "2:65: keys and lists are nested too deep"),
    "far too deep": ("a = " + "[" * 5000, " keys and lists are nested too deep"),
    "endless number": ("a = 1\nb = " + "9" * 5000, "2:5: a number has too many digits"),
}


@pytest.mark.parametrize(("text", "line"), ONE_MISTAKE.values(), ids=ONE_MISTAKE.keys())
def test_one_mistake(mistakes: Mistakes, text: str, line: str) -> None:
    assert mistakes(text, SET="sk-set") == [f"antiphon.toml:{line}"]


ENVIRONMENT = {
    "wrong type": (
        {"ANTIPHON_SERVER__PORT": "http"},
        'ANTIPHON_SERVER__PORT: server.port: expected a port number from 0 to 65535, got "http"',
    ),
    "typo in a key": (
        {"ANTIPHON_SERVER__PROT": "1"},
        "ANTIPHON_SERVER__PROT: server.prot: unknown key `prot`, did you mean `port`?",
    ),
    "typo in a section": (
        {"ANTIPHON_SEVER__PORT": "1"},
        "ANTIPHON_SEVER__PORT: sever: unknown key `sever`, did you mean `server`?",
    ),
    "one underscore": (
        {"ANTIPHON_SERVER_PORT": "1"},
        "ANTIPHON_SERVER_PORT: unknown setting, did you mean `ANTIPHON_SERVER__PORT`?",
    ),
    "typo at the top": (
        {"ANTIPHON_DEFAULT_MODLE": "x"},
        "ANTIPHON_DEFAULT_MODLE: unknown setting, did you mean `ANTIPHON_DEFAULT_MODEL`?",
    ),
    "no name": (
        {"ANTIPHON_SERVER__": "1"},
        "ANTIPHON_SERVER__: expected a name on both sides of each `__`",
    ),
    "text for a table": (
        {"ANTIPHON_SERVER": "localhost"},
        'ANTIPHON_SERVER: server: expected a table, got "localhost"',
    ),
    "broken table": (
        {"ANTIPHON_SERVER": "{ port = "},
        'ANTIPHON_SERVER: server: expected a table, got "{ port = "',
    ),
    "deep list": (
        {"ANTIPHON_SERVER__HOSTS": "[" * 9999},
        f'ANTIPHON_SERVER__HOSTS: server.hosts: expected a list, got "{"[" * 60}…"',
    ),
    "key in place of its table": (
        {"ANTIPHON_KEYS__ALICE": "hunter2"},
        "ANTIPHON_KEYS__ALICE: keys.alice: expected a table, got other text, not shown here",
    ),
    "broken table with a key": (
        {"ANTIPHON_PROVIDERS__OPENAI": '{ api_key = "sk-123" '},
        "ANTIPHON_PROVIDERS__OPENAI: providers.openai: expected a table, got other text, not shown here",
    ),
    "two values": (
        {"ANTIPHON_SERVER": "{ port = 1 }\nstore = 1"},
        'ANTIPHON_SERVER: server: expected a table, got "{ port = 1 }\\nstore = 1"',
    ),
    "secret over two lines": (
        {"ANTIPHON_PROVIDERS__GROQ__API_KEY": "sk-1\nsk-2"},
        "ANTIPHON_PROVIDERS__GROQ__API_KEY: providers.groq.api_key: "
        "expected a text of printable ASCII characters, got other text, not shown here",
    ),
    "named secret over two lines": (
        {"ANTIPHON_PROVIDERS__GROQ__API_KEY_ENV": "TWO", "TWO": "sk-1\nsk-2"},
        "ANTIPHON_PROVIDERS__GROQ__API_KEY_ENV: providers.groq.api_key_env: "
        "the environment variable that it names holds no text of printable ASCII characters",
    ),
    "default that is not there": (
        {"ANTIPHON_DEFAULT_MODEL": "gpt"},
        'ANTIPHON_DEFAULT_MODEL: default_model: the model "gpt" does not exist; '
        "there is: smollm2-135m-instruct, groq/…",
    ),
}


@pytest.mark.parametrize(("environ", "line"), ENVIRONMENT.values(), ids=ENVIRONMENT.keys())
def test_one_mistake_in_the_environment(mistakes: Mistakes, environ: dict[str, str], line: str) -> None:
    assert mistakes(CHAT, **environ) == [f"environment variable {line}"]


def test_every_element_of_a_list_is_looked_at(mistakes: Mistakes) -> None:
    lines = mistakes(f'[sealing]\nkeys = [5, "short", "{"A" * 43}", "päd"]\n')
    assert [line.split(": ")[1] for line in lines] == [
        "sealing.keys[0]",
        "sealing.keys[1]",
        "sealing.keys[3]",
    ]


def test_all_mistakes_at_once_in_reading_order(mistakes: Mistakes) -> None:
    text = '[models]\nfast = "zzz/x"\n[server]\nport = "x"\nhost = 1\n[providers.a]\n'
    starts = [line.split(": ")[:2] for line in mistakes(text, ANTIPHON_STORE__TTL="soon")]
    assert starts == [
        ["antiphon.toml:2:1", "models.fast"],
        ["antiphon.toml:4:1", "server.port"],
        ["antiphon.toml:5:1", "server.host"],
        ["antiphon.toml:6:12", "providers.a"],
        ["environment variable ANTIPHON_STORE__TTL", "store.ttl"],
    ]


def test_a_mistake_on_the_command_line_names_the_option(mistakes: Mistakes) -> None:
    lines = mistakes("", options={"server.port": ("--port", "99999")})
    assert lines == ['--port: server.port: expected a port number from 0 to 65535, got "99999"']


def test_unknown_types_are_listed_with_all_other_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[providers.x]\ntype = "chatt"\n[server]\nport = -1\n')
    with pytest.raises(ConfigErrors) as caught:
        load(file, {}, types=TYPES)
    first, second = caught.value.mistakes
    assert str(first) == f'{file}:2:1: providers.x.type: unknown provider type "chatt", did you mean `chat`?'
    assert second.where == Where(str(file), 4, 1)


def test_a_type_that_is_like_no_other_is_told_what_there_is(mistakes: Mistakes) -> None:
    [line] = mistakes(CHAT + '[providers.fourth]\ntype = "zzzz"\n')
    listed = ", ".join(sorted(KNOWN))
    assert line == (
        f"antiphon.toml:5:1: providers.fourth.type: unknown provider type; the known types are {listed}"
    )


def test_errors_can_be_sent_between_processes() -> None:
    errors = ConfigErrors([Mistake(Where("a.toml", 1, 2), ("x",), "no")])
    copy = pickle.loads(pickle.dumps(errors))
    assert copy.mistakes == errors.mistakes
    assert str(copy) == "a.toml:1:2: x: no"


def test_paths_and_texts_are_spelled_on_one_line() -> None:
    assert spell(("models", "a b", 0, "é\n")) == 'models."a b"[0]."é\\n"'
    assert quote("x" * 100) == '"' + "x" * 60 + '…"'
    assert quote("\udcff") == '"?"'
