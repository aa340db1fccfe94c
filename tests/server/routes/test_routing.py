"""Routes over real connections: what the client, the operator and the log see of targets that fail."""

import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Serve
from tests.server.endings import Asked, Departing, Inside, dial, turn
from tests.server.http_calls import key_table
from tests.server.servers import Client, Serving
from tests.server.upstream import Upstream

ONE_SECOND = 1.0
TEXT = "The quick brown fox jumps over the lazy dog."
FAULTS: dict[str, list[dict[str, Any]]] = {
    "head": [
        {"error": {"type": "server_error", "message": "busy", "code": "model_overloaded", "status": 503}}
    ],
    "limit": [{"error": {"type": "too_many_requests", "message": "slow", "retry_after": 20}}],
    "timeout": [{"error": {"type": "server_error", "message": "late", "code": "timeout", "status": 504}}],
    "auth": [{"error": {"type": "server_error", "message": "who?", "code": "upstream_auth", "status": 502}}],
    "text": [{"text": TEXT[:22], "chunk": 7}, {"cut": True}],
    "reasoning": [{"reasoning": "Let me see", "chunk": 4}, {"cut": True}],
    "call": [{"call": "f", "arguments": {"a": 1}, "id": "c1"}, {"cut": True}],
    "arguments": [{"call": "f", "arguments": '{"city": "Par', "id": "c1", "chunk": 4}, {"cut": True}],
    "custom": [{"custom": "q", "input": "SELECT 1", "id": "c1", "chunk": 4}, {"cut": True}],
}
REST = [{"text": TEXT[12:], "chunk": 5}]
WHOLE = [{"text": TEXT, "chunk": 5}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, serve_all: Serve) -> Serving:
    """For each fault and each `on_cut` a route whose first target has that fault."""
    folder = tmp_path_factory.mktemp("scripts")
    toml, models, routes = [], [], []

    def provider(name: str, steps: list[dict[str, Any]]) -> None:
        (folder / f"{name}.json").write_text(json.dumps({"steps": steps}))
        toml.append(f'[providers.{name}]\ntype = "script"\nfile = "{folder}/{name}.json"')

    provider("rest", REST)
    provider("whole", WHOLE)
    for fault, steps in FAULTS.items():
        for on_cut in ("restart", "continue", "fail"):
            provider(f"{fault}-{on_cut}", steps)
            second = "rest" if (fault, on_cut) == ("text", "continue") else "whole"
            models.append(f'"{fault}-{on_cut}" = ["{fault}-{on_cut}/m", "{second}/m"]')
            routes.append(f'[routes."{fault}-{on_cut}"]\non_cut = "{on_cut}"\nfailures = 100')
    return serve_all("\n".join([*toml, "[models]", *models, *routes]))


def in_background(server: Serving, **request: Any) -> Any:
    client = server.client()
    id = client.create(background=True, **request)["id"]
    return client.ended(id)


BEFORE_CONTENT = ("head", "limit", "timeout", "auth")
TOOLS = [{"type": "function", "name": "f"}, {"type": "custom", "name": "q"}]


@pytest.mark.parametrize("on_cut", ["restart", "continue", "fail"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_over_every_transport(server: Serving, asked: Asked, fault: str, on_cut: str) -> None:
    outcome = asked(server, model=f"{fault}-{on_cut}", input="hi", tools=TOOLS)
    assert outcome.response is not None
    is_plain = asked.__name__ == "over_json"
    check(outcome.response, fault, on_cut, is_plain=is_plain)


@pytest.mark.parametrize("on_cut", ["restart", "continue", "fail"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_background(server: Serving, fault: str, on_cut: str) -> None:
    response = in_background(server, model=f"{fault}-{on_cut}", input="hi", tools=TOOLS)
    check(response, fault, on_cut, is_plain=False)


def check(response: dict[str, Any], fault: str, on_cut: str, *, is_plain: bool) -> None:
    """What becomes of a fault: who answers, and with what."""
    goes_on = on_cut == "continue"
    if fault not in BEFORE_CONTENT and not is_plain and (not goes_on or fault == "arguments"):
        assert response["status"] == "failed"
        assert response["error"]["code"] == "upstream_closed"
        return
    assert response["status"] == "completed"
    assert response["model"] in ("rest/m", "whole/m")
    *before, last = response["output"]
    # Nothing of a plain answer was sent, so another target starts anew, and says all that it has.
    began_anew = is_plain and goes_on and fault == "text"
    assert last["content"][0]["text"] == (TEXT[12:] if began_anew else TEXT)
    stays = {"reasoning": "reasoning", "call": "function_call", "custom": "custom_tool_call"}
    kept = [] if is_plain or fault not in stays else [stays[fault]]
    assert [item["type"] for item in before] == kept


def test_the_truth_is_told_in_the_model_the_header_and_the_receipt(server: Serving) -> None:
    client = server.client(X_Antiphon_Receipts="1")
    answer = client.post("/v1/responses", json={"model": "head-restart", "input": "hi"})
    assert answer.headers["x-antiphon-target"] == "whole/m"
    body = answer.json()
    assert body["model"] == "whole/m"
    (receipt,) = body["antiphon:receipts"]
    assert (receipt["param"], receipt["action"], receipt["provider"]) == ("model", "route", "router")
    first, second = receipt["attempts"]
    assert (first["target"], first["outcome"]) == ("head-restart/m", "overloaded")
    assert (second["target"], second["outcome"]) == ("whole/m", "answered")
    assert second["reason"] == "after overloaded of head-restart/m"
    again = client.create(model=body["model"], input="hi", previous_response_id=body["id"])
    assert again["model"] == "whole/m"
    with client.stream(
        "POST", "/v1/responses", json={"model": "text-continue", "input": "hi", "stream": True}
    ) as s:
        assert s.headers["x-antiphon-target"] == "text-continue/m"
        events = [json.loads(line[6:]) for line in s.iter_lines() if line.startswith("data: {")]
    assert events[0]["response"]["model"] == "text-continue/m"
    assert events[-1]["response"]["model"] == "rest/m"


def test_an_alias_with_one_target_says_what_it_always_said(serve: Serve) -> None:
    server = serve('[providers.s]\ntype = "script"\n[models]\none = "s/m"\n')
    answer = server.client().post("/v1/responses", json={"model": "one", "input": "hi"})
    assert answer.json()["model"] == "one"
    assert "x-antiphon-target" not in answer.headers
    assert server.client().ok("GET", "/v1/antiphon/routes") == {"object": "list", "data": []}


def test_a_route_is_there_as_long_as_one_of_its_targets_is(serve: Serve) -> None:
    off = '[providers.off]\ntype = "groq"\napi_key_env = "ANTIPHON_TEST_NO_SUCH_KEY"\n'
    server = serve(
        off + '[providers.s]\ntype = "script"\n[models]\nboth = ["off/m", "s/m"]\nnone = ["off/m", "off/n"]\n'
    )
    client = server.client()
    assert client.create(model="both", input="hi")["model"] == "s/m"
    assert client.ok("GET", "/v1/models/both")["owned_by"] == "s"
    assert [one["id"] for one in client.ok("GET", "/v1/models")["data"]][:1] == ["both"]
    states = [one["state"] for one in client.ok("GET", "/v1/antiphon/routes")["data"][0]["targets"]]
    assert states == ["disabled", "closed"]
    assert (
        client.refused(503, "POST", "/v1/responses", json={"model": "none", "input": "hi"})["code"]
        == "model_unavailable"
    )


def test_the_state_of_the_targets_is_shown(server: Serving) -> None:
    client = server.client()
    client.create(model="limit-fail", input="hi")
    routes = {route["name"]: route for route in client.ok("GET", "/v1/antiphon/routes")["data"]}
    assert len(routes) == 3 * len(FAULTS)
    limited, whole = routes["limit-fail"]["targets"]
    assert (limited["target"], limited["state"], limited["failures"]) == ("limit-fail/m", "open", 1)
    assert 0 < limited["reopens_in"] <= 20
    assert limited["errors"] == 1
    assert whole["state"] == "closed"
    assert whole["requests"] > 0
    assert whole["time_to_first_token"] is not None


TWO_SCRIPTS = """\
[providers.a]
type = "script"
[providers.b]
type = "script"
[models]
both = ["a/m", "b/m"]
[routes.both]
strategy = "weighted"
"""


@pytest.mark.parametrize("stream", [True, False])
def test_targets_are_asked_by_their_weights(serve: Serve, stream: bool) -> None:
    client = serve(TWO_SCRIPTS + "weights = [3, 1]\n").client()
    request = {"model": "both", "input": "hi", "stream": stream}
    answers = [client.post("/v1/responses", json=request) for _ in range(40)]
    asked = Counter(answer.headers["x-antiphon-target"] for answer in answers)
    assert asked == {"a/m": 30, "b/m": 10}


@pytest.mark.parametrize("stream", [True, False])
def test_a_response_with_hosted_calls_stays_on_the_target_that_began_it(serve: Serve, stream: bool) -> None:
    """Its model turns are one chain, also where nobody can go on with the response itself."""
    load = '[tools.function]\nload = ["tests.tools.hosted_functions:add"]\n'
    client = serve(TWO_SCRIPTS + load).client(X_Antiphon_Receipts="1")
    turns = [
        {"when": {"turn": 1}, "steps": [{"call": "add", "arguments": {"a": 1, "b": 2}}]},
        {"when": {"turn": 2}, "steps": [{"call": "add", "arguments": {"a": 3, "b": 4}}]},
        {"when": {"turn": 3}, "steps": [{"text": "Done."}]},
    ]
    request = {
        "model": "both",
        "input": f"```script\n{json.dumps({'turns': turns})}\n```",
        "tools": [{"type": "antiphon:function", "name": "add"}],
        "store": False,
    }
    began = Counter[str]()
    for _ in range(4):
        if stream:
            with client.listen("/v1/responses", stream=True, **request) as events:
                response = list(events)[-1]["response"]
        else:
            response = client.create(**request)
        assert response["status"] == "completed"
        told = [one["attempts"] for one in response["antiphon:receipts"] if one["action"] == "route"]
        asked = [(attempt["target"], attempt["reason"]) for attempts in told for attempt in attempts]
        target = response["model"]
        assert asked == [(target, "weight"), (target, "affinity"), (target, "affinity")]
        began[target] += 1
    assert began == {"a/m": 2, "b/m": 2}


def test_any_key_may_read_the_state_of_the_targets_and_nobody_without_one(serve: Serve) -> None:
    server = serve(TWO_SCRIPTS + key_table("alice") + key_table("bob", tenant="builders"))
    alice, bob = server.client("sk-alice"), server.client("sk-bob")
    made = alice.create(
        model="both",
        input="a secret of hers",
        prompt_cache_key="cache-key",
        user="her-user",
        metadata={"project": "hush"},
    )
    server.client().refused(401, "GET", "/v1/antiphon/routes")
    server.client("sk-nobody").refused(401, "GET", "/v1/antiphon/routes")
    told = [client.get("/v1/antiphon/routes") for client in (alice, bob)]
    assert [answer.status_code for answer in told] == [200, 200]
    assert told[0].json() == told[1].json()
    (route,) = told[1].json()["data"]
    assert sum(target["requests"] for target in route["targets"]) == 1
    for private in ("alice", "bob", "builders", "secret", "cache-key", "her-user", "hush", made["id"]):
        assert private not in told[1].text, private
    # Whatever is told is the name of something in the configuration, or a number.
    known = {"both", "weighted", "restart", "a/m", "b/m", "closed"}
    words = {value for one in (route, *route["targets"]) for value in one.values() if isinstance(value, str)}
    assert words == known


def test_when_all_targets_rest_the_client_is_told_for_how_long(serve: Serve) -> None:
    step = '{ error = { type = "too_many_requests", message = "slow", retry_after = 20 } }'
    block = f"```script\nsteps = [{step}]\n```"
    server = serve(
        '[providers.s]\ntype = "script"\nfrom_requests = true\n[models]\none = "s/m"\n[routes.one]\n'
    )
    client = server.client()
    first = client.post("/v1/responses", json={"model": "one", "input": block})
    assert (first.status_code, first.headers["retry-after"]) == (429, "20")
    second = client.post("/v1/responses", json={"model": "one", "input": "hi"})
    assert second.status_code == 503
    assert second.json()["error"]["code"] == "targets_unavailable"
    assert 18 <= int(second.headers["retry-after"]) <= 20


def test_a_target_that_asks_for_no_pause_gets_none(serve: Serve, upstream: Upstream) -> None:
    routed = '[routes.model]\nretries = 0\ncooldown = "1 h"\n'
    client = serve(upstream.toml + routed).client()

    def refuse() -> None:
        upstream.next().refuse(429, "slow down", Retry_After="0")

    thread = threading.Thread(target=refuse)
    thread.start()
    client.refused(429, "POST", "/v1/responses", json={"input": "hi"})
    thread.join()
    (route,) = client.ok("GET", "/v1/antiphon/routes")["data"]
    assert (route["targets"][0]["state"], route["targets"][0]["reopens_in"]) == ("half_open", 0)


def test_a_failed_attempt_has_a_line_in_the_log(server: Serving, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "antiphon.requests"):
        server.client(X_Request_Id="req_7").create(model="head-continue", input="secret words")
    (record,) = caplog.records
    assert record.getMessage() == "attempt failed"
    fields = record.fields  # type: ignore[attr-defined]
    assert fields.pop("ms") >= 0
    assert fields == {
        "id": "req_7",
        "target": "head-continue/m",
        "kind": "overloaded",
        "code": "model_overloaded",
    }


def test_a_conversation_over_a_socket_stays_on_one_target(server: Serving) -> None:
    with dial(server) as connection:
        first = turn(connection, model="head-restart", input="hi")[-1]["response"]
        second = turn(connection, model="head-restart", input="more", previous_response_id=first["id"])
    assert [event["response"]["model"] for event in (second[0], second[-1])] == ["whole/m", "whole/m"]


def test_a_receipt_names_the_text_of_the_response_that_another_target_continues(
    serve: Serve, tmp_path: Path
) -> None:
    """In the second turn of the model that text is not the first item of the response."""
    first = {"steps": [{"text": "Let me see."}, {"call": "add", "arguments": {"a": 1, "b": 2}}]}
    scripts: dict[str, Any] = {
        "cut": {"turns": [{"when": {"turn": 1}} | first, {"when": {"turn": 2}, "steps": FAULTS["text"]}]},
        "rest": {"steps": REST},
    }
    tables = []
    for name, content in scripts.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        tables.append(f'[providers.{name}]\ntype = "script"\nfile = "{tmp_path}/{name}.json"\n')
    functions = '[tools.function]\nload = ["tests.tools.hosted_functions:add"]\n'
    route = '[models]\nr = ["cut/m", "rest/m"]\n[routes.r]\non_cut = "continue"\n'
    client = serve("".join([*tables, route, functions])).client(X_Antiphon_Receipts="1")
    tools = [{"type": "antiphon:function", "name": "add"}]
    with client.listen("/v1/responses", model="r", input="hi", tools=tools, stream=True) as stream:
        response = list(stream)[-1]["response"]
    said, call, answer = response["output"]
    assert said["content"][0]["text"] == "Let me see."
    assert call["output"] == "3"
    assert answer["content"][0]["text"] == TEXT
    (seam,) = [one for one in response["antiphon:receipts"] if one["action"] == "continued"]
    assert seam["param"] == "output[2].content[0]"
    assert seam["reason"] == "rest/m continues this text at character 22"


@pytest.fixture
def upstreams() -> Iterator[tuple[Upstream, Upstream]]:
    with Upstream() as one, Upstream() as other:
        yield one, other


def two(one: Upstream, other: Upstream) -> str:
    table = '[providers.{}]\ntype = "chat"\nbase_url = "{}"\n'
    return (
        table.format("one", one.url)
        + table.format("other", other.url)
        + '[models]\nfast = ["one/m", "other/m"]\n[routes.fast]\non_cut = "continue"\n'
    )


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_cancels_the_attempt_under_way(
    serve: Serve, upstreams: tuple[Upstream, Upstream], stream: bool
) -> None:
    server = serve(two(*upstreams))
    inside = Inside(server)
    client = Departing(server, model="fast", input="hi", stream=stream)
    first = upstreams[0].next()
    first.say("Half an answer")
    if stream:
        client.read_until(b"Half an answer")
    first.over.set()
    second = upstreams[1].next()
    client.vanish()
    assert second.was_closed(ONE_SECOND)
    inside.until_nothing_is_left()


def test_a_background_response_that_is_cancelled_cancels_its_attempt(
    serve: Serve, upstreams: tuple[Upstream, Upstream]
) -> None:
    server = serve(two(*upstreams))
    client: Client = server.client()
    id = client.create(model="fast", input="hi", background=True)["id"]
    upstreams[0].next().over.set()
    second = upstreams[1].next()
    assert client.ok("POST", f"/v1/responses/{id}/cancel")["status"] == "incomplete"
    assert second.was_closed(ONE_SECOND)
