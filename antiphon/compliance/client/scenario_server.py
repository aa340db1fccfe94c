"""The server of client mode: it writes exactly the pieces that a play wants, and notes what the client does.

HTTP is spoken here by hand, because no library lets go of a character's first byte alone.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import msgspec

from antiphon.compliance.client.scenarios import SCENARIOS, RefusedScenario, Scenario
from antiphon.compliance.http_exchange import Json
from antiphon.spec.codec import encode
from antiphon.stream.aliases import BROKEN

HELD: Final = 3.0
"""Seconds that a connection is held open after the end of its stream."""
_TAIL: Final = 64
_PAUSE: Final = 0.001
"""Seconds between two pieces, so that they are not read as one; very many of them are not held up."""
_MANY: Final = 200
_MAX_BODY: Final = 16 * 1024 * 1024
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        try:
            found = msgspec.json.decode(self.body)
        except BROKEN:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(slots=True)
class Seen:
    """The record of a client in one scenario."""

    requests: list[Received] = field(default_factory=list)
    response_ids: list[str] = field(default_factory=list)
    refused: int = 0
    played: int = 0
    left_early: int = 0
    held_to_the_end: bool = False
    replies: list[Received] = field(default_factory=list)


class ScenarioServer:
    """Use it with `async with`; `seen` has every scenario that a client has asked for."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, held: float = HELD) -> None:
        self._held = held
        self.seen: dict[str, Seen] = {}
        self._address = host, port
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}/v1"

    async def __aenter__(self) -> "ScenarioServer":
        self._server = await asyncio.start_server(self._accept, *self._address, limit=_MAX_BODY)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        await asyncio.sleep(0)  # connections that were aborted close in the next round

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (received := await _receive(reader)) is not None:
                if not await self._answer(received, reader, writer):
                    break
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # it was no HTTP request, or the client has gone
        finally:
            writer.transport.abort()

    async def _answer(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """True when the connection can carry another request."""
        if received.method == "GET" and received.path.endswith("/models"):
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "play"} for name in SCENARIOS]
            await _whole(writer, 200, msgspec.json.encode({"object": "list", "data": listed}))
            return True
        scenario = SCENARIOS.get(str(received.json.get("model")))
        if received.method != "POST" or not received.path.endswith("/responses") or scenario is None:
            await _refuse(writer, RefusedScenario(404, "not_found"))
            return True
        seen = self.seen.setdefault(scenario.id, Seen())
        seen.requests.append(received)
        if _is_reply(received):
            seen.replies.append(received)
            await _whole(writer, 200, Scenario("thanks", "").whole(received.body))
            return True
        if seen.refused < len(scenario.refusals):
            seen.refused += 1
            await _refuse(writer, scenario.refusals[seen.refused - 1])
            return True
        response, pieces = scenario.compose(received.body)
        seen.response_ids.append(response.id)
        if received.json.get("stream") is not True:
            await _whole(writer, 200, encode(response))
            return True
        return await self._play(scenario, seen, pieces, reader, writer)

    async def _play(
        self,
        scenario: Scenario,
        seen: Seen,
        pieces: list[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        seen.played += 1
        gone = asyncio.ensure_future(reader.read(1))
        try:
            writer.write(_head(200, "text/event-stream", chunked=True))
            for n, piece in enumerate(pieces):
                if gone.done():
                    # Whoever has the terminal event may leave before [DONE].
                    seen.left_early += len(b"".join(pieces[n:])) > _TAIL
                    return False
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(_PAUSE if len(pieces) < _MANY else 0)
            if scenario.held:
                await asyncio.wait({gone}, timeout=self._held)
                seen.held_to_the_end = not gone.done()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            seen.left_early += 1
            return False
        finally:
            gone.cancel()
        # The first byte of another request may be in `gone`, so this connection ends here.
        return False


def _is_reply(received: Received) -> bool:
    body = received.json
    given = body.get("input")
    outputs = isinstance(given, list) and any(
        isinstance(item, dict) and item.get("type") == "function_call_output" for item in given
    )
    return bool(body.get("previous_response_id")) or outputs


async def _receive(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, path, *_ = [*first.split(" "), "", ""]
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _chunks(reader)
    else:
        length = headers.get("content-length", "0")
        body = await reader.readexactly(min(int(length), _MAX_BODY)) if length.isdecimal() else b""
    return Received(method, path.partition("?")[0], headers, body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readuntil(b"\r\n")
    await reader.readuntil(b"\r\n")
    return body


async def _whole(writer: asyncio.StreamWriter, status: int, body: bytes, *more: tuple[str, str]) -> None:
    writer.write(_head(status, _JSON, *more, length=len(body)) + body)
    await writer.drain()


async def _refuse(writer: asyncio.StreamWriter, refusal: RefusedScenario) -> None:
    await _whole(writer, refusal.status, refusal.body, *refusal.headers)


def _head(
    status: int, content_type: str, *more: tuple[str, str], length: int = 0, chunked: bool = False
) -> bytes:
    framing = ("transfer-encoding", "chunked") if chunked else ("content-length", str(length))
    close = [("connection", "close")] if chunked else []
    headers = [("content-type", content_type), framing, *close, *more]
    lines = [f"HTTP/1.1 {status} Play", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
