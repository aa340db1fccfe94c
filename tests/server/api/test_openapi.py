"""The server against its own OpenAPI document, by requests that Schemathesis makes from it.

Every check of Schemathesis is on, but where `UNSAYABLE` says what is beyond a schema, and where mistakes have
the status 200.
"""

import importlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.internal.cache import LRUCache
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from antiphon.server.endpoints import ENDPOINTS
from tests.server.conftest import Serve
from tests.server.servers import Serving

TOML = 'default_model = "demo"\n[providers.demo]\ntype = "script"\n[models]\ndemo = "demo/any"\n'
DESCRIBED = {(each.method, each.path.replace("...", "")): each for each in ENDPOINTS if each.id}
CASES = 6
REFUSED = 4
STREAMED = 20
NAMES = ("model", "previous_response_id", "conversation", "tool_choice")
"""Fields that name something, which a schema cannot know."""
UNSAYABLE = {
    ("POST", "/v1/responses"): "calls and their outputs go together, and not every provider keeps prompts",
    ("POST", "/v1/responses/input_tokens"): "not every provider counts",
    ("POST", "/v1/responses/{id}/cancel"): "only what runs in the background can be cancelled",
    ("GET", "/v1/responses/{id}"): "only what runs in the background has a stream",
    ("POST", "/v1/conversations/{id}/items"): "an item may be there already",
    ("POST", "/v1/antiphon/chats/{id}"): "a response may be in another chat already",
    ("POST", "/v1/chat/completions"): "calls and their outputs go together",
    ("POST", "/v1/messages"): "a tool that is chosen is among the tools",
    ("POST", "/v1/messages/count_tokens"): "a tool that is chosen is among the tools",
    ("POST", "/api/vscode/chat"): "calls and their outputs go together",
}
"""Operations that refuse what fits their schema."""
POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


STEADY = settings(
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
    database=None,
    derandomize=True,
)


@pytest.fixture(autouse=True)
def _steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis tries the constants of all modules that are loaded, and the tests before load some."""
    monkeypatch.setattr(providers, "_get_local_constants", Constants)
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", LRUCache(1024))


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


@pytest.fixture(scope="module")
def schema(server: Serving) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


def held(operation: Any, mode: GenerationMode, cases: int = CASES, **fields: Any) -> Counter[int | str]:
    """How often an answer had each status, and each content type; each of them fits the description."""
    seen: Counter[int | str] = Counter()
    unsayable = (operation.method.upper(), operation.path) in UNSAYABLE
    unchecked = [positive_data_acceptance] if unsayable else []
    # Mistakes of the first are frames, with the status 200; in a form every value is a text, wrong or not.
    if operation.path in ("/api/hashbrown", "/v1/files"):
        unchecked.append(negative_data_rejection)

    @settings(STEADY, max_examples=cases)
    @given(case=operation.as_strategy(generation_mode=mode))
    def hold(case: Any) -> None:
        if fields:
            case.body |= fields
            case.headers.pop("X-Antiphon-Route", None)
        if operation.path == "/v1/responses" and mode is POSITIVE:
            case.body |= {"input": case.body.get("input") or "Hello", **dict.fromkeys(NAMES)}
            case.body.pop("prompt", None)
        answer = case.call()
        seen[answer.status_code] += 1
        seen[answer.headers.get("content-type", ["none"])[0].partition(";")[0]] += 1
        case.validate_response(answer, excluded_checks=unchecked)

    hold()
    return seen


def generated(operation: Any) -> list[str]:
    """The bodies that are tried."""
    bodies: list[str] = []

    @settings(STEADY, max_examples=STREAMED)
    @given(case=operation.as_strategy(generation_mode=POSITIVE))
    def note(case: Any) -> None:
        bodies.append(repr(case.body))

    note()
    return bodies


def worst(seen: Counter[int | str]) -> int:
    return max(status for status in seen if isinstance(status, int))


@pytest.mark.parametrize(("method", "path"), DESCRIBED, ids=lambda part: str(part))
def test_what_the_description_allows_is_answered_as_it_says(schema: Any, method: str, path: str) -> None:
    seen = held(schema[path][method], POSITIVE)
    assert worst(seen) < 500
    if (method, path) in [("POST", "/v1/responses"), ("POST", "/v1/conversations")]:
        # Two of them may have one idempotency key, and any text stands for X-Antiphon-Route.
        assert seen[200] + seen[409] >= CASES // 3


def test_what_is_streamed_is_as_the_description_says(schema: Any) -> None:
    """Who makes requests from a schema hardly ever asks for a stream, and names what is not there."""
    asked = {"stream": True, "background": False, **dict.fromkeys(NAMES)}
    seen = held(schema["/v1/responses"]["POST"], POSITIVE, STREAMED, **asked)
    assert worst(seen) < 500
    assert seen["text/event-stream"] >= STREAMED // 2


def test_what_is_generated_depends_on_no_other_module(
    schema: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = schema["/v1/responses"]["POST"]
    first = generated(operation)
    (tmp_path / "many_constants.py").write_text(f"WORDS = {[f'word {n}' for n in range(1000)]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("many_constants")
    try:
        assert generated(operation) == first
    finally:
        del sys.modules["many_constants"]


@pytest.mark.parametrize(("method", "path"), [at for at, each in DESCRIBED.items() if not each.open])
def test_what_the_description_forbids_is_refused(schema: Any, method: str, path: str) -> None:
    assert worst(held(schema[path][method], NEGATIVE, REFUSED)) < 500
