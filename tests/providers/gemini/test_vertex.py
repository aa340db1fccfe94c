"""The vertex provider: its addresses, and its tokens from a service account made for the test."""

import asyncio
import base64
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from google.auth.compute_engine import _metadata

from antiphon.config import ConfigErrors, Secret, load
from antiphon.providers.base import UpstreamError
from antiphon.providers.gemini.vertex import Vertex, VertexSettings, base_url
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import TYPES
from tests.providers.build import build
from tests.providers.compose import answer, batches, make_turn, told
from tests.providers.conformance.said import Script, Text
from tests.providers.fake_server import SOON, FakeServer, Received, Wire, refusal, refusing_address
from tests.providers.gemini.fake import KEY, MODEL, PROJECT, FakeVertex, mistakes

PAGE = Path(__file__).parents[3] / "docs/providers/vertex.md"
ACCOUNT = "robot@a-project.iam.gserviceaccount.com"
SECRETS = (KEY, "PRIVATE KEY", "ya29")


@pytest.fixture(scope="module")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
async def upstream() -> AsyncIterator[FakeVertex]:
    async with FakeVertex() as fake:
        yield fake


@pytest.fixture
def account(private_key: rsa.RSAPrivateKey, upstream: FakeVertex, tmp_path: Path) -> Callable[..., Path]:
    """The file of a service account whose tokens come from the fake."""

    def written(**changes: Any) -> Path:
        pem = private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        info = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "key-1",
            "private_key": pem.decode(),
            "client_email": ACCOUNT,
            "token_uri": upstream.token_uri,
        }
        file = tmp_path / "account.json"
        file.write_text(json.dumps({k: v for k, v in (info | changes).items() if v is not None}))
        return file

    return written


Made = Callable[..., Vertex]


@pytest.fixture
async def vertex(
    http: UpstreamClient, upstream: FakeVertex, account: Callable[..., Path]
) -> AsyncIterator[Made]:
    created: list[Vertex] = []

    def created_by(**keys: Any) -> Vertex:
        keys = {"base_url": upstream.base_url, "location": "us-central1", **keys}
        if not keys.keys() & {"api_key", "credentials"}:
            keys["credentials"] = str(account())
        created.append(build(Vertex, "up", http, **keys))
        return created[-1]

    yield created_by
    for one in created:
        await one.close()


async def failed(provider: Vertex) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn("Hi", model=MODEL))
    assert not any(secret in caught.value.payload.message for secret in SECRETS)
    return caught.value


def decoded(part: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=="))
    return value


# --- addresses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("global", "https://aiplatform.googleapis.com/v1"),
        ("europe-west4", "https://europe-west4-aiplatform.googleapis.com/v1"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com/v1"),
    ],
)
def test_locations(http: UpstreamClient, location: str, address: str) -> None:
    assert base_url(location) == address
    provider = build(Vertex, "up", http, api_key=Secret(KEY), project="p", location=location)
    path = f"projects/p/locations/{location}"
    expected = f"{address}/{path}/publishers/google/models/gemini-2.5-pro:generateContent"
    assert provider._url("gemini-2.5-pro", "generateContent") == expected
    assert (
        provider._url("endpoints/12", "generateContent") == f"{address}/{path}/endpoints/12:generateContent"
    )
    other = "publishers/meta/models/llama"
    assert provider._url(other, "generateContent") == f"{address}/{path}/{other}:generateContent"


async def test_a_name_does_not_lead_to_another_project(http: UpstreamClient) -> None:
    provider = build(Vertex, "up", http, api_key=Secret(KEY), project="p")
    url = provider._url("projects/q/locations/global/endpoints/1", "generateContent")
    assert "/projects/p/locations/global/publishers/google/models/projects/q/" in url
    with pytest.raises(UpstreamError):
        provider._url("../../../q", "generateContent")


async def test_an_api_key_needs_no_project(http: UpstreamClient, vertex: Made) -> None:
    provider = vertex(api_key=Secret(KEY), base_url="https://a.example/v1")
    url = provider._url(MODEL, "generateContent")
    assert url == f"https://a.example/v1/publishers/google/models/{MODEL}:generateContent"
    assert provider._headers["x-goog-api-key"] == KEY


# --- tokens -----------------------------------------------------------------------------------------------


async def test_a_service_account_signs_in(
    upstream: FakeVertex, vertex: Made, private_key: rsa.RSAPrivateKey
) -> None:
    upstream.says(Script((Text("Hello"),)))
    provider = vertex()
    assert told(await answer(provider, make_turn("Hi", model=MODEL))) == ["Hello"]
    asked, received = upstream.requests
    assert asked.path == "/token"
    assert received.headers["authorization"] == "Bearer ya29.a-token"
    assert mistakes(received.body) == []
    [assertion] = upstream.assertions
    head, claims, signature = assertion.split(".")
    private_key.public_key().verify(
        base64.urlsafe_b64decode(signature + "=="),
        f"{head}.{claims}".encode(),
        padding.PKCS1v15(),
        hashes.SHA256(),
    )
    told_by = decoded(claims)
    assert (told_by["iss"], told_by["aud"]) == (ACCOUNT, "https://oauth2.googleapis.com/token")
    assert told_by["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert 0 < told_by["exp"] - told_by["iat"] <= 3600
    assert abs(told_by["iat"] - time.time()) < 600


async def test_many_requests_share_one_token(upstream: FakeVertex, vertex: Made) -> None:
    provider = vertex()
    turns = [make_turn("Hi", model=MODEL) for _ in range(5)]
    await asyncio.gather(*(answer(provider, turn) for turn in turns))
    await answer(provider, make_turn("Hi", model=MODEL))
    assert len(upstream.assertions) == 1
    assert len(upstream.requests) == 7


async def test_a_token_is_renewed_before_its_end(upstream: FakeVertex, vertex: Made) -> None:
    upstream.expires_in = 200
    provider = vertex()
    await answer(provider, make_turn("Hi", model=MODEL))
    upstream.token = "ya29.another-token"
    await answer(provider, make_turn("Hi", model=MODEL))
    assert len(upstream.assertions) == 2
    assert upstream.requests[-1].headers["authorization"] == "Bearer ya29.another-token"


REFUSED = refusal(400, b'{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}')


async def test_an_old_token_is_used_while_it_lives(upstream: FakeVertex, vertex: Made) -> None:
    upstream.expires_in = 200
    provider = vertex()
    await answer(provider, make_turn("Hi", model=MODEL))
    upstream.token_replies.append(REFUSED)
    assert told(await answer(provider, make_turn("Hi", model=MODEL))) == ["Hello"]
    assert not upstream.token_replies


async def test_a_client_that_leaves_does_not_take_the_token_from_others(
    upstream: FakeVertex, vertex: Made
) -> None:
    gate = asyncio.Event()
    given = json.dumps({"access_token": upstream.token, "expires_in": 3600}).encode()
    upstream.token_replies.append(Wire([gate, given], headers={"content-type": "application/json"}))
    provider = vertex()
    first = asyncio.create_task(batches(provider, make_turn("Hi", model=MODEL)))
    async with asyncio.timeout(SOON):
        await upstream.asked.wait()
    second = asyncio.create_task(answer(provider, make_turn("Hi", model=MODEL)))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    gate.set()
    assert told(await second) == ["Hello"]
    assert [received.path for received in upstream.requests].count("/token") == 1


async def test_no_token(upstream: FakeVertex, vertex: Made) -> None:
    upstream.token_replies.append(REFUSED)
    caught = await failed(vertex())
    assert (caught.status, caught.payload.code) == (502, "upstream_auth")
    assert "Invalid JWT Signature" in caught.payload.message
    assert [received.path for received in upstream.requests] == ["/token"]


async def test_a_failure_is_not_kept(upstream: FakeVertex, vertex: Made) -> None:
    upstream.token_replies.append(REFUSED)
    provider = vertex()
    await failed(provider)
    assert told(await answer(provider, make_turn("Hi", model=MODEL))) == ["Hello"]


async def test_nobody_gives_tokens(vertex: Made, account: Callable[..., Path]) -> None:
    with refusing_address() as address:
        caught = await failed(vertex(credentials=str(account(token_uri=f"{address}/token"))))
    assert (caught.status, caught.payload.code) == (502, "upstream_auth")


async def test_a_token_that_is_not_accepted(upstream: FakeVertex, vertex: Made) -> None:
    given = json.dumps({"access_token": "ya29.stale", "expires_in": 3600}).encode()
    upstream.token_replies.append(refusal(200, given))
    caught = await failed(vertex())
    assert (caught.status, caught.payload.code) == (502, "upstream_auth")


async def test_no_project(vertex: Made, account: Callable[..., Path]) -> None:
    caught = await failed(vertex(credentials=str(account(project_id=None))))
    assert caught.payload.code == "upstream_auth"
    assert "set `project`" in caught.payload.message


async def test_the_configured_project_and_the_one_that_pays(
    upstream: FakeVertex, vertex: Made, account: Callable[..., Path]
) -> None:
    provider = vertex(credentials=str(account(project_id="other", quota_project_id="payer")), project=PROJECT)
    assert told(await answer(provider, make_turn("Hi", model=MODEL))) == ["Hello"]
    assert upstream.requests[-1].headers["x-goog-user-project"] == "payer"


async def test_counting_and_listing(upstream: FakeVertex, vertex: Made) -> None:
    provider = vertex()
    request = {"input": "Hi", "tools": [{"type": "function", "name": "f"}], "tool_choice": "required"}
    count = await provider.count_tokens(make_turn(request, model=MODEL))
    assert upstream.body.keys() == {"contents", "tools"}
    assert count == len(json.dumps(upstream.body))
    assert await provider.models() == ["gemini-2.5-pro"]


async def test_no_models_without_a_token(upstream: FakeVertex, vertex: Made) -> None:
    upstream.token_replies.append(REFUSED)
    with pytest.raises(UpstreamError):
        await vertex().models()


# --- credentials of the machine ---------------------------------------------------------------------------


async def test_the_default_credentials(
    upstream: FakeVertex,
    http: UpstreamClient,
    account: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account()))
    provider = build(Vertex, "up", http, upstream.base_url, location="us-central1")
    assert told(await answer(provider, make_turn("Hi", model=MODEL))) == ["Hello"]
    assert len(upstream.assertions) == 1


class FakeMetadata(FakeServer):
    """The metadata server of a machine in Google's cloud."""

    def reply(self, received: Received) -> Wire:
        assert received.headers["metadata-flavor"] == "Google"
        told: Any = ""
        if received.path.endswith("/token"):
            told = json.dumps({"access_token": "ya29.a-token", "expires_in": 3600, "token_type": "Bearer"})
        elif received.path.endswith("/project/project-id"):
            told = PROJECT
        elif received.path.endswith("/service-accounts/default/"):
            told = json.dumps({"email": ACCOUNT, "scopes": ["a"], "aliases": ["default"]})
        kind = "application/json" if told.startswith("{") else "text/plain"
        return Wire([told.encode()], headers={"content-type": kind, "metadata-flavor": "Google"})


async def test_a_machine_in_the_cloud(
    upstream: FakeVertex, http: UpstreamClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "nothing"))
    async with FakeMetadata() as metadata:
        host = metadata.base_url.removeprefix("http://")
        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", host)
        monkeypatch.setenv("GCE_METADATA_IP", host)
        provider = build(Vertex, "up", http, upstream.base_url, location="us-central1")
        assert told(await answer(provider, make_turn("Hi", model=MODEL))) == ["Hello"]
        await provider.close()
    assert upstream.assertions == []


# --- configuration ----------------------------------------------------------------------------------------


def mistake(vertex: Made, **keys: Any) -> str:
    with pytest.raises(ConfigErrors) as caught:
        vertex(**keys)
    [one] = caught.value.mistakes
    return str(one)


async def test_credentials_that_are_none(vertex: Made, account: Callable[..., Path], tmp_path: Path) -> None:
    assert "cannot be read" in mistake(vertex, credentials=str(tmp_path / "nowhere.json"))
    broken = tmp_path / "broken.json"
    for data in (b"", b"{", b"[]", b'{"type": "\xff"}', b'{"a": ' * 100_000):
        broken.write_bytes(data)
        assert "not the JSON" in mistake(vertex, credentials=str(broken))
    assert "GOOGLE_APPLICATION_CREDENTIALS" in mistake(
        vertex, credentials=str(account(type="authorized_user"))
    )
    for change in ({"client_email": None}, {"private_key": "half a PRIVATE KEY"}, {"token_uri": None}):
        told_by = mistake(vertex, credentials=str(account(**change)))
        assert "whole key of a service account" in told_by
        assert "providers.up.credentials" in told_by
        assert "PRIVATE" not in told_by


async def test_without_the_extra(vertex: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "antiphon.providers.gemini.access_tokens")
    monkeypatch.setitem(sys.modules, "google.auth", None)
    assert "antiphon[vertex]" in mistake(vertex)
    assert vertex(api_key=Secret(KEY)).name == "up"


def test_the_example_of_the_docs_loads(tmp_path: Path) -> None:
    example = PAGE.read_text().split("```toml\n")[1].split("```")[0]
    file = tmp_path / "antiphon.toml"
    file.write_text(example)
    provider = load(file, environ={}, types=TYPES).providers["cloud"]
    assert isinstance(provider, VertexSettings)
    assert provider.project is not None


def test_every_key_of_the_configuration_is_documented() -> None:
    page = PAGE.read_text()
    own = VertexSettings.filled_in | {"type"}
    for field in msgspec.structs.fields(VertexSettings):
        assert field.name in own or f"`{field.name}`" in page, field.name
