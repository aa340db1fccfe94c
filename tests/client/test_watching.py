"""`watch=` sees a call as it is on the wire."""

from collections.abc import Mapping

from antiphon import Watch
from tests.client.scripted_server import QUICK, Player, answer, composed, error, events, say, whole


class Notes:
    """Writes everything down."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, bytes]] = []
        self.statuses: list[int] = []
        self.body = b""

    def sent(self, method: str, url: str, body: bytes) -> None:
        self.calls.append((method, url, body))

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        assert "content-type" in headers
        self.statuses.append(status)

    def received(self, piece: bytes) -> None:
        self.body += piece


async def test_the_bytes_of_a_stream_and_of_a_plain_answer_are_seen() -> None:
    stream = b"".join(composed(say("Hello"))[1])
    notes = Notes()
    watch: Watch = notes
    async with Player(events([stream])) as server, server.client("the-key") as client:
        async with client.responses.stream("Hi", model="m", watch=watch) as found:
            await found.final()
        assert notes.body == stream
        assert notes.statuses == [200]
        [(method, url, body)] = notes.calls
        assert (method, url) == ("POST", f"{server.base_url}/responses")
        assert body == server.requests[0].raw
        assert b"the-key" not in body
        assert "watch" not in server.body
    notes = Notes()
    async with Player(whole("Hello")) as server, server.client() as client:
        response = await client.responses.create("Hi", watch=notes)
    assert response.id.encode() in notes.body


async def test_each_attempt_is_seen_and_a_refusal_has_no_bytes() -> None:
    notes = Notes()
    models = answer({"object": "list", "data": []})
    async with Player(error(503), error(503), models) as server, server.client(retries=QUICK) as client:
        assert len(await client.models.list(watch=notes)) == 0
    assert notes.statuses == [503, 503, 200]
    assert notes.body == b'{"object": "list", "data": []}'
