"""The endpoints of docs/producer.md, served; and its table of deltas, against the classes."""

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import antiphon
from antiphon.cli import main
from antiphon.stream import deltas
from antiphon.stream.auditor import audit_sse
from tests.producer.serving import serving
from tests.server.servers import Client

PAGE = (Path(__file__).parents[2] / "docs" / "producer.md").read_text(encoding="utf-8")
ENDPOINTS = [
    block
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if "app = ResponsesApp(answer" in block
]
KINDS = {
    "greeter": ["message"],
    "weatherman": ["reasoning", "function_call", "function_call_output", "acme:search", "message"],
    "harness": ["message"],
}


def app_of(block: str) -> Any:
    names: dict[str, Any] = {}
    exec(block, names)
    return names["app"]


@pytest.mark.parametrize("block", ENDPOINTS, ids=map(str, range(len(ENDPOINTS))))
def test_an_endpoint_of_the_page_answers(block: str) -> None:
    with serving(app_of(block)) as url, Client(url) as client:
        (model,) = client.ok("GET", "/v1/models")["data"]
        response = client.create(input="Hi")
        with client.listen("/v1/responses", input="Hi", stream=True) as stream:
            list(stream)
    assert response["status"] == "completed"
    assert [item["type"] for item in response["output"]] == KINDS[model["id"]]
    assert audit_sse(stream.body, extensions=True) == []


def test_the_greeter_of_the_page_passes_the_check_that_the_page_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With every level of rules, as a reader would run it."""
    with serving(app_of(ENDPOINTS[0])) as url:
        code = main(["comply", f"{url}/v1"])
    assert code == 0, re.findall(r"^✗ .*$", capsys.readouterr().out, re.MULTILINE)


def test_every_delta_is_listed_with_its_arguments() -> None:
    listed = dict(re.findall(r"`(\w+)\((.*?)\)`", "".join(re.findall(r"^\| `.*? \|", PAGE, re.MULTILINE))))
    expected = {}
    for cls in [cls for cls in get_args(deltas.AnyDelta) if hasattr(antiphon, cls.__name__)]:
        arguments = []
        for field in msgspec.structs.fields(cls):
            given = "" if field.required else "=" + repr(field.default).replace("'", '"')
            arguments.append(field.name + given)
        expected[cls.__name__] = ", ".join(arguments)
    assert {name: listed.get(name) for name in expected} == expected


def test_every_whole_item_and_every_reason_is_named() -> None:
    for cls in get_args(deltas.WholeItem):
        assert f"`{cls.__name__}`" in PAGE, cls
    for reason in get_args(deltas.FinishReason):
        assert f"`{reason}`" in PAGE, reason
