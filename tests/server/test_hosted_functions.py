"""Hosted functions over real sockets: the loop, its limits, and what the client and the model are told."""

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ConfigErrors
from antiphon.server.gateway import Gateway
from tests.server.conftest import Serve, Spawn
from tests.server.servers import Serving, configure, until
from tests.server.upstream import END, Upstream, chunk
from tests.tools import hosted_functions

FUNCTIONS = """
[tools.function]
load = [
    "tests.tools.hosted_functions:add",
    "tests.tools.hosted_functions:wait",
    "tests.tools.hosted_functions:shout",
    "tests.tools.hosted_functions:fail",
    "tests.tools.hosted_functions:leave",
]
"""
SCRIPTED = 'default_model = "s/m"\n[providers.s]\ntype = "script"\nfrom_requests = true\n' + FUNCTIONS
MINE = {"type": "function", "name": "mine", "parameters": {"type": "object", "properties": {}}}


def hosted(*names: str) -> list[dict[str, Any]]:
    return [{"type": "antiphon:function", "name": name} for name in names]


def script(*turns: list[dict[str, Any]]) -> str:
    """A request that says itself what the model answers, turn by turn."""
    scenes = [{"when": {"turn": n}, "steps": steps} for n, steps in enumerate(turns, 1)]
    return f"```script\n{json.dumps({'turns': scenes})}\n```"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": name, "arguments": arguments}


@pytest.fixture
def server(serve: Serve) -> Serving:
    hosted_functions.ran.clear()
    hosted_functions.waiting.clear()
    hosted_functions.stopped.clear()
    return serve(SCRIPTED)


def test_results_go_back_to_the_model_inside_one_response(server: Serving) -> None:
    said = script([{"text": "Let me see."}, call("add", a=1, b=2)], [{"echo": True}])
    response = server.client().create(input=said, tools=hosted("add"))
    assert response["status"] == "completed"
    first, second, third = response["output"]
    assert first["content"][0]["text"] == "Let me see."
    assert second["type"] == "antiphon:function_call"
    assert (second["name"], json.loads(second["arguments"])) == ("add", {"a": 1, "b": 2})
    assert (second["output"], second["error"], second["status"]) == ("3", None, "completed")
    assert third["content"][0]["text"] == "3"


def test_a_stream_has_the_item_in_its_place(server: Serving) -> None:
    said = script([{"text": "Hm."}, call("add", a=1, b=2)], [{"text": "It is 3."}])
    with server.client().listen("/v1/responses", input=said, tools=hosted("add"), stream=True) as stream:
        events = list(stream)
    places = [(e["type"], e["output_index"]) for e in events if "output_item" in e["type"]]
    added, done = "response.output_item.added", "response.output_item.done"
    assert places == [(added, 0), (done, 0), (added, 1), (done, 1), (added, 2), (done, 2)]
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert not [e for e in events if "function_call_arguments" in e["type"]]


def test_a_follow_up_gives_the_model_its_calls_and_results(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml + FUNCTIONS).client()
    responses: list[dict[str, Any]] = []

    def ask(**request: Any) -> None:
        with client.listen("/v1/responses", tools=hosted("add"), stream=True, **request) as stream:
            responses.append(list(stream)[-1]["response"])

    asking = threading.Thread(target=ask, kwargs={"input": "1 + 2?"})
    asking.start()
    first = upstream.next()
    assert first.body["tools"][0]["function"]["name"] == "add"
    first.begin_call("add", '{"a": 1, "b": 2}')
    first.finish(reason="tool_calls")
    second = upstream.next()
    second.finish("It is 3.")
    asking.join()
    history = second.body["messages"]
    assert history[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    assert history[2] == {"role": "tool", "tool_call_id": "call_1", "content": "3"}

    replayed = [{"role": "user", "content": "1 + 2?"}, *responses[0]["output"]]
    more = {"role": "user", "content": "Sure?"}
    for request in (
        {"input": "Sure?", "previous_response_id": responses[0]["id"]},
        {"input": [*replayed, more]},
    ):
        asking = threading.Thread(target=ask, kwargs=request)
        asking.start()
        again = upstream.next()
        again.finish("Yes.")
        asking.join()
        assert again.body["messages"][:-2] == history
        assert again.body["messages"][-2]["content"] == "It is 3."


def test_the_calls_of_a_turn_run_at_the_same_time_and_their_results_keep_their_order(server: Serving) -> None:
    turn = {"calls": [call("wait", seconds=0.4), call("add", a=1, b=1), call("wait", seconds=0.2)]}
    response = server.client().create(input=script([turn], [{"text": "Done."}]), tools=hosted("add", "wait"))
    outputs = [item["output"] for item in response["output"][:3]]
    assert outputs == ["waited 0.4", "2", "waited 0.2"]
    assert hosted_functions.ran == ["add 1 1", "wait 0.2", "wait 0.4"]


def test_calls_of_the_client_end_the_response_with_the_hosted_results_in_it(server: Serving) -> None:
    client, tools = server.client(), [*hosted("add"), MINE]
    turn = {"calls": [call("mine"), call("add", a=2, b=2)]}
    said = script([turn], [{"text": "Both are there."}])
    first = client.create(input=said, tools=tools)
    assert [item["type"] for item in first["output"]] == ["function_call", "antiphon:function_call"]
    assert (first["status"], first["output"][1]["output"]) == ("completed", "4")
    output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "ok"}
    second = client.create(previous_response_id=first["id"], input=[output], tools=tools)
    assert second["output"][0]["content"][0]["text"] == "Both are there."


def test_a_name_of_the_clients_is_never_taken(server: Serving) -> None:
    mine = {**MINE, "name": "add"}
    said = script([call("add")])
    response = server.client().create(input=said, tools=[mine, *hosted("add")])
    assert [item["type"] for item in response["output"]] == ["function_call"]
    assert hosted_functions.ran == []


def test_a_forced_choice_binds_the_first_turn_alone(server: Serving) -> None:
    said = script([call("add", a=1, b=2)], [{"text": "Three."}])
    for choice in (
        {"type": "antiphon:function", "name": "add"},
        {"type": "function", "name": "add"},
        "required",
    ):
        response = server.client().create(input=said, tools=hosted("add", "wait"), tool_choice=choice)
        assert (response["status"], len(response["output"])) == ("completed", 2), choice
    without = script([{"text": "No."}])
    request = {"input": without, "tools": hosted("add"), "tool_choice": "required"}
    error = server.client().post("/v1/responses", json=request).json()["error"]
    assert error["code"] == "tool_call_required"


def test_allowed_tools_bind_every_turn(server: Serving) -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": hosted("add")}
    said = script([call("add", a=1, b=2)], [call("fail", how="politely"), {"text": "No more."}])
    response = server.client().create(input=said, tools=hosted("add", "fail"), tool_choice=allowed)
    assert [item["type"] for item in response["output"]] == ["antiphon:function_call", "message"]


def test_one_call_a_turn_without_parallel_calls(server: Serving) -> None:
    both = {"calls": [call("add", a=1, b=1), call("add", a=2, b=2)]}
    said = script([both], [both], [{"text": "Done."}])
    response = server.client().create(input=said, tools=hosted("add"), parallel_tool_calls=False)
    assert [item.get("output") for item in response["output"]] == ["2", "2", None]


@pytest.mark.parametrize(("most", "ran"), [(1, 1), (2, 2), (3, 3)])
def test_calls_are_counted_over_all_turns(server: Serving, most: int, ran: int) -> None:
    both = {"calls": [call("add", a=1, b=1), call("add", a=2, b=2)]}
    said = script([both], [both], [{"text": "Never."}])
    response = server.client().create(input=said, tools=hosted("add"), max_tool_calls=most)
    assert (response["status"], response["incomplete_details"]["reason"]) == ("incomplete", "max_tool_calls")
    assert len(hosted_functions.ran) == len(response["output"]) == ran


def test_a_model_may_answer_after_its_last_allowed_call(server: Serving) -> None:
    said = script([call("add", a=1, b=1)], [{"text": "Two."}])
    response = server.client().create(input=said, tools=hosted("add"), max_tool_calls=1)
    assert response["status"] == "completed"


def test_tokens_are_counted_over_all_turns(server: Serving) -> None:
    usage = {"usage": {"input_tokens": 10, "output_tokens": 30}}
    said = script([usage, call("add", a=1, b=1)], [usage, {"text": "Two."}])
    whole = server.client().create(input=said, tools=hosted("add"), max_output_tokens=100)
    assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (20, 60)
    cut = server.client().create(input=said, tools=hosted("add"), max_output_tokens=30)
    assert cut["incomplete_details"]["reason"] == "max_output_tokens"
    assert [item["type"] for item in cut["output"]] == ["antiphon:function_call"]


def test_tokens_are_estimated_where_the_upstream_does_not_count_them(
    serve: Serve, upstream: Upstream
) -> None:
    server = serve(upstream.toml + FUNCTIONS)
    request = {"input": "hi", "tools": hosted("add"), "max_output_tokens": 100, "stream": True}
    with server.client().listen("/v1/responses", **request) as stream:
        first = upstream.next()
        first.say("x" * 200)
        first.begin_call("add", '{"a": 1, "b": 2}')
        first.write(chunk({}, "tool_calls") + END)
        first.over.set()
        second = upstream.next()
        second.finish("3")
        *_, last = stream
    assert (first.body["max_tokens"], second.body["max_tokens"]) == (100, 100 - 216 // 4)
    assert last["response"]["usage"]["output_tokens"] == 2


@pytest.mark.parametrize(
    "end", [{"finish": "length"}, {"finish": "content_filter"}, {"error": {}}, {"cut": True}]
)
def test_a_turn_that_was_cut_or_failed_runs_nothing(server: Serving, end: dict[str, Any]) -> None:
    request = {"input": script([call("add", a=1, b=1), end]), "tools": hosted("add"), "stream": True}
    with server.client().listen("/v1/responses", **request) as stream:
        response = list(stream)[-1]["response"]
    assert response["status"] in ("incomplete", "failed")
    assert response["output"][0]["status"] == "incomplete"
    assert hosted_functions.ran == []


def test_there_are_not_more_turns_than_configured(serve: Serve) -> None:
    hosted_functions.ran.clear()
    said = script(*[[call("add", a=n, b=n)] for n in range(5)])
    response = serve(SCRIPTED + "[tools]\nturns = 3\n").client().create(input=said, tools=hosted("add"))
    assert response["incomplete_details"]["reason"] == "max_tool_calls"
    assert len(hosted_functions.ran) == 3


def test_a_tool_that_fails_tells_the_model(server: Serving, caplog: pytest.LogCaptureFixture) -> None:
    turn = {"calls": [call("fail", how="politely"), call("fail", how="loudly"), call("add", a="x")]}
    said = script([turn], [{"text": "Sorry."}])
    response = server.client().create(input=said, tools=hosted("fail", "add"))
    first, second, third, last = response["output"]
    assert (first["status"], first["error"]) == ("failed", "this cannot be done; try tomorrow")
    assert (second["status"], second["error"]) == ("failed", "the tool failed: RuntimeError")
    assert third["status"] == "failed"
    assert last["content"][0]["text"] == "Sorry."
    assert "loudly" not in caplog.text
    assert "the hosted tool function failed: RuntimeError" in caplog.text


def test_a_function_that_ends_the_process_ends_its_own_call_alone(spawn: Spawn) -> None:
    server = spawn(SCRIPTED)
    said = script([{"calls": [call("leave", how="exit"), call("leave", how="interrupt")]}], [{"text": "Hm."}])
    response = server.client().create(input=said, tools=hosted("leave"))
    first, second, last = response["output"]
    assert (first["status"], first["error"]) == ("failed", "the tool failed: SystemExit")
    assert (second["status"], second["error"]) == ("failed", "the tool failed: KeyboardInterrupt")
    assert last["content"][0]["text"] == "Hm."
    assert server.process.poll() is None


def test_a_tool_that_ends_the_process_before_its_call_ends_its_own_request_alone(spawn: Spawn) -> None:
    server = spawn(SCRIPTED.replace("hosted_functions:leave", "hosted_functions:unlisted"))
    response = server.client().post("/v1/responses", json={"input": "hi", "tools": hosted("unlisted")})
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert server.client().get("/healthz").status_code == 200


def test_a_tool_that_is_too_slow_or_says_too_much(serve: Serve) -> None:
    toml = SCRIPTED + 'timeout = "0.2 s"\nlimit = 100\n'
    turn = {"calls": [call("wait", seconds=30), call("shout", text="ä", times=100)]}
    response = (
        serve(toml).client().create(input=script([turn], [{"echo": True}]), tools=hosted("wait", "shout"))
    )
    slow, long, last = response["output"]
    assert (slow["status"], slow["error"]) == ("failed", "the tool did not answer within 0.2 seconds")
    assert len(long["output"]) == 100
    cut = "ä" * 50 + "\n[cut off here: the result is longer than 100 bytes]"
    assert last["content"][0]["text"] == cut


def test_all_calls_together_have_a_limit(serve: Serve) -> None:
    toml = SCRIPTED + "[tools]\nlimit = 150\n"
    turn = [call("shout", text="x", times=100)]
    said = script(turn, turn, turn, [{"echo": True}])
    response = serve(toml).client().create(input=said, tools=hosted("shout"))
    assert response["output"][3]["content"][0]["text"].endswith("longer than 0 bytes]")


def test_whoever_goes_away_ends_the_tool(server: Serving) -> None:
    said = script([call("wait", seconds=60)])
    with server.client().listen("/v1/responses", input=said, tools=hosted("wait"), stream=True) as stream:
        stream.until("response.output_item.added")
        assert hosted_functions.waiting.wait(60)
    assert hosted_functions.stopped.wait(60)


def test_a_background_response_that_is_cancelled_ends_the_tool(server: Serving) -> None:
    client = server.client()
    made = client.create(input=script([call("wait", seconds=60)]), tools=hosted("wait"), background=True)
    assert hosted_functions.waiting.wait(60)
    ended = client.ok("POST", f"/v1/responses/{made['id']}/cancel")
    assert ended["status"] in ("cancelled", "incomplete")
    assert ended["output"][0]["status"] in ("incomplete", "failed")
    assert hosted_functions.stopped.wait(60)


def test_a_background_response_runs_its_tools(server: Serving) -> None:
    client = server.client()
    said = script([call("add", a=1, b=2)], [{"echo": True}])
    made = client.create(input=said, tools=hosted("add"), background=True)
    with client.listen(f"/v1/responses/{made['id']}?stream=true") as stream:
        events = list(stream)
    assert events[-1]["response"]["output"][1]["content"][0]["text"] == "3"


def test_a_key_needs_the_permission(serve: Serve) -> None:
    keys = "".join(
        f'[keys.{name}]\nkey_sha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\n{tools}\n'
        for name, tools in (("alice", 'tools = ["antiphon:function:add"]'), ("bob", ""))
    )
    server = serve(SCRIPTED + keys)
    said = script([call("add", a=1, b=2)], [{"echo": True}])
    request = {"input": said, "tools": hosted("add")}
    assert server.client("alice").create(**request)["status"] == "completed"
    error = server.client("bob").refused(403, "POST", "/v1/responses", json=request)
    assert (error["code"], error["param"]) == ("tool_not_allowed", "tools[0]")
    unknown = server.client("alice").refused(
        400, "POST", "/v1/responses", json={**request, "tools": hosted("no")}
    )
    assert unknown["param"] == "tools[0].name"


def test_reasoning_and_its_proof_go_back_with_the_call(server: Serving) -> None:
    thought = [{"reasoning": "Hm."}, {"signature": "proof"}, call("add", a=1, b=2)]
    said = script(thought, [{"echo": True}])
    response = server.client().create(input=said, tools=hosted("add"))
    assert [item["type"] for item in response["output"]] == ["reasoning", "antiphon:function_call", "message"]


def test_a_model_that_is_refused_is_a_plain_error(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml + FUNCTIONS).client()
    answers: list[int] = []

    def ask() -> None:
        answers.append(client.post("/v1/responses", json={"input": "Hi", "tools": hosted("add")}).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    upstream.next().refuse(429)
    asking.join()
    assert answers == [429]


def routed(folder: Path, *scripts: object) -> str:
    """A route of several targets, each of which plays its own script."""
    lines = ['default_model = "both"', "[models]"]
    names = [f"t{n}" for n in range(len(scripts))]
    lines.append(f"both = {json.dumps([f'{name}/m' for name in names])}")
    for name, played in zip(names, scripts, strict=True):
        file = folder / f"{name}.json"
        file.write_text(json.dumps(played), encoding="utf-8")
        lines += [f"[providers.{name}]", 'type = "script"', f'file = "{file}"']
    return "\n".join(lines) + FUNCTIONS


def turns(*steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"turns": [{"when": {"turn": n}, "steps": one} for n, one in enumerate(steps, 1)]}


def test_a_route_goes_on_with_another_target_in_the_middle_of_the_loop(serve: Serve, tmp_path: Path) -> None:
    hosted_functions.ran.clear()
    thought = [{"reasoning": "Hm."}, {"signature": "proof"}, call("add", a=1, b=2)]
    fault = {"error": {"type": "server_error", "message": "down", "status": 503}}
    first, second = turns(thought, [fault]), turns([{"text": "Never."}], [{"text": "It is three."}])
    client = serve(routed(tmp_path, first, second)).client(X_Antiphon_Receipts="1")
    for stream in (False, True):
        request = {"input": "1 + 2?", "tools": hosted("add"), "store": False}
        if stream:
            with client.listen("/v1/responses", **request, stream=True) as listening:
                response = list(listening)[-1]["response"]
        else:
            response = client.create(**request)
        assert response["status"] == "completed"
        kinds = [item["type"] for item in response["output"]]
        assert kinds == ["reasoning", "antiphon:function_call", "message"]
        assert response["output"][-1]["content"][0]["text"] == "It is three."
        assert response["model"] == "t1/m"
    assert hosted_functions.ran == ["add 1 2", "add 1 2"]


def test_a_process_that_is_killed_runs_nothing_twice(spawn: Spawn, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    said = script([call("note", path=str(begun), seconds=60)], [{"text": "I see."}])
    load = '[tools.function]\nload = ["tests.tools.hosted_functions:note"]\n'
    toml = 'default_model = "s/m"\n[providers.s]\ntype = "script"\nfrom_requests = true\n' + load
    first = spawn(toml, stale=1.0)
    made = first.client().create(input=said, tools=hosted("note"), background=True)
    with first.client().listen(f"/v1/responses/{made['id']}?stream=true") as stream:
        stream.until("response.output_item.added")
    until(lambda: begun.exists() and begun.read_text())
    first.kill()
    second = spawn(toml, stale=1.0).client()
    ended = until(
        lambda: (one := second.ok("GET", f"/v1/responses/{made['id']}"))["status"] == "completed" and one
    )
    assert [item["status"] for item in ended["output"]] == ["failed", "completed"]
    assert begun.read_text() == "begun\n"


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('[tools.function]\nload = ["no.such.module:f"]\n', "tools.function.load"),
        ('[tools.function]\nload = ["json:dumps"]\n', "tools.function.load"),
        ('[tools.function]\nload = ["json"]\n', "tools.function.load"),
        ("[tools.function]\nlaod = []\n", "tools.function.laod"),
        ('[tools.fnction]\ntimeout = "1 s"\n', "tools.fnction"),
        ("[tools]\nturns = 0\n", "tools.turns"),
        ("[tools.mcp.servers.x]\n", "tools.mcp.servers.x"),
    ],
)
async def test_a_mistake_in_a_table_is_told_with_its_place(tmp_path: Path, table: str, key: str) -> None:
    with pytest.raises(ConfigErrors) as wrong:
        await Gateway.open(configure(tmp_path, table))
    assert key in str(wrong.value)


def test_a_tool_that_stands_in_a_request_twice_is_refused(server: Serving) -> None:
    request = {"input": "Hi", "tools": hosted("add", "wait", "add")}
    error = server.client().refused(400, "POST", "/v1/responses", json=request)
    assert error["param"] == "tools[2]"
    assert "tools[0]" in error["message"]


def test_half_a_character_in_a_result_does_not_break_the_response(serve: Serve) -> None:
    """Python's text may have it; what is sent may not."""
    config = SCRIPTED.replace("functions:add", "functions:half")
    response = (
        serve(config).client().create(input=script([call("half")], [{"echo": True}]), tools=hosted("half"))
    )
    assert response["status"] == "completed"
    assert response["output"][0]["output"] == "? é"
    assert response["output"][1]["content"][0]["text"] == "? é"
