"""Servers that are not quite the gateway, each on a port of its own."""

import json
from typing import Any, Generic, TypeVar

from antiphon.config import Config
from antiphon.server.app import App
from antiphon.wires.asgi import AsgiScope, Receive, Send
from tests.server.servers import Serving, _InThread
from tests.stream.mutations import END, Tape

Kind = TypeVar("Kind", bound=App)


class Serves(Serving, Generic[Kind]):
    """Serves another application than the gateway's own."""

    def __init__(self, config: Config, kind: type[Kind]) -> None:
        super().__init__(config)
        self.odd = kind(config)
        self.app = self.odd
        self._server = _InThread(self.odd, config)
        self._server.config.http = "httptools"  # the gateway's own HTTP goes past ASGI, and so past the fault


class Replaying(App):
    """Answers every request with the same stream."""

    tape: Tape

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            while (await receive()).get("more_body"):
                pass
            await self._answer(send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] == "websocket.receive":
                for _, data in self.tape.frames:
                    await send({"type": "websocket.send", "text": _text(data)})
        else:
            await super().__call__(scope, receive, send)

    async def _answer(self, send: Send) -> None:
        body = "".join(
            (f"event: {name}\n" if name is not None else "") + f"data: {_text(data)}\n\n"
            for name, data in self.tape.frames
        )
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})


def _text(data: Any) -> str:
    return "[DONE]" if data == END else json.dumps(data)
