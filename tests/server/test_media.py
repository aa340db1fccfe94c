"""Files named by address through the whole gateway, for a provider that takes only bytes."""

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.servers import Client
from tests.server.upstream import Call

PDF = b"%PDF-1.4 words"
SENT = f"data:application/pdf;base64,{base64.b64encode(PDF).decode()}"


class Web:
    """A web server with one document; `asked` has the paths."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                found = self.path.startswith("/report.pdf")
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/pdf")
                self.end_headers()
                self.wfile.write(PDF if found else b"no")

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    thread = threading.Thread(target=web.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield web
    web.server.shutdown()
    web.server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def client(serve_all: Serve, talking: Voice) -> Client:
    return serve_all(talking.toml + '[media]\nallow = ["127.0.0.1"]\n').client()


@pytest.fixture(scope="module")
def careful(serve_all: Serve, talking: Voice) -> Client:
    """A client of a gateway that fetches only from the public internet."""
    return serve_all(talking.toml).client()


def asking(url: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "input_text", "text": "?"}, {"type": "input_file", "file_url": url}]
    return {"input": [{"role": "user", "content": parts}], **more}


def file_of(voice: Voice) -> dict[str, Any]:
    part: dict[str, Any] = voice.last["messages"][0]["content"][1]
    return part


def test_the_provider_gets_the_bytes_and_the_store_keeps_the_address(
    client: Client, voice: Voice, web: Web
) -> None:
    url = f"{web.url}/report.pdf?sig=1"
    made = client.create(**asking(url))
    assert made["status"] == "completed"
    assert file_of(voice) == {"type": "file", "file": {"filename": "report.pdf", "file_data": SENT}}
    [item] = client.ok("GET", f"/v1/responses/{made['id']}/input_items")["data"]
    assert item["content"][1] == {"type": "input_file", "file_url": url}
    client.create(input="And now?", previous_response_id=made["id"])
    assert file_of(voice)["file"]["file_data"] == SENT
    assert web.asked == ["/report.pdf?sig=1"] * 2


def test_in_the_background(client: Client, voice: Voice, web: Web) -> None:
    for path, status in (("/report.pdf", "completed"), ("/none.pdf", "failed")):
        made = client.create(**asking(web.url + path, background=True))
        assert made["status"] == "queued"
        response = client.ended(made["id"])
        assert response["status"] == status
    assert response["error"]["code"] == "media_fetch_failed"
    assert len(voice.heard) == 1


def test_in_the_background_with_hosted_tools_it_is_fetched_once(
    serve: Serve, talking: Voice, voice: Voice, web: Web
) -> None:
    """It was fetched for the loop that runs the tools, thrown away, and fetched again for the model."""
    functions = '[tools.function]\nload = ["tests.tools.hosted_functions:add"]\n'
    client = serve(talking.toml + '[media]\nallow = ["127.0.0.1"]\n' + functions).client()
    tools = [{"type": "antiphon:function", "name": "add"}]
    made = client.create(**asking(f"{web.url}/report.pdf", background=True, tools=tools))
    assert client.ended(made["id"])["status"] == "completed"
    assert file_of(voice)["file"]["file_data"] == SENT
    assert web.asked == ["/report.pdf"]


def test_a_file_before_a_hosted_call_is_found_at_its_place(
    serve: Serve, talking: Voice, voice: Voice, web: Web
) -> None:
    """The item of the call becomes two for the model, and the place was counted from the end of the items."""
    functions = '[tools.function]\nload = ["tests.tools.hosted_functions:add"]\n'
    client = serve(talking.toml + '[media]\nallow = ["127.0.0.1"]\n' + functions).client()
    tools = [{"type": "antiphon:function", "name": "add"}]

    def calls_once(call: Call) -> None:
        if len(voice.heard) == 1:
            call.begin_call("add", '{"a": 1, "b": 2}', "call_1")
            call.finish(reason="tool_calls")
        else:
            call.finish("3")

    voice.says = calls_once
    made = client.create(input="1 + 2?", tools=tools)
    assert [item["type"] for item in made["output"]] == ["antiphon:function_call", "message"]
    asked = asking(f"{web.url}/none.pdf", tools=tools)
    last = {"role": "user", "content": "And this?"}
    asked["input"] = [*asked["input"], *made["output"], last]
    error = client.refused(400, "POST", "/v1/responses", json=asked)
    assert (error["code"], error["param"]) == ("media_fetch_failed", "input[0].content[1].file_url")


def test_compaction_reads_files_too(client: Client, voice: Voice, web: Web) -> None:
    asked = asking(f"{web.url}/report.pdf", model="model")
    assert client.ok("POST", "/v1/responses/compact", json=asked)["output"]
    assert file_of(voice)["file"]["file_data"] == SENT


@pytest.mark.parametrize("stream", [False, True])
def test_refusals_come_before_the_response(
    client: Client, careful: Client, voice: Voice, web: Web, stream: bool
) -> None:
    missing = asking(f"{web.url}/none.pdf?sig=secret", stream=stream)
    error = client.refused(400, "POST", "/v1/responses", json=missing)
    assert error["code"] == "media_fetch_failed"
    assert error["param"] == "input[0].content[1].file_url"
    assert "secret" not in error["message"]
    private = asking(f"{web.url}/report.pdf", stream=stream)
    error = careful.refused(400, "POST", "/v1/responses", json=private)
    assert error["code"] == "media_address_forbidden"
    assert web.asked == ["/none.pdf?sig=secret"]
    assert voice.heard == []


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/compact"])
def test_a_broken_picture_never_reaches_a_model(client: Client, voice: Voice, path: str) -> None:
    parts = [{"type": "input_image", "image_url": "data:image/png;base64,@@@@"}]
    asked = {"model": "model", "input": [{"role": "user", "content": parts}]}
    error = client.refused(400, "POST", path, json=asked)
    assert (error["code"], error["param"]) == ("invalid_image", "input[0].content[0].image_url")
    assert "base64" in error["message"]
    assert voice.heard == []
