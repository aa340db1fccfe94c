"""MCP servers whose answers are small, and huge once they are unpacked."""

from collections.abc import Callable

import pytest

from tests.bomb_server import Bomb, bounded_memory, pack, pack_again, serve_bomb
from tests.server.conftest import Serve
from tests.server.test_hosted_functions import script
from tests.server.test_hosted_mcp import SCRIPTED, remote
from tests.server.test_hosted_mcp_limits import error_of

TOO_LARGE = "the server answered with more than the gateway reads"
UNREADABLE = "the server's answer could not be read: the answer is compressed with"

BOMBS: dict[str, tuple[Callable[[], Bomb], str]] = {
    "JSON": (lambda: Bomb(pack()), TOO_LARGE),
    "an error": (lambda: Bomb(pack(), status=500), TOO_LARGE),
    "empty lines of events": (lambda: Bomb(pack(b"\n"), "text/event-stream"), TOO_LARGE),
    "comments of events": (lambda: Bomb(pack(b":\r\n"), "text/event-stream"), TOO_LARGE),
    "deflate": (lambda: Bomb(b"\x78\x9c" + pack()[10:-8], encoding="deflate"), TOO_LARGE),
    "packed three times": (
        lambda: Bomb(pack_again(pack_again(pack())), encoding="gzip, gzip, gzip"),
        f"{UNREADABLE} 'gzip, gzip, gzip', which was not asked for",
    ),
    "brotli": (lambda: Bomb(b"x", encoding="br"), f"{UNREADABLE} 'br', which was not asked for"),
    "zstd": (lambda: Bomb(b"x", encoding="zstd"), f"{UNREADABLE} 'zstd', which was not asked for"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_answer_that_grows_as_it_is_unpacked_is_read_up_to_the_limit(serve: Serve, name: str) -> None:
    make, says = BOMBS[name]
    with serve_bomb(make()) as bomb:
        client = serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{bomb.url}"]\ntimeout = "60 s"\n').client()
        with bounded_memory():
            response = client.create(input=script([{"text": "Alone."}]), tools=[remote(bomb.url)])
        assert error_of(response) == says


def test_a_token_server_whose_answer_grows_is_read_up_to_the_limit(serve: Serve) -> None:
    with serve_bomb(Bomb(pack(), status=401)) as bomb:
        table = (
            f'[tools.mcp.servers.w]\nurl = "{bomb.url}/mcp"\n'
            f'[tools.mcp.servers.w.oauth]\nissuer = "{bomb.url}"\n'
            'client_id = "me"\nclient_secret = "secret-of-mine"\n'
        )
        client = serve(f"{SCRIPTED}{table}").client()
        with bounded_memory():
            tool = {"type": "mcp", "server_label": "w"}
            response = client.create(input=script([{"text": "Alone."}]), tools=[tool])
        assert error_of(response) == TOO_LARGE
