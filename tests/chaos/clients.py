"""Clients of the chaos program: they ask for responses, follow them, and come back after every failure."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import httpx

from antiphon.stream.sse import Decoder
from tests.chaos.checker import TERMINAL
from tests.chaos.evidence import Event, Followed
from tests.chaos.plan import ChaosRequest

_PAUSE = (0.1, 0.5)
_AGAIN = frozenset({409, 429, 503})
"""Answers after which a client tries again. A 409 says that the same request is under way elsewhere."""


class Refused(Exception):
    """An answer that no failure of a machine explains."""

    def __init__(self, url: str, request_id: str, message: str) -> None:
        """`url` is the gateway's, and `request_id` is how its log names the request."""
        super().__init__(message)
        self.url = url
        self.request_id = request_id


class FollowingClient:
    """One client of several gateways, each as good as the other."""

    def __init__(self, http: httpx.AsyncClient, urls: Sequence[str], seed: str) -> None:
        self._http = http
        self._urls = urls
        self._chance = Random(seed)

    async def ask(self, request: ChaosRequest, seen: Followed, is_known: asyncio.Event) -> None:
        """Have a response made, and follow it to its end; `is_known` is set when its id is in `seen`."""
        headers = {"Idempotency-Key": request.name}
        while not seen.events:
            await self._listen("POST", "", seen, request.cuts, json=request.body, headers=headers)
        seen.response = seen.events[0]["response"]["id"]
        is_known.set()
        await self.follow(seen, request.cuts)

    async def follow(self, seen: Followed, cuts: float) -> None:
        """Follow a response to its end, from the first event that was not seen."""
        while not (seen.events and seen.events[-1]["type"] in TERMINAL):
            last = seen.events[-1]["sequence_number"] if seen.events else -1
            query = {"stream": "true"} | ({"starting_after": str(last)} if seen.events else {})
            await self._listen("GET", f"/{seen.response}", seen, cuts, params=query)

    async def _listen(self, method: str, path: str, seen: Followed, cuts: float, **options: Any) -> None:
        """Take events until the connection ends, for whatever reason."""
        seen.connections += 1
        gateway = self._chance.choice(self._urls)
        url = f"{gateway}/v1/responses{path}"
        with suppress(httpx.TransportError):
            async with self._http.stream(method, url, **options) as answer:
                if answer.status_code == 200:
                    async for event in _events(answer):
                        seen.events.append(event)
                        if event["type"] in TERMINAL or self._chance.random() < cuts:
                            return
                elif answer.status_code not in _AGAIN:
                    body = (await answer.aread()).decode(errors="replace")
                    request_id = answer.headers.get("x-request-id", "")
                    raise Refused(gateway, request_id, f"{method} {url}: {answer.status_code} {body}")
        await asyncio.sleep(self._chance.uniform(*_PAUSE))


async def _events(answer: httpx.Response) -> AsyncIterator[Event]:
    decoder = Decoder()
    async for piece in answer.aiter_raw():
        for event in decoder.feed(piece):
            if not event.is_done:
                yield json.loads(event.data)
