"""The WebSocket of a producer's endpoint: its turns are answers of the agent."""

import logging
from contextlib import aclosing

from antiphon.producer.answering import Answers
from antiphon.producer.produce import FAILED
from antiphon.spec.decode import decode_websocket_create
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item
from antiphon.spec.request import WebSocketCreate
from antiphon.stream.framing import lines
from antiphon.wires.asgi import Receive, Send
from antiphon.wires.pieces import Pieces, decode_pieces
from antiphon.wires.responses_socket import ResponsesSocket, Texts

log = logging.getLogger("antiphon.producer")


class AgentSocket(ResponsesSocket[list[Item]]):
    def __init__(
        self,
        answers: Answers,
        receive: Receive,
        send: Send,
        texts: Texts,
        *,
        max_body: int,
        limit: float,
        idle: float,
    ) -> None:
        super().__init__(receive, send, texts, limit=limit, idle=idle)
        self._answers = answers
        self._max_body = max_body

    async def decoded(self, message: bytes | Pieces) -> WebSocketCreate:
        return await decode_pieces(decode_websocket_create, message, self._max_body)

    async def respond(self, request: WebSocketCreate) -> bool:
        turn = await self._answers.begin(request, self.memory)
        async with aclosing(self._answers.events(turn)) as batches:
            async for events in batches:
                if events and not self.texts.put(lines(events).split(b"\n")[:-1]):
                    await self.texts.ready()
        await self.texts.ready()
        return turn.builder.error is None

    async def fail(self, error: Exception) -> None:
        if isinstance(error, SpecError):
            await self.send_error(error.payload, error.status)
        else:
            log.error("a turn failed with %s", type(error).__name__, exc_info=error)
            await self.send_error(FAILED, FAILED.status)

    def broke(self, error: Exception) -> None:
        log.error("a socket broke with %s", type(error).__name__, exc_info=error)
