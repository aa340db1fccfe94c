"""Parameters beside the specification's that carry words or meaning: never dropped behind a 200."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import dial, receipts, turn
from tests.server.servers import DEADLINE, Client, Serving

CARRYING: list[tuple[str, Any]] = [
    ("prompt", {"id": "pmpt_1", "variables": {"city": "Paris"}}),
    ("moderation", {"model": "omni-moderation-latest", "policy": {"input": {"mode": "block"}}}),
    ("messages", [{"role": "user", "content": "Answer this"}]),
    ("system", "Be brief."),
]


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.fixture
def package(server: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with OpenAI(base_url=f"{server.url}/v1", api_key="sk-any", max_retries=0, timeout=DEADLINE) as client:
        yield client


@pytest.fixture(scope="module")
def curious(server: Serving) -> Client:
    return server.client(X_Antiphon_Receipts="1")


@pytest.mark.parametrize(("name", "value"), CARRYING)
def test_what_carries_words_is_refused_by_its_name(
    server: Serving, package: OpenAI, voice: Voice, name: str, value: Any
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        package.responses.create(model="model", input="hi", extra_body={name: value})
    assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")
    with pytest.raises(openai.BadRequestError) as refused:
        package.responses.create(model="model", input="hi", stream=True, extra_body={name: value})
    assert refused.value.param == name
    with dial(server) as socket:
        assert turn(socket, model="model", input="hi", **{name: value})["error"]["param"] == name
    assert voice.heard == []


@pytest.mark.parametrize("name", ["prompt", "moderation", "system"])
def test_chat_completions_refuse_it_too(package: OpenAI, voice: Voice, name: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        package.chat.completions.create(
            model="model",
            messages=[{"role": "user", "content": "hi"}],
            extra_body={name: dict(CARRYING)[name]},
        )
    assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")
    assert voice.heard == []


def test_an_upstream_that_moderates_is_asked_to(package: OpenAI, voice: Voice) -> None:
    moderation: Any = dict(CARRYING)["moderation"]
    package.responses.create(model="full", input="hi", moderation=moderation)
    assert voice.last["moderation"] == moderation


def test_what_nobody_takes_of_the_options_leaves_a_receipt(curious: Client) -> None:
    made = curious.create(input="hi", reasoning={"mode": "pro", "context": "all_turns"}, text={"acme": 1})
    left = [("reasoning.context", "dropped"), ("reasoning.mode", "dropped"), ("text.acme", "dropped")]
    assert sorted(receipts(made)) == left


def test_older_names_are_read_as_what_they_mean(curious: Client, voice: Voice) -> None:
    made = curious.create(model="full", input="hi", user="alice", reasoning={"generate_summary": "auto"})
    assert voice.last["safety_identifier"] == "alice"
    assert (made["safety_identifier"], made["reasoning"]["summary"]) == ("alice", "auto")
    assert receipts(made) == [("reasoning.summary", "dropped")]
