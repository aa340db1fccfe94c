"""The child with the real model: what it says, what it takes, and when it ends."""

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.embedded.child import ChildSettings, cores
from tests.embedded.processes import KEY, Running, launch, messages, running

CANARY = "xylophonist"
HELLO = {"role": "user", "content": f"Say hello to the {CANARY}."}
CITY = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Paris", "Rome"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}


def test_it_says_where_it_listens_and_how_much_context_there_is(child: Running) -> None:
    assert child.url.startswith("http://127.0.0.1:")
    assert child.ready["n_ctx"] == 512


def test_an_answer_streams_with_its_counts(child: Running) -> None:
    answer = child.chat(
        {"messages": [HELLO], "max_tokens": 8, "stream_options": {"include_usage": True}, "seed": 1}
    )
    assert answer.ended
    assert answer.text
    assert answer.finish_reason == "length"
    assert {chunk["model"] for chunk in answer.chunks} == {"tiny"}
    usage = answer.chunks[-1]["usage"]
    assert usage["completion_tokens"] == 8
    assert usage["total_tokens"] == usage["prompt_tokens"] + 8
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 0
    assert answer.chunks[-1]["choices"] == []
    assert [chunk["prompt_progress"]["total"] for chunk in answer.chunks if "prompt_progress" in chunk][
        :1
    ] == [usage["prompt_tokens"]]
    counted = child.post("/v1/chat/completions/input_tokens", {"messages": [HELLO]})
    assert counted.json() == {"input_tokens": usage["prompt_tokens"], "object": "response.input_tokens"}


def test_a_stop_string_ends_the_answer_and_is_not_in_it(child: Running) -> None:
    count = {"role": "user", "content": "Repeat exactly: one two three four five"}
    answer = child.chat({"messages": [count], "max_tokens": 30, "stop": ["three"]})
    assert answer.finish_reason == "stop"
    assert "three" not in answer.text


def test_a_schema_binds_the_answer(child: Running) -> None:
    answer = child.chat(
        {
            "messages": [{"role": "user", "content": "Tell me a story."}],
            "max_tokens": 80,
            "response_format": {"type": "json_schema", "json_schema": {"name": "trip", "schema": CITY}},
        }
    )
    value = json.loads(answer.text)
    assert value.keys() == {"city", "days"}
    assert value["city"] in ("Paris", "Rome")
    assert 1 <= value["days"] <= 9
    assert answer.finish_reason == "stop"


def test_json_object_binds_the_answer(child: Running) -> None:
    answer = child.chat(
        {
            "messages": [{"role": "user", "content": "Give me a JSON object with the key a."}],
            "max_tokens": 60,
            "response_format": {"type": "json_object"},
        }
    )
    assert answer.text.lstrip().startswith("{")


def test_logprobs_come_with_each_token(child: Running) -> None:
    answer = child.chat({"messages": [HELLO], "max_tokens": 3, "logprobs": True, "top_logprobs": 2})
    tokens = [
        entry for choice in answer.choices for entry in (choice.get("logprobs") or {}).get("content", ())
    ]
    assert len(tokens) == 3
    for token in tokens:
        assert token["logprob"] <= 0
        assert bytes(token["bytes"]).decode() == token["token"]
        assert len(token["top_logprobs"]) == 2
        assert token["top_logprobs"][0]["logprob"] == token["logprob"]


def test_a_prompt_that_is_too_long_is_refused_with_both_counts(child: Running) -> None:
    body = {
        "messages": [{"role": "user", "content": "word " * 700}],
        "stream": True,
        "return_progress": True,
    }
    answer = child.post("/v1/chat/completions", body)
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["type"] == "exceed_context_size_error"
    assert error["n_ctx"] == 512
    assert error["n_prompt_tokens"] > 700


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"json_schema": {"type": "frobnicate"}}, "JSON schema error"),
        ({"grammar": "root ::= ("}, "grammar"),
        ({"temperature": "hot"}, "temperature"),
        ({"messages": None}, "messages"),
    ],
)
def test_a_bad_request_is_an_error_and_not_a_stream(
    child: Running, change: dict[str, Any], said: str
) -> None:
    answer = child.post(
        "/v1/chat/completions", {"messages": [HELLO], "stream": True, "max_tokens": 2, **change}
    )
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["type"] == "invalid_request_error"
    assert error["code"] == 400
    assert said in error["message"]


def test_nothing_is_served_without_the_key(child: Running) -> None:
    body = {"messages": [HELLO]}
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = httpx.post(f"{child.url}/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "authentication_error"
    for path in ("/v1/models", "/props", "/slots", "/metrics"):
        assert httpx.get(child.url + path).status_code == 401
    for path in ("/", "/index.html"):
        assert httpx.get(child.url + path).status_code == 404


def test_no_other_site_may_read_it(child: Running) -> None:
    answer = httpx.get(f"{child.url}/health", headers={"Origin": "https://example.com"})
    assert answer.headers.get("access-control-allow-origin", "") == ""


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [HELLO], "max_tokens": 450, "ignore_eos": True},
        {"messages": [{"role": "user", "content": "alpha beta gamma " * 150}], "max_tokens": 1},
    ],
    ids=["while it writes", "while it reads the prompt"],
)
def test_closing_the_connection_stops_the_work(child: Running, body: dict[str, Any]) -> None:
    with child.open_chat(body) as answer:
        lines = answer.iter_lines()
        while not next(lines).startswith("data: "):
            continue
        answer.close()
    # An abandoned answer of 450 tokens would keep the processor busy for many seconds.
    deadline = time.monotonic() + 20
    while _processor_time(child.process.pid, over=0.3) > 0.1:
        assert time.monotonic() < deadline


def test_more_requests_than_slots_are_all_answered(child: Running) -> None:
    body = {"messages": [HELLO], "max_tokens": 6, "ignore_eos": True}
    with ThreadPoolExecutor(6) as callers:
        answers = list(callers.map(child.chat, [body] * 6))
    assert [(answer.ended, answer.finish_reason) for answer in answers] == [(True, "length")] * 6


def test_the_log_has_no_prompt_in_it(child: Running) -> None:
    child.chat({"messages": [HELLO], "max_tokens": 1})
    child.post("/v1/chat/completions", {"messages": [HELLO], "json_schema": {"type": CANARY}})
    assert CANARY not in child.log.read_text()


def test_a_full_context_ends_an_answer_and_a_gone_parent_the_process(model: Path, tmp_path: Path) -> None:
    settings = ChildSettings(model=str(model), alias="tiny", key=KEY, slots=2, context=64, threads=1)
    with running(settings, tmp_path / "log") as own:
        answer = own.chat(
            {"messages": [HELLO], "ignore_eos": True, "stream_options": {"include_usage": True}}
        )
        assert answer.finish_reason == "length"
        assert answer.chunks[-1]["usage"]["total_tokens"] == own.ready["n_ctx"] == 64
        assert own.process.stdin is not None
        own.process.stdin.close()
        assert own.process.wait(timeout=60) == 0


def test_it_ends_when_its_parent_does_while_it_still_loads(model: Path, tmp_path: Path) -> None:
    process = launch(ChildSettings(str(model), "tiny", KEY, 1, 256, 1), tmp_path / "log")
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout, process.stdin:
        assert "step" in next(messages(process))
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing more")
    process = launch(ChildSettings(str(broken), "broken", KEY, 1, 256, 1), tmp_path / "log")
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        assert "error" in list(messages(process))[-1]
        assert process.wait(timeout=60) == 1


def test_threads_fit_the_machine() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


def _processor_time(pid: int, over: float) -> float:
    """Seconds of processor time that a process uses in the next `over` seconds."""

    def used() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["sleep", "60"], timeout=over, check=False)
    return used() - before
