"""Clients that follow a response in the background: one while its worker is killed, and many at once.

The model is a script. After a takeover it says something that it has not said before, so its first words are
not held back as a possible repetition.
"""

import asyncio
import json
import re
import time
from typing import cast

import httpx

from antiphon.store.postgres.job_worker import STALLED_AFTER
from antiphon.stream.sse import Decoder
from bench.processes import tree_cpu
from examples.cluster.cluster import Cluster, ClusterGateway

_NUMBER = re.compile(rb'"sequence_number":(\d+)[,}]')
_LONGEST = 40
"""More bytes than a number with its name has."""
_PATIENCE = 60.0
_HEARD = 20
"""So many deltas come before a worker is killed."""
_SETTLED = STALLED_AFTER + 0.5
"""Seconds that all gateways are up by then: one that has just connected takes nobody for dead before that."""
_DELTA = "response.output_text.delta"


def _asked(pause: float) -> dict[str, object]:
    """A request for an answer that takes a few minutes, unless it is cut."""
    pieces = int(300 / pause)
    turns = [
        {"when": {"turn": 1}, "steps": [{"text": "One more. ", "delay": pause, "times": pieces}]},
        {"steps": [{"text": "Another gateway goes on. "}]},
    ]
    return {"input": f"```script\n{json.dumps({'turns': turns})}\n```", "background": True}


def takeovers(count: int) -> list[float]:
    """Seconds from `kill -9` of the worker to the next delta, at a client of another gateway."""
    with Cluster(gateways=2, has_proxy=False) as cluster:
        return [_takeover(cluster) for _ in range(count)]


def _takeover(cluster: Cluster) -> float:
    cluster.restart_dead()
    time.sleep(_SETTLED)
    with httpx.Client(trust_env=False, timeout=_PATIENCE) as http:
        asked = http.post(f"{cluster.gateways[0].url}/v1/responses", json=_asked(0.02))
        id = asked.raise_for_status().json()["id"]
        worker = _worker(cluster, id)
        (other,) = [one for one in cluster.gateways if one is not worker]
        decoder, heard, killed = Decoder(), 0, 0.0
        with http.stream("GET", f"{other.url}/v1/responses/{id}?stream=true") as answer:
            for piece in answer.iter_raw():
                deltas = sum(event.event == _DELTA for event in decoder.feed(piece))
                if deltas and killed:
                    return time.perf_counter() - killed
                heard += deltas
                if heard >= _HEARD and not killed:
                    worker.process.kill()
                    killed = time.perf_counter()
    raise SystemExit("bench: nobody went on with a response whose worker was killed")


def _worker(cluster: Cluster, response: str) -> ClusterGateway:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if (found := cluster.worker_of(response)) is not None:
            return found
        time.sleep(0.01)
    raise SystemExit("bench: nobody works on a response in the background")


class _Follower(asyncio.Protocol):
    """When each event of a response came to one client."""

    def __init__(self, path: str) -> None:
        self.times: dict[int, float] = {}
        self._path = path
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(f"GET {self._path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        text = self._rest + data
        for number in _NUMBER.findall(text):
            self.times.setdefault(int(number), now)
        self._rest = text[-_LONGEST:]

    @property
    def last(self) -> int:
        return max(self.times, default=-1)


async def followed(count: int, events: int) -> tuple[list[float], float]:
    """So many clients follow one response at two gateways, for so many events.

    The seconds by which each client had each event later than the first client; and CPU seconds of both
    gateways for one event of one client.
    """
    with Cluster(gateways=2, has_proxy=False) as cluster:
        urls = [httpx.URL(one.url) for one in cluster.gateways]
        async with httpx.AsyncClient(trust_env=False, timeout=_PATIENCE) as http:
            asked = await http.post(f"{urls[0]}/v1/responses", json=_asked(0.1))
            path = f"/v1/responses/{asked.raise_for_status().json()['id']}?stream=true"
        followers = [await _connect(path, urls[n % len(urls)]) for n in range(count)]
        try:
            await _until_all_have(followers, max(one.last for one in followers) + 1)
            first, before = max(one.last for one in followers) + 1, _spent(cluster)
            await _until_all_have(followers, first + events)
            spent = _spent(cluster) - before
        finally:
            for one in followers:
                one.transport.close()
    behind = []
    for number in range(first, first + events):
        times = [one.times[number] for one in followers]
        behind += [at - min(times) for at in times]
    return behind, spent / (events * count)


async def _connect(path: str, url: httpx.URL) -> _Follower:
    loop = asyncio.get_running_loop()
    _, follower = await loop.create_connection(lambda: _Follower(path), url.host, url.port or 80)
    return follower


async def _until_all_have(followers: list[_Follower], number: int) -> None:
    deadline = time.monotonic() + _PATIENCE + number
    while any(one.last < number for one in followers):
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: event {number} did not come to all followers")
        await asyncio.sleep(0.05)


def _spent(cluster: Cluster) -> float:
    return sum(tree_cpu(one.process.pid) for one in cluster.gateways)
