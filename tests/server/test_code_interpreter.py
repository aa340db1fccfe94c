"""`code_interpreter` over real sockets: its items and events, its files, and who may have them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from openai.types.responses import ResponseCodeInterpreterToolCall

from antiphon.tools.file_search import library
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import Serving
from tests.tools.code_interpreter.sandbox import needs_sandbox

SCRIPTED = 'default_model = "s/m"\n[providers.s]\ntype = "script"\nfrom_requests = true\n'
FULL = SCRIPTED + '[tools.code_interpreter]\nengine = "bubblewrap"\n'
TOOL = {"type": "code_interpreter", "container": {"type": "auto"}}


def script(*turns: list[dict[str, Any]], first: int = 1) -> str:
    """A request that says itself what the model answers, from its turn of this number on."""
    scenes = [{"when": {"turn": n}, "steps": steps} for n, steps in enumerate(turns, first)]
    return f"```script\n{json.dumps({'turns': scenes})}\n```"


def code(text: str) -> dict[str, Any]:
    return {"call": "python", "arguments": {"code": text}}


def openai(server: Serving) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_openais_client_streams_a_run_of_code(serve: Serve) -> None:
    client = openai(serve(SCRIPTED))
    with client.responses.stream(
        model="s/m",
        input=script([code("6 * 7")], [{"echo": True}]),
        tools=[{"type": "code_interpreter", "container": {"type": "auto"}}],
        include=["code_interpreter_call.outputs"],
    ) as stream:
        types = [event.type for event in stream if "code_interpreter" in event.type]
        response = stream.get_final_response()
    assert types == [
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
    ]
    call = response.output[0]
    assert isinstance(call, ResponseCodeInterpreterToolCall)
    assert call.container_id.startswith("cntr_")
    assert (call.code, call.status) == ("6 * 7", "completed")
    assert call.outputs is not None
    assert [output.to_dict() for output in call.outputs] == [{"type": "logs", "logs": "42"}]
    assert response.output_text == "42"


def test_outputs_are_left_out_unless_they_are_asked_for(serve: Serve) -> None:
    response = serve(SCRIPTED).client().create(input=script([code("1")], [{"text": "One."}]), tools=[TOOL])
    assert response["output"][0]["outputs"] is None


def test_the_model_is_told_of_bad_code_and_goes_on(serve: Serve) -> None:
    said = script([code("1 / 0")], [{"echo": True}])
    response = serve(SCRIPTED).client().create(input=said, tools=[TOOL])
    assert response["status"] == "completed"
    assert "ZeroDivisionError" in response["output"][1]["content"][0]["text"]


def test_arguments_that_are_none_fail_the_call_and_not_the_response(serve: Serve) -> None:
    said = script([{"call": "python", "arguments": {"program": "1"}}], [{"echo": True}])
    response = serve(SCRIPTED).client().create(input=said, tools=[TOOL])
    assert response["status"] == "completed"
    assert response["output"][0]["status"] == "failed"
    assert '{"code": "print(1)"}' in response["output"][1]["content"][0]["text"]


def test_half_a_character_in_code_fails_the_call_and_not_the_response(serve: Serve) -> None:
    said = script([{"call": "python", "arguments": '{"code": "print(1) # \\ud800"}'}], [{"text": "Oh."}])
    response = serve(SCRIPTED).client().create(input=said, tools=[TOOL])
    assert [item.get("status") for item in response["output"]] == ["failed", "completed"]


def test_the_tool_is_taken_once_however_often_it_is_named(serve: Serve) -> None:
    response = serve(SCRIPTED).client().create(input=script([{"text": "Hi."}]), tools=[TOOL] * 3000)
    assert response["status"] == "completed"


def test_a_container_with_an_endless_name_is_not_found(serve: Serve) -> None:
    place = f"/v1/containers/cntr_{'a' * 300}/files"
    assert serve(SCRIPTED).client().get(place).status_code == 404


@pytest.mark.parametrize(
    ("container", "param"),
    [
        (f"cntr_{'a' * 300}", "tools[0].container"),
        ("cntr_000000000000000000000000", "tools[0].container"),
        ({"type": "mine"}, "tools[0].container"),
        ({"type": "auto", "file_ids": "file-1"}, "tools[0].container.file_ids"),
    ],
)
def test_a_container_that_is_none_is_refused(serve: Serve, container: Any, param: str) -> None:
    client = serve(SCRIPTED).client()
    tool = {"type": "code_interpreter", "container": container}
    error = client.refused(400, "POST", "/v1/responses", json={"input": "Hi", "tools": [tool]})
    assert error["param"] == param


@needs_sandbox
def test_files_stay_with_the_conversation_and_can_be_fetched(serve: Serve) -> None:
    client = serve(FULL).client()
    said = script([code("open('a.txt', 'w').write('seven')")], [{"text": "See 【1】."}])
    first = client.create(input=said, tools=[TOOL])
    call, message = first["output"]
    part = message["content"][0]
    assert part["text"] == "See a.txt."
    (annotation,) = part["annotations"]
    assert annotation["type"] == "container_file_citation"
    assert part["text"][annotation["start_index"] : annotation["end_index"]] == annotation["filename"]
    place = f"/v1/containers/{annotation['container_id']}/files"
    assert [file["path"] for file in client.ok("GET", place)["data"]] == ["/mnt/data/a.txt"]
    fetched = client.get(f"{place}/{annotation['file_id']}/content")
    assert fetched.content == b"seven"
    assert fetched.headers["content-disposition"] == "attachment"

    more = script([code("print(open('a.txt').read())")], [{"echo": True}], first=3)
    second = client.create(input=more, tools=[TOOL], previous_response_id=first["id"])
    assert second["output"][0]["container_id"] == call["container_id"]
    assert "seven" in second["output"][-1]["content"][0]["text"]


@needs_sandbox
def test_a_container_that_is_gone_is_told_to_the_model(serve: Serve, tmp_path: Path) -> None:
    client = serve(FULL).client()
    first = client.create(input=script([code("1")], [{"text": "One."}]), tools=[TOOL])
    gone = first["output"][0]["container_id"]
    (path,) = (tmp_path / "server" / "data").glob(f"containers/*/{gone}")
    shutil.rmtree(path)
    said = script([code("2")], [{"echo": True}], first=3)
    second = client.create(input=said, tools=[TOOL], previous_response_id=first["id"])
    assert second["output"][0]["container_id"] != gone
    assert f"the container {gone} is gone" in second["output"][-1]["content"][0]["text"]


def test_a_container_is_not_found_for_another_tenant(serve: Serve) -> None:
    server = serve(SCRIPTED + key_table("alice") + key_table("bob"))
    alice, bob = server.client("sk-alice"), server.client("sk-bob")
    response = alice.create(input=script([code("1")], [{"text": "One."}]), tools=[TOOL])
    made = response["output"][0]["container_id"]
    alice.ok("GET", f"/v1/containers/{made}/files")
    bob.refused(404, "GET", f"/v1/containers/{made}/files")
    tool = {"type": "code_interpreter", "container": made}
    error = bob.refused(400, "POST", "/v1/responses", json={"input": "Hi", "tools": [tool]})
    assert error["param"] == "tools[0].container"


def test_a_model_announces_it_to_keys_that_may_use_it(serve: Serve) -> None:
    keys = key_table("alice") + key_table("bob") + 'tools = ["web_search"]\n'
    server = serve(SCRIPTED + keys)

    def announced(key: str) -> list[list[str]]:
        return [model["antiphon:tools"] for model in server.client(key).ok("GET", "/v1/models")["data"]]

    assert announced("sk-alice")
    assert all("code_interpreter" in tools for tools in announced("sk-alice"))
    assert not any("code_interpreter" in tools for tools in announced("sk-bob"))


def upload(server: Serving) -> str:
    form = {"file": ("harbour.txt", b"opens at six"), "purpose": (None, "user_data")}
    return str(server.client().ok("POST", "/v1/files", files=form)["id"])


def test_a_file_that_is_not_there_is_not_found(serve: Serve) -> None:
    tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-0"]}}
    error = (
        serve(SCRIPTED).client().refused(404, "POST", "/v1/responses", json={"input": "Hi", "tools": [tool]})
    )
    assert error["param"] == "tools[0].container.file_ids[0]"


def test_the_small_python_refuses_files(serve: Serve) -> None:
    server = serve(SCRIPTED)
    error = server.client().refused(400, "POST", "/v1/containers", json={"file_ids": [upload(server)]})
    assert error["param"] == "file_ids"
    assert "bubblewrap" in error["message"]


@needs_sandbox
def test_uploaded_files_are_there_for_the_code(serve: Serve) -> None:
    server = serve(FULL)
    client, file = server.client(), upload(server)
    read = script([code("print(open('harbour.txt').read())")], [{"echo": True}])
    made = client.ok("POST", "/v1/containers", json={"file_ids": [file]})["id"]
    assert [one["path"] for one in client.ok("GET", f"/v1/containers/{made}/files")["data"]] == [
        "/mnt/data/harbour.txt"
    ]
    for container in ({"type": "auto", "file_ids": [file]}, made):
        tool = {"type": "code_interpreter", "container": container}
        response = client.create(input=read, tools=[tool])
        assert response["output"][-1]["content"][0]["text"].startswith("opens at six")


@needs_sandbox
def test_files_of_every_turn_fill_a_container_to_its_bound_and_no_further(serve: Serve) -> None:
    """With new `file_ids` in each turn a container of 64 MiB held 361 MB, and no code ran in it any more."""
    client = serve(FULL + 'disk = "1 MiB"\n').client()

    def upload(name: str) -> str:
        form = {"file": (name, bytes(400_000)), "purpose": (None, "user_data")}
        return str(client.ok("POST", "/v1/files", files=form)["id"])

    count = "import os; print(sorted(os.listdir('.')))"
    before: dict[str, Any] = {}
    for turn, name in enumerate("ab"):
        tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [upload(name)]}}
        said = script([code(count)], [{"echo": True}], first=2 * turn + 1)
        before = client.create(input=said, tools=[tool], **before)
        before = {"previous_response_id": before["id"]}
    tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [upload("c")]}}
    asked = {"input": "More.", "tools": [tool], **before}
    error = client.refused(400, "POST", "/v1/responses", json=asked)
    assert error["param"] == "tools[0].container.file_ids"
    assert "may hold 1,048,576 bytes" in error["message"]
    said = script([code(count)], [{"echo": True}], first=5)
    after = client.create(input=said, tools=[TOOL], **before)
    assert after["output"][-1]["content"][0]["text"].startswith("['a', 'b']")


@needs_sandbox
def test_a_file_that_was_uploaded_as_a_folder_is_there_under_another_name(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(FULL)
    with monkeypatch.context() as before:
        before.setattr(library, "safe_name", lambda name: "..")  # as it was kept once
        file = upload(server)
    client = server.client()
    assert client.ok("GET", f"/v1/files/{file}")["filename"] == ".."
    made = client.ok("POST", "/v1/containers", json={"file_ids": [file]})["id"]
    listed = client.ok("GET", f"/v1/containers/{made}/files")["data"]
    assert [one["path"] for one in listed] == ["/mnt/data/file"]
    tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [file]}}
    response = client.create(
        input=script([code("print(open('file').read())")], [{"echo": True}]), tools=[tool]
    )
    assert response["output"][-1]["content"][0]["text"].startswith("opens at six")


@needs_sandbox
def test_two_calls_of_one_turn_keep_the_files_of_both(serve: Serve) -> None:
    client = serve(FULL).client()
    calls = [code(f"import time; time.sleep(0.3); open('{name}', 'w').write('x')") for name in "abc"]
    response = client.create(input=script(calls, [{"text": "Done."}]), tools=[TOOL])
    place = f"/v1/containers/{response['output'][0]['container_id']}/files"
    assert [file["path"][-1] for file in client.ok("GET", place)["data"]] == ["a", "b", "c"]
