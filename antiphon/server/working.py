"""A process without a port: it works on the background responses of gateways that share its store."""

import asyncio
import signal
import sys

from antiphon.config import Config
from antiphon.server import logs
from antiphon.server.gateway import Gateway
from antiphon.server.process import FAILED, raise_file_limit
from antiphon.store import StoreError


def work(config: Config) -> int:
    """Work until a signal comes, and return the exit code."""
    logs.configure(config)
    raise_file_limit()
    try:
        asyncio.run(_work(config))
    except StoreError as error:
        print(f"antiphon: {error}", file=sys.stderr)
        return FAILED
    return 0


async def _work(config: Config) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    gateway = await Gateway.open(config)
    try:
        print(f"Antiphon works on background responses, {config.background.work} at once", flush=True)
        await stop.wait()
    finally:
        await gateway.close()
