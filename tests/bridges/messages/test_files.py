"""Files that a Messages body names by the id under which they were uploaded."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.providers.anthropic import wire
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.conformance.gateway import gateway
from tests.server.conftest import Serve
from tests.server.servers import Client
from tests.server.upstream import Upstream

PATH = "/v1/messages"
PNG = b"\x89PNG\r\n\x1a\n picture"
Json = dict[str, Any]


def upload(client: Any, name: str, content: bytes) -> str:
    made = client.ok("POST", "/v1/files", files={"file": (name, content)}, data={"purpose": "user_data"})
    return str(made["id"])


def body(kind: str, id: Any, **more: Any) -> Json:
    named = {"type": kind, "source": {"type": "file", "file_id": id}, **more}
    content = [{"type": "text", "text": "What is this?"}, named]
    return {"model": "model", "max_tokens": 99, "messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("image", "a.png", ("image_url", "data:image/png;base64,iVBORw0KGgog")),
        ("document", "a.pdf", ("file", "data:application/pdf;base64,iVBORw0KGgog")),
    ],
)
def test_an_uploaded_file_is_looked_up(
    serve: Serve, upstream: Upstream, kind: str, name: str, found: tuple[str, str]
) -> None:
    """It was dropped with a receipt, while the other doors found it."""
    client = serve(upstream.toml).client(X_Antiphon_Receipts="1")
    asked = body(kind, upload(client, name, PNG), cache_control={"type": "ephemeral"})
    with ThreadPoolExecutor(1) as apart:
        answer = apart.submit(client.ok, "POST", PATH, json=asked)
        call = upstream.next()
        call.finish("Hello.")
        assert answer.result()["antiphon:receipts"] == []
    part = call.body["messages"][-1]["content"][1]
    assert part["type"] == found[0]
    assert found[1] in json.dumps(part)
    assert "anthropic:" not in json.dumps(part)


@pytest.mark.parametrize("kind", ["image", "document"])
def test_a_file_that_nobody_has_uploaded_is_not_found(serve: Serve, upstream: Upstream, kind: str) -> None:
    client = serve(upstream.toml).client()
    error = client.refused(404, "POST", PATH, json=body(kind, "file-0"))
    assert (error["code"], error["param"]) == ("file_not_found", "messages[0].content[1].source.file_id")
    error = client.refused(400, "POST", PATH, json=body(kind, 5))
    assert error["param"] == "messages[0].content[1].source.file_id"


async def test_a_provider_of_this_api_may_know_a_file_that_the_gateway_does_not(tmp_path: Path) -> None:
    async with gateway(tmp_path, "anthropic") as made:
        fake = made.fakes["anthropic"]
        assert isinstance(fake, FakeAnthropic)
        done = json.dumps(wire.message([{"type": "text", "text": "Hello."}], "end_turn")).encode()
        fake.answers(done)
        with Client(made.url) as client:
            mark = {"type": "ephemeral"}
            theirs = body("image", "file_theirs", cache_control=mark) | {"model": "anthropic"}
            await asyncio.to_thread(client.ok, "POST", PATH, json=theirs)
            block = _said(fake)[1]
            assert block == theirs["messages"][0]["content"][1]
            id = await asyncio.to_thread(upload, client, "a.png", PNG)
            fake.answers(done)
            ours = body("image", id, cache_control=mark) | {"model": "anthropic"}
            await asyncio.to_thread(client.ok, "POST", PATH, json=ours)
            block = _said(fake)[1]
            assert (block["source"]["type"], block["cache_control"]) == ("base64", mark)


def _said(fake: FakeAnthropic) -> Any:
    return fake.requests[-1].body["messages"][-1]["content"]
