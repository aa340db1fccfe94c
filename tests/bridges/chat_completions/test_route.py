"""`/v1/chat/completions` on a real server: errors, what is stored, receipts, and clients that go away."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.bridges.scripts import EVERYTHING, FAILURE, TOML, said
from tests.server.conftest import Serve
from tests.server.curl import ADDRESS, Shell
from tests.server.http_calls import key_table
from tests.server.servers import Client, Serving
from tests.server.test_docs import BLOCK
from tests.server.upstream import Upstream

CHAT = "/v1/chat/completions"
PAGE = (Path(__file__).parents[3] / "docs/bridges/chat-completions.md").read_text(encoding="utf-8")
Json = dict[str, Any]
USER = {"role": "user", "content": "Say hello."}


@pytest.fixture(scope="module")
def client(serve_all: Serve) -> Client:
    return serve_all(TOML).client()


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def chunks(client: Client, *messages: Json, **more: Any) -> list[Json]:
    answer = client.post(CHAT, json={"messages": messages, "stream": True, **more})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]


def test_everything_a_model_can_say(client: Client) -> None:
    told = chunks(client, user(said(EVERYTHING)), stream_options={"include_usage": True})
    deltas = [one["choices"][0]["delta"] for one in told[:-1]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    text = "".join(one.get("content", "") for one in deltas)
    assert text == "It is «18 °C» \U0001f324.\nBye"
    assert "".join(one.get("reasoning_content", "") for one in deltas) == "Weather,\nthen. Ünïcode"
    assert deltas[-2]["annotations"][0]["url_citation"]["url"] == "https://w.example"
    assert deltas[-2]["reasoning_details"][0]["data"].startswith("v1.")
    assert told[-2]["choices"][0]["finish_reason"] == "stop"
    assert told[-1]["usage"]["prompt_tokens"] == 11
    whole = client.ok("POST", CHAT, json={"messages": [user(said(EVERYTHING))]})
    assert whole["choices"][0]["message"]["content"] == text
    assert whole["object"] == "chat.completion"


def test_a_failure_before_and_in_the_middle(client: Client) -> None:
    error = client.refused(500, "POST", CHAT, json={"messages": [user(said(FAILURE))]})
    assert (error["code"], error["type"]) == ("model_overloaded", "server_error")
    told = chunks(client, user(said(FAILURE)))
    assert told[-1]["error"]["code"] == "model_overloaded"
    assert "choices" not in told[-1]


def test_errors_have_the_shape_of_this_api_for_every_client(client: Client) -> None:
    """Also without a header that says who asks, and before anybody looks at the body."""
    for status, method, path, options in (
        (400, "POST", CHAT, {"content": b"{"}),
        (400, "POST", CHAT, {"json": {"messages": [user("x")], "tool_choice": "required"}}),
        (404, "POST", CHAT, {"json": {"messages": [user("x")], "model": "nobody"}}),
        (405, "PUT", CHAT, {}),
        (415, "POST", CHAT, {"content": b"x", "headers": {"content-type": "text/plain"}}),
        (404, "GET", f"{CHAT}/nobody", {}),
        (400, "POST", "/v1/embeddings", {"json": {}}),
    ):
        answer = client.request(method, path, **options)
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert error["type"] in ("invalid_request_error", "not_found_error"), error
        assert answer.headers["x-antiphon-dialect"] == "openai"


def test_a_key_is_wanted_in_the_words_of_this_api(serve: Serve) -> None:
    http = serve(TOML + key_table("alice")).client()
    answer = http.post(CHAT, json={"messages": [USER]})
    assert (answer.status_code, answer.headers["x-antiphon-dialect"]) == (401, "openai")
    assert answer.json()["error"]["code"] == "invalid_api_key"
    http.headers["Authorization"] = "Bearer sk-alice"
    assert http.post(CHAT, json={"messages": [USER]}).status_code == 200


def test_retry_after(serve: Serve, upstream: Upstream) -> None:
    http = serve(upstream.toml).client()

    def refuse() -> None:
        upstream.next().refuse(429, "slow down", Retry_After="7")

    thread = threading.Thread(target=refuse)
    thread.start()
    answer = http.post(CHAT, json={"messages": [USER], "stream": True})
    thread.join()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.json()["error"]["type"] == "rate_limit_error"


CUT_BEFORE_WORDS: list[Json] = [{"usage": {"input_tokens": 3, "output_tokens": 0}}, {"cut": True}]
CUT_AFTER_WORDS: list[Json] = [{"text": "The quick brown fox "}, {"cut": True}]


@pytest.mark.parametrize(("on_cut", "first"), [("restart", CUT_BEFORE_WORDS), ("continue", CUT_AFTER_WORDS)])
def test_the_last_chunks_name_the_model_that_answered(
    serve: Serve, tmp_path: Path, on_cut: str, first: list[Json]
) -> None:
    toml = ""
    for name, steps in (("d1", first), ("d2", [{"text": "Hello!"}])):
        (tmp_path / f"{name}.json").write_text(json.dumps(steps))
        toml += f'[providers.{name}]\ntype = "script"\nfile = "{tmp_path}/{name}.json"\n'
    toml += f'[models]\nr = ["d1/m", "d2/m"]\n[routes.r]\non_cut = "{on_cut}"\n'
    told = chunks(serve(toml).client(), USER, model="r", stream_options={"include_usage": True})
    assert told[0]["model"] == "d1/m"
    *_, finish, usage = told
    assert (finish["choices"][0]["finish_reason"], finish["model"]) == ("stop", "d2/m")
    assert (usage["choices"], usage["model"]) == ([], "d2/m")


def test_a_stored_run_is_a_response(client: Client) -> None:
    told = client.ok("POST", CHAT, json={"messages": [USER], "store": True, "metadata": {"a": "b"}})
    response = client.ok("GET", f"/v1/responses/{told['id']}")
    assert (response["metadata"], response["status"]) == ({"a": "b"}, "completed")
    more = client.create(input="Again.", previous_response_id=told["id"])
    listed = client.ok("GET", f"/v1/responses/{more['id']}/input_items?order=asc")["data"]
    assert [one["role"] for one in listed] == ["user", "assistant", "user"]
    again = client.ok("GET", f"{CHAT}/{told['id']}")
    assert again["choices"] == told["choices"]
    assert client.ok("DELETE", f"{CHAT}/{told['id']}")["object"] == "chat.completion.deleted"
    client.refused(404, "GET", f"{CHAT}/{told['id']}")
    client.refused(404, "DELETE", f"{CHAT}/{told['id']}")
    unstored = client.ok("POST", CHAT, json={"messages": [USER]})
    client.refused(404, "GET", f"/v1/responses/{unstored['id']}")


def test_receipts_have_the_names_of_this_api(client: Client) -> None:
    body = {
        "messages": [{**USER, "cache_control": {}}],
        "reasoning_effort": "minimal",
        "max_tokens": 7,
        "stop": "END",
        "top_k": 3,
    }
    answer = client.post(CHAT, json=body, headers={"X-Antiphon-Receipts": "1"})
    told = {one["param"] for one in answer.json()["antiphon:receipts"]}
    assert {"messages[0].cache_control", "reasoning_effort", "stop", "top_k"} <= told
    assert answer.headers["x-antiphon-receipts"] == str(len(answer.json()["antiphon:receipts"]))
    streamed = client.post(CHAT, json={**body, "stream": True}, headers={"X-Antiphon-Receipts": "1"})
    assert '"antiphon:receipts":[{' in streamed.text
    assert "antiphon:receipts" not in client.post(CHAT, json=body).json()


def test_strict_mode_refuses_instead(serve: Serve) -> None:
    http = serve(TOML, SERVER__STRICT="true").client()
    error = http.refused(400, "POST", CHAT, json={"messages": [USER], "stop": "END"})
    assert (error["param"], error["code"]) == ("stop", "unsupported_parameter")
    error = http.refused(400, "POST", CHAT, json={"messages": [{**USER, "cache_control": {}}]})
    assert error["param"] == "messages[0].cache_control"


def test_a_client_that_goes_away_ends_the_run(serve: Serve, upstream: Upstream) -> None:
    http = serve(upstream.toml, SERVER__CREATED_AFTER="0.05").client()
    body = {"messages": [USER], "stream": True}
    with http.stream("POST", CHAT, json=body) as answer:
        call = upstream.next()
        call.say("Once")
        assert any(b"Once" in piece for piece in answer.iter_raw())
    assert call.was_closed()


# --- the page ---------------------------------------------------------------------------------------------

SCRIPT = {
    "turns": [
        {"when": {"contains": "What time"}, "steps": [{"call": "get_time", "arguments": {}, "id": "call_1"}]},
        {"when": {"contains": "12:00"}, "steps": [{"text": "It is noon."}]},
        {"steps": [{"text": "Hello!"}]},
    ]
}


@pytest.fixture
def documented(serve: Serve, tmp_path: Path) -> Serving:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "time.json").write_text(json.dumps(SCRIPT))
    return serve(
        'default_model = "smollm2-135m-instruct"\n[providers.demo]\ntype = "script"\nfile = "time.json"\n'
        '[models]\n"smollm2-135m-instruct" = "demo/any"\n'
    )


def test_the_examples_of_the_page(
    documented: Serving, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    shell = Shell(documented.client())
    (command,) = (text for language, text in BLOCK.findall(PAGE) if language == "sh")
    assert shell.run(command).json()["choices"][0]["message"]["content"] == "Hello!"
    programs = [text for language, text in BLOCK.findall(PAGE) if language == "python"]
    names: Json = {"OpenAI": OpenAI}
    for program in programs:
        exec(program.replace(ADDRESS, documented.url), names)
    names["client"].close()
    assert capsys.readouterr().out == "Hello!\nHello!It is noon.\nHello!\n"
