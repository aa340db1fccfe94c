"""The head of an answer says the same at every door: how many receipts there are, and who was asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.server.app import App
from tests.bridges.scripts import TOML, said
from tests.producer.serving import serving
from tests.server.conftest import Serve
from tests.server.servers import Client, configure

COUNT, TARGET = "x-antiphon-receipts", "x-antiphon-target"
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
PICTURE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}

RESPONSES, CHAT, MESSAGES = "/v1/responses", "/v1/chat/completions", "/v1/messages"


FUNCTIONS = '[tools.function]\nload = ["tests.tools.hosted_functions:add"]\n'
MODELS = 'one = "demo/any"\ntwo = ["demo/any", "demo/other"]\n[routes.one]\nfailures = 5\n'


@pytest.fixture(scope="module")
def client(serve_all: Serve) -> Client:
    return serve_all(TOML + MODELS + FUNCTIONS).client()


def body(door: str, words: str = "hi", **more: Any) -> dict[str, Any]:
    """A request of this door, with the model that has one target."""
    if door.startswith(RESPONSES):
        return {"model": "one", "input": words, **more}
    request = {"model": "one", "messages": [{"role": "user", "content": words}], **more}
    return {**request, "max_tokens": 100} if door == MESSAGES else request


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["one", "two"])
@pytest.mark.parametrize("door", [RESPONSES, CHAT, MESSAGES])
def test_every_door_names_the_target_of_a_route(client: Client, door: str, model: str, stream: bool) -> None:
    """Where a whole answer of two of the doors had no receipts, it did not."""
    answer = client.post(door, json={**body(door, stream=stream), "model": model})
    assert answer.status_code == 200, answer.text
    assert answer.headers[TARGET] == "demo/any"
    assert stream or (COUNT in answer.headers) == (model == "two")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["one", "two"])
def test_a_route_that_hosted_tools_go_through_is_named_too(client: Client, model: str, stream: bool) -> None:
    """The loop that runs the tools asks it, once a model turn, and its target was never named."""
    tools = [{"type": "antiphon:function", "name": "add"}]
    asked = {"model": model, "input": "hi", "tools": tools, "stream": stream}
    answer = client.post(RESPONSES, json=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers[TARGET] == "demo/any"


FAILING = """\
[providers.one]
type = "script"
[providers.other]
type = "script"
[models]
two = ["one/m", "other/m"]
[routes.two]
retries = 1
"""
BUSY = said([{"error": {"type": "server_error", "code": "model_overloaded", "status": 503}}])


@pytest.fixture(params=["own server", "asgi"])
def failing(request: pytest.FixtureRequest, tmp_path: Path, serve: Serve) -> Iterator[Client]:
    """A route whose targets fail when they are told to, over our own HTTP and over that of uvicorn."""
    if request.param == "own server":
        yield serve(FAILING).client()
        return
    with serving(App(configure(tmp_path, FAILING))) as url, Client(url) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("door", [RESPONSES, CHAT, MESSAGES])
def test_an_error_names_the_target_that_was_asked_last(failing: Client, door: str, stream: bool) -> None:
    asked = {**body(door, BUSY, stream=stream), "model": "two"}
    answer = failing.post(door, json=asked)
    assert answer.status_code in (503, 529), answer.text
    assert answer.headers[TARGET] == "other/m"


def refused(client: Client) -> Iterator[tuple[int, httpx.Response]]:
    """Requests that are refused before anybody is asked, each with its status."""
    nobody = {"antiphon:route": {"without": ["one", "other"]}}
    cases: list[tuple[int, dict[str, Any]]] = [
        (400, {"temperature": "warm"}),
        (400, {"tool_choice": {"type": "function", "name": "f"}}),
        (404, {"previous_response_id": "resp_unknown"}),
        (404, {"conversation": "conv_unknown"}),
        (400, nobody),
        (404, {"model": "unknown"}),
    ]
    for status, wrong in cases:
        for stream in (False, True):
            yield (
                status,
                client.post(RESPONSES, json={"model": "two", "input": "hi", "stream": stream, **wrong}),
            )
    yield 400, client.post(f"{RESPONSES}/compact", json={"model": "two"})


def test_a_request_that_is_refused_before_anybody_is_asked_names_no_target(failing: Client) -> None:
    for status, answer in refused(failing):
        assert answer.status_code == status, answer.text
        assert TARGET not in answer.headers, answer.text


def test_nobody_is_named_where_all_targets_rest(failing: Client) -> None:
    asked = {"model": "two", "input": BUSY}
    limited = said([{"error": {"type": "too_many_requests", "retry_after": 60}}])
    answer = failing.post(RESPONSES, json={**asked, "input": limited})
    assert (answer.status_code, answer.headers[TARGET]) == (429, "other/m")
    for stream in (False, True):
        answer = failing.post(RESPONSES, json={**asked, "stream": stream})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "targets_unavailable")
        assert TARGET not in answer.headers


def test_a_count_names_the_target_whose_tokens_they_are(failing: Client) -> None:
    asked = {"model": "two", "messages": [{"role": "user", "content": "hi"}]}
    answer = failing.post("/v1/messages/count_tokens", json=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers[TARGET] == "one/m"


def test_a_compaction_names_its_target(client: Client) -> None:
    answer = client.post("/v1/responses/compact", json={"model": "one", "input": "hi"})
    assert answer.status_code == 200, answer.text
    assert answer.headers[TARGET] == "demo/any"


@pytest.mark.parametrize(("door", "item"), [(CHAT, SEARCH), (MESSAGES, PICTURE)])
def test_a_repeated_answer_counts_what_its_door_has_no_place_for(
    client: Client, door: str, item: dict[str, Any]
) -> None:
    """The first answer counted the item, and a chat completion that was sent again did not."""
    asked = body(door, said([{"text": "Here."}, {"item": item}]), **({"store": True} if door == CHAT else {}))
    headers = {"X-Antiphon-Receipts": "1", "Idempotency-Key": f"counted {door}"}
    first, again = (client.post(door, json=asked, headers=headers) for _ in range(2))
    assert "idempotent-replayed" in again.headers
    assert again.json() == first.json()
    assert again.headers[COUNT] == first.headers[COUNT] == str(len(first.json()["antiphon:receipts"]))
