"""Bodies that are packed: read, or refused, and never larger than a body may be."""

import gzip
import json
from collections.abc import Callable, Iterator

import pytest
from backports import zstd

from antiphon.server.body_memory import MemoryShare
from tests.server.auto_upstream import Voice
from tests.server.limited import KB, Running, half, limited, padded
from tests.server.raw_connection import CLOSE, answers, line, post
from tests.server.servers import until


@pytest.fixture(scope="module", params=["direct", "asgi"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, talking: Voice
) -> Iterator[Running]:
    with limited(request.param, tmp_path_factory.mktemp("server"), talking.toml) as running:
        yield running


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}


def packed(name: str, body: bytes) -> bytes:
    return post(b"Content-Encoding: " + name.encode(), CLOSE, body=body)


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("size", [60, 500 * KB])
def test_a_packed_body_is_read(server: Running, name: str, size: int) -> None:
    with line(server) as connection:
        connection.send(packed(name, PACKERS[name](padded(size))))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200, answer.body


def test_a_body_that_is_said_not_to_be_packed_is_read(server: Running) -> None:
    with line(server) as connection:
        connection.send(packed("identity", padded(60)))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200


@pytest.mark.parametrize("name", PACKERS)
def test_unpacking_stops_at_the_limit_of_a_body(
    server: Running, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    hold = MemoryShare.hold

    def note(self: MemoryShare, size: int, expected: int = 0) -> None:
        sizes.append(size)
        hold(self, size, expected)

    monkeypatch.setattr(MemoryShare, "hold", note)
    with line(server) as connection:
        connection.send(packed(name, PACKERS[name](b" " * 50_000_000)))
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (413, "body_too_large")
    assert max(sizes) < 1000 * KB


def test_what_is_unpacked_counts_with_the_bodies_of_others(server: Running) -> None:
    with line(server) as first, line(server) as second:
        half(first, server, chunked=False)
        second.send(packed("gzip", gzip.compress(padded(590 * KB))))
        [refused] = answers(second.rest(), "POST")
    assert refused.status == 503
    until(lambda: server.held() == 0)


@pytest.mark.parametrize("name", ["br", "deflate", "gzip, zstd", "gzip, gzip"])
def test_a_body_that_is_packed_in_another_way_is_refused(server: Running, name: str) -> None:
    with line(server) as connection:
        connection.send(packed(name, b"x"))
        [answer] = answers(connection.rest(), "POST")
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (415, "unsupported_encoding")
    assert "gzip or zstd" in error["message"]


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body[:-1],
        lambda body: body + b"x",
        lambda body: b"x" + body,
        lambda body: body * 2 + body[:-1],
        lambda body: body * 5000,
    ],
    ids=["cut off", "more", "broken", "cut off in the third part", "too many parts"],
)
def test_a_packed_body_that_is_broken_is_told_so(
    server: Running, name: str, spoil: Callable[[bytes], bytes]
) -> None:
    with line(server) as connection:
        connection.send(packed(name, spoil(PACKERS[name](padded(60)))))
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "invalid_encoding")


@pytest.mark.parametrize("name", PACKERS)
def test_a_packed_body_may_have_several_parts(server: Running, name: str) -> None:
    """As `cat one.gz other.gz` makes it, and programs that pack with several threads."""
    body, pack = padded(200_000), PACKERS[name]
    parts = [pack(body[at : at + 30_000]) for at in range(0, len(body), 30_000)]
    with line(server) as connection:
        connection.send(packed(name, b"".join([*parts[:3], pack(b""), *parts[3:]])))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200


@pytest.mark.parametrize("name", PACKERS)
def test_all_parts_of_a_packed_body_count_for_the_limit(server: Running, name: str) -> None:
    with line(server) as connection:
        connection.send(packed(name, PACKERS[name](b" " * 1_000_000) * 100))
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (413, "body_too_large")


def test_a_zstd_frame_may_not_ask_for_a_large_window(server: Running) -> None:
    """The head of a frame with a window of a gigabyte, and a block of one byte."""
    frame = b"\x28\xb5\x2f\xfd\x00\xa0" + b"\x09\x00\x00x"
    with line(server) as connection:
        connection.send(packed("zstd", frame))
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "invalid_encoding")
