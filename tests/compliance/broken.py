"""A gateway that can be broken in one way at a time: a layer between its clients and itself."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from antiphon.server.app import App
from antiphon.wires.asgi import AsgiMessage, AsgiScope, Receive, Send

Json = dict[str, Any]


@dataclass
class Asked:
    """A request on its way in: a hook may change its body."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    over: str = "http"

    @property
    def body(self) -> Any:
        try:
            return json.loads(self.raw)
        except ValueError:
            return None

    @body.setter
    def body(self, value: Any) -> None:
        self.raw = json.dumps(value).encode()


@dataclass
class Answer:
    """An answer on its way out: a hook may change anything of it."""

    status: int
    raw: bytes
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})

    @classmethod
    def of(cls, status: int, body: Any) -> "Answer":
        return cls(status, json.dumps(body).encode())

    @classmethod
    def error(cls, status: int, kind: str = "invalid_request", code: str | None = "broken") -> "Answer":
        about = {"type": kind, "code": code, "message": "it is broken", "param": None}
        return cls.of(status, {"error": about})

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @body.setter
    def body(self, value: Any) -> None:
        self.raw = json.dumps(value).encode()

    @property
    def events(self) -> list[Json]:
        lines = [line[6:] for line in self.raw.split(b"\n") if line.startswith(b"data: {")]
        return [json.loads(line) for line in lines]

    @events.setter
    def events(self, events: list[Json]) -> None:
        framed = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.raw = ("".join(framed) + "data: [DONE]\n\n").encode()

    def each_response(self, change: Callable[[Json], None]) -> None:
        """Changes every response object in it."""
        if self.is_stream:
            events = self.events
            for event in events:
                if "response" in event:
                    change(event["response"])
            self.events = events
        elif isinstance(self.body, dict) and self.body.get("object") == "response":
            body = self.body
            change(body)
            self.body = body


Before = Callable[[Asked], Answer | None]
After = Callable[[Asked, Answer], Answer | None]
OnMessage = Callable[[Asked], list[Json] | None]
OnEvent = Callable[[Json, Json], list[Any] | None]


@dataclass(frozen=True)
class Fault:
    """What breaks the rule; `also` are all other rules that it breaks.

    `before` and `after` see HTTP, `message` what a client sends on a socket (what it returns is the answer),
    `event` each message that the gateway sends there, with the request that it answers.
    """

    before: Before | None = None
    after: After | None = None
    message: OnMessage | None = None
    event: OnEvent | None = None
    doors: str | None = None
    """A key that every socket is given."""
    also: frozenset[str] = frozenset()


class Broken(App):
    """The gateway with a fault, which can be exchanged while it runs."""

    fault: Fault = Fault()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _http(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        fault = self.fault
        asked = Asked(scope["method"], scope["path"], _named(scope["headers"]), await _read(receive))
        answer = fault.before(asked) if fault.before else None
        if answer is None:
            answer = await self._through(scope, asked)
            if fault.after is not None:
                answer = fault.after(asked, answer) or answer
        headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.raw})

    async def _through(self, scope: AsgiScope, asked: Asked) -> Answer:
        """What the gateway itself says."""
        given = [{"type": "http.request", "body": asked.raw, "more_body": False}]
        answer = Answer(0, b"", {})

        async def receive() -> AsgiMessage:
            if given:
                return given.pop()
            await _forever()
            return {"type": "http.disconnect"}

        async def send(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = _named(message["headers"])
                answer.headers.pop("content-length", None)
            else:
                answer.raw += message.get("body", b"")

        asked.headers.pop("content-length", None)
        headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in asked.headers.items()]
        await super().__call__({**scope, "headers": headers}, receive, send)
        return answer

    async def _socket(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        fault = self.fault
        last: list[Json] = [{}]
        if fault.doors is not None:
            kept = [(k, v) for k, v in scope["headers"] if k != b"authorization"]
            scope["headers"] = [*kept, (b"authorization", f"Bearer {fault.doors}".encode())]

        async def hear() -> AsgiMessage:
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                said = message.get("bytes") or (message.get("text") or "").encode()
                asked = Asked("WEBSOCKET", scope["path"], {}, said, "socket")
                answers = fault.message(asked) if fault.message else None
                if answers is None:
                    last[0] = asked.body if isinstance(asked.body, dict) else {}
                    return {"type": "websocket.receive", "text": asked.raw.decode()}
                for answer in answers:
                    await send({"type": "websocket.send", "text": json.dumps(answer)})

        async def say(message: AsgiMessage) -> None:
            if message["type"] == "websocket.send" and fault.event is not None:
                event = json.loads(message["text"])
                told = fault.event(deepcopy(last[0]), event)
                for each in [event] if told is None else told:
                    text = each if isinstance(each, str) else json.dumps(each)
                    await send({"type": "websocket.send", "text": text})
                return
            await send(message)

        # Without the extension of our own server, which sends without `say`.
        await super().__call__({**scope, "extensions": {}}, hear, say)


async def _read(receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


def _named(headers: Any) -> dict[str, str]:
    return {str(k, "latin-1").lower(): str(v, "latin-1") for k, v in headers}


def _forever() -> Awaitable[None]:
    return asyncio.get_running_loop().create_future()
