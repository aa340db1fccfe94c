"""A thousand streams at once through one server, and every one of them is whole."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import pytest

from antiphon.config import UpstreamTimeouts
from antiphon.providers.http import UpstreamClient
from antiphon.stream.sse import Decoder
from tests.server.conftest import Spawn
from tests.server.upstream import END, chunk

STREAMS = 1000
WORDS = [f"word {n} " for n in range(20)]
ORDINARY = 1024
PATIENCE = 90.0
ASKED = json.dumps({"input": "hi", "stream": True}).encode()
HEADERS = {"Content-Type": "application/json"}
NEVER = UpstreamTimeouts(connect=0, first_byte=0, whole=0, idle=0, total=0)


class Crowd:
    """A chat upstream that speaks once everybody is there, to all of them in turn, word by word."""

    def __init__(self) -> None:
        self.present = 0
        self._complete = asyncio.Event()
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=STREAMS)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server:
            yield

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().split(b"content-length:")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        self.present += 1
        if self.present == STREAMS:
            self._complete.set()
        await self._complete.wait()
        for word in WORDS:
            writer.write(chunk({"content": word}))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(chunk({}, "stop") + END)
        writer.close()
        await writer.wait_closed()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for both ends of the streams; the server begins with the ordinary limit and has to raise it."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    assert hard >= 3 * STREAMS, f"this test needs {3 * STREAMS} open files; `ulimit -Hn` is {hard}"
    setrlimit(RLIMIT_NOFILE, (ORDINARY, hard))
    yield
    setrlimit(RLIMIT_NOFILE, (soft, hard))


async def stream(http: UpstreamClient, url: str) -> str:
    """The text of one stream, which must begin, end and be numbered as it should."""
    async with http.post(f"{url}/v1/responses", ASKED, HEADERS, NEVER, provider="gateway") as answer:
        assert answer.status == 200, await answer.read()
        *events, done = Decoder().feed(await answer.read())
    assert done.is_done
    told = [json.loads(event.data) for event in events]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert (told[0]["type"], told[-1]["type"]) == ("response.created", "response.completed")
    response = told[-1]["response"]
    return str(response["id"] + response["output"][0]["content"][0]["text"])


async def test_a_thousand_streams_at_once(many_files: None, spawn: Spawn) -> None:
    crowd = Crowd()
    async with asyncio.timeout(PATIENCE), crowd.listening():
        toml = f'default_model = "up/m"\n[providers.up]\ntype = "chat"\nbase_url = "{crowd.url}"\n'
        server = await asyncio.to_thread(spawn, toml)
        setrlimit(RLIMIT_NOFILE, (3 * STREAMS, getrlimit(RLIMIT_NOFILE)[1]))
        http = UpstreamClient()
        began = time.monotonic()
        answers = await asyncio.gather(*(stream(http, server.url) for _ in range(STREAMS)))
        await http.close()
        print(f"{STREAMS} streams of {len(WORDS)} words in {time.monotonic() - began:.1f} s")
    assert crowd.present == STREAMS
    assert len(set(answers)) == STREAMS
    assert {answer[-len("".join(WORDS)) :] for answer in answers} == {"".join(WORDS)}
    assert await asyncio.to_thread(server.stop) == 0
