"""Answers that are small, and huge once they are unpacked: every client reads them in small steps."""

import re

import pytest

from antiphon.cli.common import CommandFailed
from antiphon.cli.setup.gateway import ask, is_up
from antiphon.cli.setup.relay import relay_to
from antiphon.client import AsyncClient, Retries, StatusError, UnexpectedAnswer
from antiphon.client.errors import ConnectionFailed
from antiphon.client.tools.mcp import MCPServer
from antiphon.compliance.probe import ServerUnderTest
from antiphon.compliance.runner import CouldNotRun, find_model
from tests.bomb_server import Bomb, bounded_memory, pack, pack_again, serve_bomb
from tests.server.servers import Client

ONCE = Retries(0)


async def test_an_error_that_grows_is_cut_by_the_client() -> None:
    with serve_bomb(Bomb(pack(), status=500)) as bomb, bounded_memory():
        async with AsyncClient(bomb.url, retries=ONCE) as client:
            with pytest.raises(StatusError, match="500"):
                await client.models.list()
    assert bomb.accepted[0] == "gzip, deflate"


async def test_an_answer_that_is_packed_three_times_is_refused_by_the_client() -> None:
    packed = pack_again(pack_again(pack()))
    with serve_bomb(Bomb(packed, encoding="gzip, gzip, gzip")) as bomb, bounded_memory():
        async with AsyncClient(bomb.url, retries=ONCE) as client:
            with pytest.raises(UnexpectedAnswer, match="'gzip, gzip, gzip', which was not asked for"):
                await client.models.list()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_of_an_mcp_server_that_grows_is_not_read_by_an_agent(kind: str) -> None:
    with serve_bomb(Bomb(pack(), kind)) as bomb, bounded_memory(), pytest.raises(ConnectionFailed):
        async with MCPServer.http(f"{bomb.url}/mcp"):
            pass


async def test_an_answer_that_grows_is_read_up_to_the_limit_by_the_compliance_checks() -> None:
    says = re.escape("the answer is longer than 67,108,864 bytes")
    with serve_bomb(Bomb(pack())) as bomb, bounded_memory(), pytest.raises(CouldNotRun, match=says):
        await find_model(ServerUnderTest(bomb.url, ""))


def test_an_answer_that_grows_is_read_up_to_the_limit_by_setup() -> None:
    with serve_bomb(Bomb(pack())) as bomb, bounded_memory():
        with pytest.raises(CommandFailed, match="DecodingError"):
            ask(bomb.url, [])
        assert not is_up(bomb.url)


def test_the_relay_of_setup_passes_on_what_it_gets_as_it_is() -> None:
    packed = pack()
    with (
        serve_bomb(Bomb(packed)) as bomb,
        bounded_memory(),
        relay_to(bomb.url) as relay,
        Client(relay.url) as client,
        client.stream("GET", "/v1/models") as answer,
    ):
        assert answer.headers["content-encoding"] == "gzip"
        assert b"".join(answer.iter_raw()) == packed
    assert bomb.accepted == ["identity"]
