"""Models that cannot be had: each is refused with what to do about it, and no other is the worse for it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.server.process import banner, bind
from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Client, configure, environment
from tests.server.upstream import Upstream

ROOT = Path(__file__).parents[2]
ALIAS = "smollm2-135m-instruct"
UNSET = '[providers.dear]\ntype = "groq"\napi_key_env = "DEAR_KEY"\n'


def test_a_typo_behind_local_is_not_found(serve: Serve) -> None:
    client = serve("", LOCAL__ENABLED="true").client()
    said = f'the model "local/typo" does not exist; there is: {ALIAS}'
    for method, path, body in (
        ("POST", "/v1/responses", {"model": "local/typo", "input": "hi"}),
        ("POST", "/v1/responses", {"model": "local/typo", "input": "hi", "stream": True}),
        ("POST", "/v1/responses/input_tokens", {"model": "local/typo", "input": "hi"}),
        ("GET", "/v1/models/local/typo", None),
    ):
        error = client.refused(404, method, path, json=body)
        assert (error["code"], error["param"], error["message"]) == ("model_not_found", "model", said)
    assert client.ok("GET", f"/v1/models/local/{ALIAS}")["owned_by"] == "local"


def test_a_model_of_a_known_provider_says_which_key_is_missing(serve: Serve) -> None:
    client = serve("", LOCAL__ENABLED="true").client()
    said = "; for groq, set GROQ_API_KEY where the gateway runs, or configure [providers.groq]"
    for method, path, body in (
        ("POST", "/v1/responses", {"model": "groq/llama", "input": "hi"}),
        (
            "POST",
            "/v1/chat/completions",
            {"model": "groq/llama", "messages": [{"role": "user", "content": "hi"}]},
        ),
    ):
        assert client.refused(404, method, path, json=body)["message"].endswith(said)


def test_a_model_that_a_vendor_alone_has_says_which_key_is_missing(serve: Serve, upstream: Upstream) -> None:
    client = serve("", LOCAL__ENABLED="true").client()
    for model, variable, name in (
        ("gpt-5", "OPENAI_API_KEY", "openai/gpt-5"),
        ("o3", "OPENAI_API_KEY", "openai/o3"),
        ("claude-opus-4", "ANTHROPIC_API_KEY", "anthropic/claude-opus-4"),
        ("gemini-2.5-pro", "GEMINI_API_KEY", "gemini/gemini-2.5-pro"),
    ):
        error = client.refused(404, "POST", "/v1/responses", json={"model": model, "input": "hi"})
        assert error["message"].endswith(f'; set {variable} where the gateway runs, and ask for "{name}"')
    for model in ("gpt-oss-20b", "openai", "gpt", "other-1", "olmo-2"):
        error = client.refused(404, "POST", "/v1/responses", json={"model": model, "input": "hi"})
        assert error["message"].endswith(f"there is: {ALIAS}")
    there = serve(upstream.toml.replace("providers.up]", "providers.openai]").replace('"up/', '"openai/'))
    error = there.client().refused(404, "POST", "/v1/responses", json={"model": "gpt-5", "input": "hi"})
    assert error["message"].endswith('; ask for "openai/gpt-5"')


def test_the_banner_says_that_the_default_model_is_disabled(tmp_path: Path) -> None:
    config = configure(
        tmp_path, f'default_model = "gone"\n{UNSET}[models]\ngone = "dear/x"\n', LOCAL__ENABLED="true"
    )
    with bind("127.0.0.1", 0) as listener:
        text = banner(config, listener)
    assert (
        "a request that names none is refused, for gone is disabled: the environment variable DEAR_KEY"
        in text
    )


def test_the_banner_offers_no_command_that_fails_for_its_default_model(tmp_path: Path) -> None:
    """It offered `ask` and `chat` without a model, although the default one is disabled."""
    gone = f'default_model = "gone"\n{UNSET}[models]\ngone = "dear/x"\n'
    both = f'default_model = "gone"\n{UNSET}[models]\ngone = ["dear/x", "local/{ALIAS}"]\n'
    with bind("127.0.0.1", 0) as listener:
        text = banner(configure(tmp_path, gone, LOCAL__ENABLED="true"), listener)
        there = banner(configure(tmp_path, both, LOCAL__ENABLED="true"), listener)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    assert f'ask --url {address} --model {ALIAS} "What is the capital of France?"\n' in text
    assert f"chat --url {address} --model {ALIAS}\n" in text
    assert f"setup codex --url {address}\n" in text
    assert "--model" not in there
    assert '"model": "gone"' in there


def test_a_provider_without_its_key_is_refused_and_the_others_answer(
    serve: Serve, upstream: Upstream
) -> None:
    upstream.answer = "all is well"
    client = serve(f'{upstream.toml}gone = "dear/x"\n{UNSET}').client()
    said = "the provider dear is disabled: the environment variable DEAR_KEY is not set"
    for method, path, body in (
        ("POST", "/v1/responses", {"model": "dear/x", "input": "hi"}),
        ("POST", "/v1/responses", {"model": "gone", "input": "hi", "background": True}),
        ("POST", "/v1/responses/input_tokens", {"model": "dear/x", "input": "hi"}),
        ("POST", "/v1/responses/compact", {"model": "dear/x", "input": "hi"}),
        ("GET", "/v1/models/gone", None),
    ):
        error = client.refused(503, method, path, json=body)
        assert (error["code"], error["param"], error["message"]) == ("model_unavailable", "model", said)
        answer = client.request(method, path, json=body)
        assert answer.headers["x-should-retry"] == "false", "nothing heals it but a restart with the key"
        assert "retry-after" not in answer.headers
    assert client.create(input="hi")["status"] == "completed"
    listed = [model["id"] for model in client.ok("GET", "/v1/models")["data"]]
    assert listed == ["model", "up/some-model", "up/other/model"]
    assert client.ok("GET", "/readyz")["models"] == {"up": "remote", "dear": "disabled"}


WITHOUT_BINDINGS = (
    "import sys; sys.modules['xllamacpp'] = None\nfrom antiphon.cli import main; sys.exit(main())"
)
HOW = "pip install 'antiphon[local]'"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_without_the_embedded_model_says_how_to_get_one(tmp_path: Path, workers: str) -> None:
    command = [sys.executable, "-c", WITHOUT_BINDINGS, "serve", "--workers", workers]
    environ = environment(tmp_path, LOCAL__ENABLED="true") | {"PYTHONPATH": str(ROOT)}
    with (
        (tmp_path / "errors").open("w+") as errors,
        subprocess.Popen(
            command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as server,
    ):
        try:
            assert server.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
            assert address is not None
            models = server.stdout.readline()
            assert models.startswith("models: none. The embedded model needs the package xllamacpp")
            assert HOW in models
            assert "antiphon config init" in models
            with Client(address[0]) as client:
                assert client.ok("GET", "/v1/models")["data"] == []
                assert client.ok("GET", "/readyz")["models"] == {"local": "disabled"}
                for body in ({"input": "hi"}, {"model": f"local/{ALIAS}", "input": "hi"}):
                    error = client.refused(503, "POST", "/v1/responses", json=body)
                    assert error["code"] == "model_unavailable"
                    assert HOW in error["message"]
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(DEADLINE) == 0
        errors.seek(0)
        first, *requests = errors.read().splitlines()
        assert " WARNING antiphon.server: the provider local is disabled: " in first
        assert len(requests) == 2
        assert all("code=model_unavailable" in line for line in requests)


def test_a_server_without_the_embedded_model_has_a_good_configuration(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_BINDINGS, "config", "check"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stderr) == (0, "")
