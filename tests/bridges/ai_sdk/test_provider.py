"""The AI SDK's own providers on `/v1/responses`, unmodified and without a header of ours."""

from typing import Any

import pytest

from tests.bridges.javascript import needs_node, run_node
from tests.bridges.scripts import TOML
from tests.server.conftest import Serve
from tests.server.http_calls import script
from tests.server.servers import Serving

pytestmark = needs_node

THOUGHT = script({"reasoning": "Let me see.", "chunk": 4}, {"text": "Yes."})
FAILING = script({"text": "I was"}, {"error": {"message": "the model fell over"}})


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


def ask(server: Serving, provider: str, prompt: str, *, stream: bool, summary: str | None = None) -> Any:
    plan = {"provider": provider, "base": f"{server.url}/v1", "model": "demo", "prompt": prompt}
    return run_node("ai_provider.mjs", plan | {"stream": stream, "summary": summary})


@pytest.mark.parametrize("stream", [True, False])
def test_open_responses_of_the_ai_sdk_reads_raw_reasoning(server: Serving, stream: bool) -> None:
    told = ask(server, "open-responses", THOUGHT, stream=stream)
    assert (told["dialect"], told["reasoning"], told["text"]) == ("ai_sdk", "Let me see.", "Yes.")
    assert told["errors"] == []


@pytest.mark.parametrize(("stream", "dialect"), [(True, "openai"), (False, "ai_sdk")])
def test_openai_of_the_ai_sdk_reads_its_answer(server: Serving, stream: bool, dialect: str) -> None:
    told = ask(server, "openai", THOUGHT, stream=stream)
    assert (told["dialect"], told["text"], told["errors"]) == (dialect, "Yes.", [])


@pytest.mark.parametrize(
    "prompt", [THOUGHT, script({"reasoning": "Hm, hm."}, {"summary": "Let me see."}, {"text": "Yes."})]
)
def test_openai_of_the_ai_sdk_shows_the_reasoning_that_it_asks_a_summary_of(
    server: Serving, prompt: str
) -> None:
    told = ask(server, "openai", prompt, stream=True, summary="auto")
    assert (told["dialect"], told["reasoning"], told["text"]) == ("openai", "Let me see.", "Yes.")


def test_openai_of_the_ai_sdk_hears_of_a_failure(server: Serving) -> None:
    told = ask(server, "openai", FAILING, stream=True)
    assert any("the model fell over" in error for error in told["errors"])
    assert told["finish"] == "error"


def test_open_responses_of_the_ai_sdk_hears_of_a_failure(server: Serving) -> None:
    assert ask(server, "open-responses", FAILING, stream=True)["finish"] == "error"
