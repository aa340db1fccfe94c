"""CPU time of the upstream client alone, for a plain request and a delta; beside it aiohttp, if it is here.

Both ask the same upstream, on one connection after the other and many at once, in interleaved rounds.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec

from antiphon.config import UpstreamTimeouts
from antiphon.providers.http import UpstreamClient
from bench import load
from bench.contenders import PROMPT, folder, upstream
from bench.figures import Recorder
from bench.measure import micro
from bench.options import Options

PLAIN_TOKENS = 64
CONNECTIONS = 16
PLAIN = 1500
STREAMS = 50
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "text/event-stream, application/json",
    "Authorization": "Bearer bench",
}
LIMITS = UpstreamTimeouts()

Ask = Callable[[bytes], Awaitable[int]]
"""Send a body, read the whole answer, and say how long it was."""


def run(record: Recorder, options: Options) -> None:
    with folder() as where, upstream(where) as behind:
        url = f"http://127.0.0.1:{behind.port}/v1/chat/completions"
        load.run(_compare(record, url, options.rounds, options.tokens))


async def _compare(record: Recorder, url: str, rounds: int, tokens: int) -> None:
    ours = UpstreamClient()
    asks: dict[str, Ask] = {"antiphon": _ours(ours, url)}
    closing: list[Callable[[], Awaitable[None]]] = [ours.close]
    if find_spec("aiohttp") is None:
        print("aiohttp is not installed, so its column stays empty")
    else:
        asks["aiohttp"], close = _aiohttp(url)
        closing.append(close)
    works = {
        "plain request": (f"each-{PLAIN_TOKENS}", False, PLAIN, 1),
        "delta, one write a token": (f"each-{tokens}", True, STREAMS, tokens),
        "delta, many in one write": (f"burst-{tokens}", True, STREAMS, tokens),
    }
    print(f"CPU time of the client, µs, median of {rounds} interleaved rounds; {CONNECTIONS} at once")
    print(f"{'':<28}" + "".join(f"{name:>12}" for name in asks) + f"{'ratio':>24}")
    for work, (model, stream, count, units) in works.items():
        body = json.dumps(
            {"model": model, "messages": [{"role": "user", "content": PROMPT}], "stream": stream}
        ).encode()
        spent: dict[str, list[float]] = {name: [] for name in asks}
        for turn in range(rounds + 1):
            for name, ask in asks.items():
                each = await _measure(ask, body, count) / units
                if turn:  # the first one is for warming up
                    spent[name].append(each)
        figures = [record.add(f"{work}, {name}", micro(values), "µs") for name, values in spent.items()]
        line = f"{work:<28}" + "".join(f"{figure.median:>12.1f}" for figure in figures)
        if "aiohttp" in spent:
            name = f"{work}, aiohttp / ours"
            line += f"{record.ratio(name, spent['aiohttp'], spent['antiphon'], 'higher')!s:>24}"
        print(line, flush=True)
    for close in closing:
        await close()


def _ours(http: UpstreamClient, url: str) -> Ask:
    async def ask(body: bytes) -> int:
        async with http.post(url, body, HEADERS, LIMITS, provider="bench") as response:
            size = 0
            async for data in response:
                size += len(data)
            return size

    return ask


def _aiohttp(url: str) -> tuple[Ask, Callable[[], Awaitable[None]]]:
    aiohttp = import_module("aiohttp")
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None, sock_read=120)
    )

    async def ask(body: bytes) -> int:
        async with session.post(url, data=body, headers=HEADERS) as response:
            size = 0
            async for data in response.content.iter_any():
                size += len(data)
            return size

    return ask, session.close


async def _measure(ask: Ask, body: bytes, count: int) -> float:
    """CPU seconds of this process for one exchange."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            if not await ask(body):
                raise SystemExit("bench: an answer was empty")

    before = time.process_time()
    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return (time.process_time() - before) / count
