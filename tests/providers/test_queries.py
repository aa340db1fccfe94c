"""What upstreams are asked beside a turn: answers, and no answers."""

import json
from collections.abc import AsyncIterator

import pytest

from antiphon.config import Secret, UpstreamTimeouts
from antiphon.providers import queries
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from tests.providers.fake_server import FakeServer, Received, Wire, refusal, refusing_address


class Answering(FakeServer):
    """Says the same to everybody."""

    answer = refusal(200, b'{"tokens":7}')

    def reply(self, received: Received) -> Wire:
        return self.answer


@pytest.fixture
async def upstream() -> AsyncIterator[Answering]:
    async with Answering() as server:
        yield server


def test_who_asks() -> None:
    asks = queries.build_identity(Secret("sk-1"), {"X-Team": Secret("blue")})
    assert asks.headers["Authorization"] == "Bearer sk-1"
    assert asks.headers["X-Team"] == "blue"
    assert set(asks.secrets) == {"sk-1", "blue"}
    asks = queries.build_identity(Secret("k"), None, key="x-api-key: ", accept="application/x-ndjson")
    assert (asks.headers["x-api-key"], asks.headers["Accept"]) == ("k", "application/x-ndjson")
    assert queries.build_identity(None, None).secrets == ()


def test_a_header_of_the_configuration_wins() -> None:
    own = {"Authorization": Secret("Basic abcd")}
    assert queries.build_identity(Secret("sk-1"), own).headers["Authorization"] == "Basic abcd"


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (200, b'{"a":1}', {"a": 1}),
        (200, b"[1]", {}),
        (200, b"\xff", {}),
        (405, b'{"a":1}', {}),
        (404, b"", {}),
    ],
)
async def test_looking_up(
    upstream: Answering, http: UpstreamClient, status: int, body: bytes, found: dict[str, int]
) -> None:
    upstream.answer = refusal(status, body)
    assert await queries.look_up(http, upstream.base_url, {}, "p") == found


async def test_nobody_to_look_up(http: UpstreamClient) -> None:
    with refusing_address() as url, pytest.raises(UpstreamError, match="refused"):
        await queries.look_up(http, url, {}, "p")


async def test_looking_up_what_is_refused(upstream: Answering, http: UpstreamClient) -> None:
    upstream.answer = refusal(401, b'{"error":{"message":"no sk-very-secret"}}')
    with pytest.raises(UpstreamError) as caught:
        await queries.look_up(http, upstream.base_url, {}, "p", ["sk-very-secret"])
    assert caught.value.payload.code == "upstream_auth"
    assert "secret" not in caught.value.payload.message


@pytest.mark.parametrize(
    ("status", "told", "expected"),
    [(200, {"tokens": 7}, 7), (200, {"tokens": "7"}, None), (200, {}, None), (404, {"tokens": 7}, None)],
)
async def test_counting(
    upstream: Answering, http: UpstreamClient, status: int, told: object, expected: int | None
) -> None:
    upstream.answer = refusal(status, json.dumps(told).encode())
    assert await _count(http, upstream) == expected


async def test_counting_that_is_refused(upstream: Answering, http: UpstreamClient) -> None:
    upstream.answer = refusal(400, b'{"error":{"message":"no sk-very-secret"}}')
    with pytest.raises(UpstreamError) as caught:
        await _count(http, upstream)
    assert "secret" not in caught.value.payload.message


async def _count(http: UpstreamClient, upstream: Answering) -> int | None:
    return await queries.count(
        http,
        upstream.base_url,
        b"{}",
        {},
        UpstreamTimeouts(),
        provider="p",
        field="tokens",
        secrets=["sk-very-secret"],
        absent=(404,),
    )
