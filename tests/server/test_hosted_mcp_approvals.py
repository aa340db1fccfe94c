"""Approvals of calls of MCP servers: each is used up by the one call that it allows, and by nothing else."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import needs_postgres
from tests.server.conftest import Serve
from tests.server.servers import Client, Serving
from tests.server.test_hosted_functions import call, script
from tests.server.test_hosted_mcp import SCRIPTED, kinds, remote
from tests.tools.mcp_servers import mcp_server

KEYS = '["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="]'


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server() as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def server(request: pytest.FixtureRequest, serve: Serve, address: str) -> Serving:
    settings: dict[str, str] = {}
    if request.param == "postgres":
        settings = {"STORE__URL": request.getfixturevalue("postgres_url"), "SEALING__KEYS": KEYS}
    return serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{address}"]\n', **settings)


class Asked:
    """A response that waits for approvals, and the follow-up that gives them."""

    def __init__(self, client: Client, address: str, file: Path, lines: list[str]) -> None:
        self.client, self.file = client, file
        calls = [call("w__append", path=str(file), line=line) for line in lines]
        said = script([{"calls": calls}], [{"text": "Done."}], [{"text": "Fine."}])
        tools = [remote(address, require_approval="always")]
        first = client.create(input=said, tools=tools)
        requests = [item for item in first["output"] if item["type"] == "mcp_approval_request"]
        requests.sort(key=lambda one: lines.index(json.loads(one["arguments"])["line"]))
        self.answers = [
            {"type": "mcp_approval_response", "approval_request_id": one["id"], "approve": True}
            for one in requests
        ]
        self._rest = {"previous_response_id": first["id"], "tools": tools}

    def request(self, *given: dict[str, Any]) -> dict[str, Any]:
        return {**self._rest, "input": [*given]}

    def written(self) -> list[str]:
        return sorted(self.file.read_text().split()) if self.file.exists() else []


MISSING = {"role": "user", "content": [{"type": "input_file", "file_id": "file-none"}]}


def test_a_request_that_is_refused_runs_nothing_and_uses_up_no_approval(
    server: Serving, address: str, tmp_path: Path
) -> None:
    asked = Asked(server.client(), address, tmp_path / "lines", ["one"])
    (answer,) = asked.answers
    error = asked.client.refused(404, "POST", "/v1/responses", json=asked.request(answer, MISSING))
    assert error["param"] == "input[1].content[0].file_id"
    error = asked.client.refused(400, "POST", "/v1/responses", json=asked.request(answer, answer))
    assert (error["code"], error["param"]) == ("approval_not_valid", "input[1]")
    assert asked.written() == []
    assert kinds(asked.client.create(**asked.request(answer))) == ["mcp_call", "message"]
    assert asked.written() == ["one"]
    error = asked.client.refused(400, "POST", "/v1/responses", json=asked.request(answer))
    assert error["code"] == "approval_not_valid"


def test_an_approval_beside_one_that_cannot_be_used_is_kept(
    server: Serving, address: str, tmp_path: Path
) -> None:
    asked = Asked(server.client(), address, tmp_path / "lines", ["one", "two"])
    first, second = asked.answers
    asked.client.create(**asked.request(second))
    assert asked.written() == ["two"]
    error = asked.client.refused(400, "POST", "/v1/responses", json=asked.request(first, second))
    assert (error["code"], error["param"]) == ("approval_not_valid", "input[1]")
    assert asked.written() == ["two"]
    asked.client.create(**asked.request(first))
    assert asked.written() == ["one", "two"]


def test_of_ten_who_use_an_approval_at_once_one_does(server: Serving, address: str, tmp_path: Path) -> None:
    asked = Asked(server.client(), address, tmp_path / "lines", ["one"])
    request = asked.request(*asked.answers)

    def ask(_: int) -> int:
        return server.client().post("/v1/responses", json=request).status_code

    with ThreadPoolExecutor(10) as pool:
        statuses = sorted(pool.map(ask, range(10)))
    assert statuses == [200] + [400] * 9
    assert asked.written() == ["one"]
