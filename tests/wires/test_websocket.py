"""Opening a WebSocket: what the answer to a handshake means, for the client and for the gateway."""

import pytest

from antiphon.wires import USER_AGENT
from antiphon.wires.websocket import HandshakeRefused, NoWebSocket, dial
from tests.client.scripted_server import Player, error

ABSENT = [200, 400, 402, 403, 404, 405, 426, 501]
REFUSED = [401, 407, 408, 429, 500, 502, 503]


@pytest.mark.parametrize("status", ABSENT)
async def test_plain_http_in_answer_to_a_handshake_means_no_websocket(status: int) -> None:
    async with Player(error(status)) as server:
        with pytest.raises(NoWebSocket, match=str(status)):
            await dial(server.base_url.replace("http", "ws", 1), {}, use_proxy=False)
    assert server.requests[0].headers["user-agent"] == USER_AGENT


@pytest.mark.parametrize("status", REFUSED)
async def test_a_refusal_of_the_caller_or_the_moment_is_told_as_it_came(status: int) -> None:
    async with Player(error(status, message="not now", retry_after="7")) as server:
        with pytest.raises(HandshakeRefused) as caught:
            await dial(server.base_url.replace("http", "ws", 1), {"x-own": "1"}, use_proxy=False)
    assert (caught.value.status, caught.value.headers["retry-after"]) == (status, "7")
    assert b"not now" in caught.value.body
    assert server.requests[0].headers["x-own"] == "1"
