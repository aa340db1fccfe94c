"""The examples of docs/api.md, run one after the other against a server."""

import json
import re
from pathlib import Path

import pytest
from websockets.sync.client import connect

from antiphon.server.endpoints import ENDPOINTS
from antiphon.stream.auditor import audit_sse
from tests.server.conftest import Serve
from tests.server.curl import ADDRESS, Shell
from tests.server.servers import Serving
from tests.server.upstream import Upstream

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
CODE = '[tools.code_interpreter]\nengine = "bubblewrap"\n'
EXAMPLES = [text for language, text in BLOCK.findall(PAGE) if language == "sh"]


@pytest.fixture
def server(serve: Serve, upstream: Upstream) -> Serving:
    upstream.answer = "Once upon a time"
    alias = upstream.toml.replace('model = "up', '"smollm2-135m-instruct" = "up')
    toml = alias.replace('default_model = "model"', 'default_model = "smollm2-135m-instruct"')
    ollama = f'[providers.ollama]\ntype = "chat"\nbase_url = "{upstream.url}"\n'
    return serve(toml.replace('type = "chat"', 'type = "chat"\nprofile = "llamacpp"') + ollama + CODE)


def test_every_example_works(server: Serving) -> None:
    shell = Shell(server.client())
    for example in EXAMPLES:
        answer = shell.run(example)
        assert answer.status_code == (204 if "/stream\n" in example else 200), (example, answer.text)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            assert answer.text.endswith("data: [DONE]\n\n")
            if "starting_after" not in example and "/v1/responses" in example:
                assert audit_sse(answer.content) == []


def test_every_operation_has_an_example() -> None:
    lines = [example.replace("\\\n", " ") for example in EXAMPLES]
    for each in ENDPOINTS:
        if not each.id:
            continue
        pattern = re.sub(r"\{[\w.]+\}", r"[^/ ?\"]+", each.path) + r"(?=[?\" \n])"
        flag = {
            "GET": r"curl (?!.*(-d|-X))",
            "POST": r"curl (?=.*(-d|-X POST))",
            "DELETE": "curl -X DELETE ",
        }[each.method]
        found = [line for line in lines if re.match(flag + rf".*{ADDRESS}{pattern}", line)]
        assert found, each.at


def test_every_link_leads_to_a_heading() -> None:
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\(#([\w-]+)\)", PAGE)) <= anchors
    for file in set(re.findall(r"\((\w+\.md)\)", PAGE)):
        assert (Path(__file__).parents[2] / "docs" / file).exists(), file


def test_the_websocket_example_works(server: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (text for language, text in BLOCK.findall(PAGE) if language == "python")
    exec(program.replace("ws://127.0.0.1:8080", server.url.replace("http", "ws")), {"connect": connect})
    assert capsys.readouterr().out.splitlines()[-1] == "response.completed"


def test_the_shapes_on_the_page_are_json() -> None:
    for language, text in BLOCK.findall(PAGE):
        if language == "json":
            json.loads(text)
