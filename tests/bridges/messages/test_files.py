"""Files that a Messages body names by the id under which they were uploaded."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.providers.anthropic import wire
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.conformance.gateway import gateway
from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Client
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


# --- the file client of the SDK ---------------------------------------------------------------------------


def sdk_of(client: Client, **options: Any) -> anthropic.Anthropic:
    address = str(client.base_url)
    return anthropic.Anthropic(base_url=address, api_key="sk-any", max_retries=0, timeout=DEADLINE, **options)


def test_the_file_client_of_the_sdk_works(serve: Serve, upstream: Upstream) -> None:
    """It was refused for want of a purpose; its dates and sizes were of another API."""
    client = serve(upstream.toml).client()
    with sdk_of(client) as sdk:
        made = sdk.beta.files.upload(file=("a.png", PNG, "image/png"), expires_in_seconds=3600)
        assert (made.type, made.filename, made.mime_type) == ("file", "a.png", "image/png")
        assert (made.size_bytes, made.downloadable) == (len(PNG), True)
        assert made.expires_at is not None
        assert (made.expires_at - made.created_at).total_seconds() == 3600
        assert sdk.beta.files.retrieve_metadata(made.id) == made
        assert sdk.beta.files.download(made.id).read() == PNG
        others = [sdk.beta.files.upload(file=(f"{n}.txt", b"x", "text/plain")) for n in range(3)]
        ids = {made.id, *(one.id for one in others)}
        assert {one.id for one in sdk.beta.files.list(limit=1)} == ids
        assert {one.id for one in sdk.beta.files.list(ids=[made.id, "file_0"])} == {made.id}
        assert list(sdk.beta.files.list(scope_id="session_1")) == []
        assert client.ok("GET", f"/v1/files/{made.id}")["object"] == "file"
        deleted = sdk.beta.files.delete(made.id)
        assert (deleted.id, deleted.type) == (made.id, "file_deleted")
        with pytest.raises(anthropic.NotFoundError) as missing:
            sdk.beta.files.retrieve_metadata(made.id)
        assert missing.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
        assert missing.value.request_id


@pytest.mark.parametrize(
    ("method", "path", "options", "param"),
    [
        ("GET", "/v1/files?page=page_nothing", {}, "page"),
        ("GET", "/v1/files?limit=1001", {}, "limit"),
        ("GET", "/v1/files?" + "&".join(f"ids[]={n}" for n in range(101)), {}, "ids"),
        ("POST", "/v1/files", {"files": {"file": ("a", b"x")}, "data": {"expires_in_seconds": "5"}}, None),
        ("POST", "/v1/files", {"files": {"other": ("a", b"x")}}, "file"),
    ],
)
def test_what_the_file_client_asks_wrongly_is_refused_in_its_shape(
    serve: Serve, upstream: Upstream, method: str, path: str, options: Json, param: str | None
) -> None:
    client = serve(upstream.toml).client(anthropic_version="2023-06-01")
    answer = client.request(method, path, **options)
    assert answer.status_code == 400
    body = answer.json()
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert body["error"]["param"] == (param or "expires_in_seconds")
