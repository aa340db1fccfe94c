"""The log: a line for each request that did not go well, and never anything of what was said in it."""

import asyncio
import contextlib
import json
import logging
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvloop
from websockets.exceptions import InvalidStatus

from antiphon.server.logs import TextLine, without_noise_of_children
from tests.server.conftest import Serve, Spawn
from tests.server.http_calls import dial, key_table, raw, turn
from tests.server.servers import Event, until
from tests.server.upstream import Call, Upstream

PROMPT = "do-not-log-me"

Log = pytest.LogCaptureFixture
Line = dict[str, Any]


@pytest.fixture
def log(caplog: Log) -> Log:
    caplog.set_level("INFO")
    return caplog


def lines_of(log: Log) -> list[Line]:
    found = [record for record in log.records if record.name == "antiphon.requests"]
    return [{"message": one.getMessage(), "level": one.levelname, **vars(one)["fields"]} for one in found]


def written(log: Log) -> str:
    """All that the gateway logged, as it is written."""
    return "\n".join(TextLine().format(record) for record in log.records if record.name != "httpx")


def the_line(log: Log) -> Line:
    """The only one, without what differs from run to run."""
    until(lambda: lines_of(log))
    (line,) = lines_of(log)
    assert line.pop("ms") >= 0
    assert line.pop("id").startswith("req_")
    assert PROMPT not in written(log)
    return line


def during(upstream: Upstream, answer: Callable[[Call], None], ask: Callable[[], Any]) -> Any:
    """What is asked for, while the upstream answers like this."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        answer(upstream.next())
        return asked.result()


def cut(call: Call) -> None:
    call.say(PROMPT)
    call.over.set()


def test_an_upstream_that_refuses_is_a_line_with_its_status_and_request_id(
    serve: Serve, upstream: Upstream, log: Log
) -> None:
    client = serve(upstream.toml).client()
    error: Event = during(
        upstream,
        lambda call: call.refuse(500, f"it says {PROMPT}", x_request_id="up-1"),
        lambda: client.refused(500, "POST", "/v1/responses", json={"input": PROMPT}),
    )
    assert the_line(log) == {
        "message": "request failed",
        "level": "WARNING",
        "route": "POST /v1/responses",
        "model": "model",
        "target": "up/some-model",
        "status": 500,
        "code": error["code"],
        "upstream_status": 500,
        "upstream_id": "up-1",
    }


@pytest.mark.parametrize("protocol", ["ui", "data-v1", "open-responses"])
def test_a_chat_that_fails_is_a_line_with_its_target(
    serve: Serve, upstream: Upstream, log: Log, protocol: str
) -> None:
    client = serve(upstream.toml).client()
    asked = {"messages": [{"role": "user", "content": PROMPT}]}
    during(
        upstream,
        lambda call: call.refuse(500, x_request_id="up-1"),
        lambda: client.refused(500, "POST", f"/api/v1/chat?protocol={protocol}", json=asked),
    )
    line = the_line(log)
    assert (line["route"], line["target"]) == ("POST /api/v1/chat", "up/some-model")
    assert (line["upstream_status"], line["upstream_id"]) == (500, "up-1")


def test_a_stream_that_fails_in_the_middle_is_a_line(serve: Serve, upstream: Upstream, log: Log) -> None:
    client = serve(upstream.toml).client()

    def listen() -> None:
        with client.listen("/v1/responses", input=PROMPT, stream=True) as events:
            events.until("response.failed")

    during(upstream, cut, listen)
    line = the_line(log)
    assert (line["status"], line["code"], line["upstream_status"]) == (200, "upstream_closed", 200)


def test_a_turn_that_fails_on_a_websocket_is_a_line(serve: Serve, upstream: Upstream, log: Log) -> None:
    with dial(serve(upstream.toml)) as socket:
        during(upstream, lambda call: call.refuse(500), lambda: turn(socket, model="model", input=PROMPT))
        line = the_line(log)
        assert (line["route"], line["target"]) == ("WS /v1/responses", "up/some-model")
        log.clear()
        turn(socket, model="none", input=PROMPT)
        line = the_line(log)
    assert (line["model"], line["code"]) == ("none", "model_not_found")
    assert "target" not in line


def test_a_background_response_that_fails_is_a_line(serve: Serve, upstream: Upstream, log: Log) -> None:
    client = serve(upstream.toml).client()
    id = client.create(model="model", input=PROMPT, background=True)["id"]
    upstream.next().refuse(429)
    line = the_line(log)
    assert line["route"] == f"background {id}"
    assert (line["code"], line["upstream_status"]) == ("rate_limit_exceeded", 429)


def test_the_line_names_the_key_and_not_its_secret(serve: Serve, upstream: Upstream, log: Log) -> None:
    client = serve(upstream.toml + key_table("alice")).client("sk-alice")
    client.refused(404, "POST", "/v1/responses", json={"model": "none", "input": PROMPT})
    assert the_line(log)["key"] == "alice"
    assert "sk-alice" not in written(log)


def test_what_is_refused_at_the_gate_is_a_line_with_its_reason(serve: Serve, log: Log) -> None:
    server = serve(key_table("alice"), SERVER__BODY_LIMIT="2000")
    stranger, alice = server.client("sk-wrong"), server.client("sk-alice")
    stranger.get("/v1/models")
    stranger.get("/v1/models", headers={"Host": "evil.example"})
    alice.get("/v2/nothing?key=sk-alice")
    alice.post("/v1/responses", json={"input": PROMPT * 1000})
    raw(server, "nonsense")
    with pytest.raises(InvalidStatus):
        dial(server)
    until(lambda: len(lines_of(log)) >= 5)
    found = {line["code"]: line for line in lines_of(log)}
    assert {code: line["status"] for code, line in found.items()} == {
        "invalid_api_key": 401,
        "forbidden": 403,
        "unknown_path": 404,
        "body_too_large": 413,
        "invalid_http": 400,
    }
    assert "evil.example" in found["forbidden"]["reason"]
    assert "[server] hosts" in found["forbidden"]["reason"]
    assert "sk-" not in written(log)
    assert PROMPT not in written(log)


def test_a_foreign_origin_is_told_what_to_add(serve: Serve, log: Log) -> None:
    serve().client().get("/v1/models", headers={"Origin": "https://app.example"})
    reason = the_line(log)["reason"]
    assert "'https://app.example'" in reason
    assert "list it in [server] origins" in reason


def test_a_flood_at_the_gate_is_one_line_a_second_with_a_count(serve: Serve, log: Log) -> None:
    client = serve().client()
    for _ in range(200):
        client.get("/nothing")
    until(lambda: sum(line.get("count", 1) for line in lines_of(log)) == 200)
    assert len(lines_of(log)) <= 20


def test_what_goes_well_is_a_line_only_where_that_is_wanted(
    serve: Serve, upstream: Upstream, log: Log
) -> None:
    upstream.answer = "hello"
    for access in ("false", "true"):
        client = serve(upstream.toml, LOG__ACCESS=access).client()
        with client.listen("/v1/responses", input=PROMPT, stream=True) as events:
            events.until("response.completed")
        if access == "false":
            client.get("/nothing")  # whose line would come after one of the request before it
            assert the_line(log)["code"] == "unknown_path"
            log.clear()
    line = the_line(log)
    assert line == {
        "message": "request",
        "level": "INFO",
        "route": "POST /v1/responses",
        "model": "model",
        "target": "up/some-model",
        "status": 200,
    }


def test_a_line_cannot_be_forged_by_what_a_client_sends(spawn: Spawn) -> None:
    server = spawn()
    model = 'none" key=root\nWARNING forged \x1b[31m'
    server.client().refused(404, "POST", "/v1/responses", json={"model": model, "input": "hi"})
    until(lambda: "model_not_found" in server.log())
    log = server.log()
    assert "\x1b" not in log
    (line,) = [line for line in log.splitlines() if "model_not_found" in line]
    assert "forged" in line
    assert re.match(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO antiphon\.requests: request failed id=", line
    )
    assert " key=root" not in re.sub(r'"(\\.|[^"\\])*"', "", line)


def test_a_record_is_one_line_whatever_it_holds() -> None:
    told = "a\nWARNING forged\r\x1b[31m\x85\u2028\ud800é"
    about: tuple[str, int, str, int] = "somebody", logging.WARNING, __file__, 1
    line = TextLine().format(logging.LogRecord(*about, "Tool %s", (told,), None))
    assert line.endswith(r"WARNING somebody: Tool a\nWARNING forged\r\u001b[31m\u0085\u2028\ud800é")
    error = ValueError(told)
    record = logging.LogRecord(*about, "broken", (), (ValueError, error, None))
    first, *others = TextLine().format(record).split("\n")
    assert first.endswith("WARNING somebody: broken")
    assert others[-1].startswith("  WARNING forged")
    assert all(one.startswith("  ") and one.isprintable() for one in others)


def test_a_child_that_writes_into_its_input_leaves_no_traceback(log: Log) -> None:
    """As code in the sandbox can, where its standard input is a socket."""
    logger = logging.getLogger("asyncio")

    async def run() -> None:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import os; os.write(0, b'x')", stdin=asyncio.subprocess.PIPE
        )
        assert child.stdin is not None
        await child.wait()
        with contextlib.suppress(ConnectionError, TypeError):
            await child.stdin.wait_closed()

    logger.addFilter(without_noise_of_children)
    try:
        uvloop.run(run())
    finally:
        logger.removeFilter(without_noise_of_children)
    (record,) = [record for record in log.records if record.name == "asyncio"]
    line = TextLine().format(record)
    assert line.endswith("INFO asyncio: a child process wrote into its standard input, and has lost it")


def test_the_log_as_json(spawn: Spawn) -> None:
    server = spawn(LOG__FORMAT="json", LOG__ACCESS="true")
    server.client().get("/healthz")
    server.client().get("/nothing")
    until(lambda: "unknown_path" in server.log())
    lines = [json.loads(line) for line in server.log().splitlines()]
    (failed,) = [line for line in lines if line.get("code") == "unknown_path"]
    assert failed["level"] == "info"
    assert failed["logger"] == "antiphon.requests"
    assert failed["route"] == "GET /nothing"
    assert any(line.get("route") == "GET /healthz" and line["status"] == 200 for line in lines)


def test_the_level_of_the_log_is_configured(spawn: Spawn) -> None:
    server = spawn(LOG__LEVEL="warning")
    server.client().get("/nothing")
    assert server.stop() == 0
    assert server.log() == ""


def test_a_path_without_its_version_is_answered_with_the_right_one(serve: Serve) -> None:
    error = serve().client().refused(404, "POST", "/responses", json={"input": "hi"})
    assert "did you mean /v1/responses?" in error["message"]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/respones", "/v1/responses"),
        ("/chat/completions", "/v1/chat/completions"),
    ],
)
def test_a_path_that_is_nearly_right_is_answered_with_the_right_one(
    serve: Serve, path: str, meant: str
) -> None:
    error = serve().client().refused(404, "POST", path, json={})
    assert error["message"].endswith(f"; did you mean {meant}?")
