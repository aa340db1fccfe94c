"""Who the gateway is to AWS: credentials from real files, variables and programs, found by botocore."""

import asyncio
import json
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from antiphon.providers.base import UpstreamError
from antiphon.providers.bedrock import Bedrock
from antiphon.providers.bedrock.auth import ApiKey, AwsCredentials, region_of
from antiphon.providers.http import UpstreamClient
from tests.providers.bedrock.fake import FakeBedrock, refused
from tests.providers.bedrock.service_model import is_signed_by
from tests.providers.build import build
from tests.providers.compose import answer, batches, make_turn, told

ACCESS, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse"
MODELS = [
    "anthropic.claude-3-5-sonnet-20241022-v2:0",
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-6-v1",
]


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def program(folder: Path, *, lives: timedelta) -> Path:
    """A program that makes credentials, others each time, and notes how often it ran."""
    path = folder / "make-credentials"
    until = (datetime.now(UTC) + lives).isoformat()
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"runs = pathlib.Path({str(folder / 'runs')!r})\n"
        "runs.write_text(runs.read_text() + 'x' if runs.exists() else 'x')\n"
        f"made = {{'Version': 1, 'AccessKeyId': 'AKIA' + runs.read_text(), 'SecretAccessKey': {SECRET!r},"
        f" 'SessionToken': 'token', 'Expiration': {until!r}}}\n"
        "print(json.dumps(made))\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (folder / "config").write_text(f"[profile made]\ncredential_process = {path}\nregion = eu-west-3\n")
    return folder / "runs"


async def test_a_key_is_a_bearer() -> None:
    proof = await ApiKey("abc").prove("POST", URL, b"{}")
    assert proof == ({"Authorization": "Bearer abc"}, ("abc",))


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streamed", [True, False])
async def test_every_request_is_signed_as_it_goes_over_the_wire(
    http: UpstreamClient, model: str, streamed: bool
) -> None:
    async with FakeBedrock() as upstream:
        provider = build(Bedrock, "aws", http, upstream.base_url, region="us-east-1")
        turn = make_turn({"input": "Grüße 🎼"}, model=model, stream=streamed)
        assert told(await answer(provider, turn)) == ["Grüße 🎼"]
        assert await provider.models()
        assert await provider.count_tokens(make_turn("Hi", model=MODELS[0]))
    assert len(upstream.requests) == 4
    for received in upstream.requests:
        assert is_signed_by(received, ACCESS, SECRET)
        assert "/us-east-1/bedrock/aws4_request" in received.headers["authorization"]


@pytest.mark.usefixtures("keys")
async def test_a_large_body_is_signed_too(http: UpstreamClient) -> None:
    async with FakeBedrock() as upstream:
        provider = build(Bedrock, "aws", http, upstream.base_url, region="us-east-1")
        await batches(provider, make_turn({"input": "x" * 2_000_000}, stream=False))
        assert is_signed_by(upstream.requests[0], ACCESS, SECRET)


async def test_a_profile_and_its_session_token(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        f"[work]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\naws_session_token = abc\n"
    )
    proof = await AwsCredentials("aws", "us-east-1", "work").prove("POST", URL, b"{}")
    assert proof.headers["X-Amz-Security-Token"] == "abc"
    assert set(proof.secrets) == {ACCESS, SECRET, "abc"}


async def test_credentials_are_found_once_and_shared(tmp_path: Path) -> None:
    runs = program(tmp_path, lives=timedelta(hours=2))
    chain = AwsCredentials("aws", "us-east-1", "made")
    proofs = await asyncio.gather(*(chain.prove("POST", URL, b"{}") for _ in range(5)))
    assert runs.read_text() == "x"
    assert {"AKIAx/" in proof.headers["Authorization"] for proof in proofs} == {True}


async def test_credentials_that_end_soon_are_refreshed(tmp_path: Path) -> None:
    runs = program(tmp_path, lives=timedelta(minutes=11))
    chain = AwsCredentials("aws", "us-east-1", "made")
    first = await chain.prove("POST", URL, b"{}")
    before = runs.read_text()
    second = await chain.prove("POST", URL, b"{}")
    assert len(runs.read_text()) > len(before)
    assert f"Credential=AKIA{before}/" in first.headers["Authorization"]
    assert f"Credential=AKIA{runs.read_text()}/" in second.headers["Authorization"]


@pytest.mark.parametrize(
    ("config", "profile", "why"),
    [
        ("", None, "were not found"),
        ("", "nobody", "could not be had (ProfileNotFound)"),
        ("[profile bad]\ncredential_process = false\n", "bad", "could not be had (CredentialRetrievalError)"),
    ],
)
async def test_no_credentials(tmp_path: Path, config: str, profile: str | None, why: str) -> None:
    (tmp_path / "config").write_text(config)
    chain = AwsCredentials("aws", "us-east-1", profile)
    for _ in range(2):
        with pytest.raises(UpstreamError) as caught:
            await chain.prove("POST", URL, b"{}")
        assert (caught.value.status, caught.value.payload.code) == (502, "upstream_auth")
        assert why in caught.value.payload.message


@pytest.mark.usefixtures("keys")
async def test_keys_are_never_shown(http: UpstreamClient) -> None:
    async with FakeBedrock() as upstream:
        upstream.says(refused("ValidationException", f"I saw {SECRET} and {ACCESS}", 400))
        provider = build(Bedrock, "aws", http, upstream.base_url, region="us-east-1")
        with pytest.raises(UpstreamError) as caught:
            await batches(provider, make_turn())
    shown = json.dumps([caught.value.payload.message, str(caught.value), repr(caught.value)])
    assert SECRET not in shown
    assert ACCESS not in shown


def test_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert region_of(None) is None
    assert region_of("nobody") is None
    program(tmp_path, lives=timedelta(hours=2))
    assert region_of("made") == "eu-west-3"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert region_of("made") == "us-west-2"
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert region_of("made") == "ap-south-1"
