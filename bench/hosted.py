"""What hosted tools cost: CPU time of a response without them, with one not called, and with one call.

The gateway runs in this process, without the HTTP server in front of it, and the model is a script; so what
is measured is the engine alone. The works are done in turns, and the ratios are paired.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from antiphon.client.tools import tool
from antiphon.config import load as load_config
from antiphon.engine.request_context import RequestContext
from antiphon.providers.registry import TYPES
from antiphon.server.gateway import Gateway
from antiphon.spec.decode import decode_request
from antiphon.tools.registry import TOOLS
from bench import load
from bench.contenders import folder
from bench.figures import Recorder
from bench.options import Options

ROUNDS = 30
PER_ROUND = 20
_CONFIG = """
default_model = "s/m"
[local]
enabled = false
[providers.s]
type = "script"
from_requests = true
[tools.function]
load = ["bench.hosted:add"]
"""
_ARGUMENTS = '{"a":1,"b":2}'


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


_UNCALLED, _CALLED = "a hosted function, not called", "a hosted function, called once"
_DIRECT = "the same function, called directly"
Work = Callable[[], Awaitable[object]]


def run(record: Recorder, options: Options) -> None:
    with folder() as where:
        file = where / "antiphon.toml"
        file.write_text(f'{_CONFIG}[store]\npath = "{where / "data"}"\n', encoding="utf-8")
        found = load.run(_measured(file))
    alone = found["no tools"]
    print(f"CPU µs a response, medians of {ROUNDS} rounds")
    for name, costs in found.items():
        figure = record.add(name, costs, "µs")
        of_alone = "" if costs is alone else str(record.ratio(f"{name} / no tools", costs, alone))
        print(f"{name:<34}{figure.median:>10.0f}{of_alone:>24}")
    pairs = zip(found[_CALLED], found[_UNCALLED], strict=True)
    ratio = record.ratio(
        "one hosted call, with the model turn that it leads to / called directly",
        [called - uncalled for called, uncalled in pairs],
        found[_DIRECT],
    )
    print(f"{'one hosted call of one made directly':<44}{ratio!s:>24}")


async def _measured(config: Path) -> dict[str, list[float]]:
    gateway = await Gateway.open(load_config(config, types=TYPES, tools=TOOLS), background=False)
    function = {"type": "function", "name": "mine", "parameters": {"type": "object", "properties": {}}}
    hosted = {"type": "antiphon:function", "name": "add"}
    say, call = [{"text": "It is three."}], [{"call": "add", "arguments": _ARGUMENTS}]
    works: dict[str, Work] = {
        "no tools": _response(gateway, [say]),
        "a function of the client": _response(gateway, [say], function),
        _UNCALLED: _response(gateway, [say], hosted),
        _CALLED: _response(gateway, [call, say], hosted),
        _DIRECT: lambda: add.call(_ARGUMENTS),
    }
    costs: dict[str, list[float]] = {name: [] for name in works}
    try:
        for _ in range(ROUNDS):
            for name, work in works.items():
                began = time.process_time()
                for _ in range(PER_ROUND):
                    await work()
                costs[name].append((time.process_time() - began) / PER_ROUND * 1e6)
                await asyncio.sleep(0)
    finally:
        await gateway.close()
    return costs


def _response(gateway: Gateway, turns: list[object], *tools: object) -> Work:
    scenes = [{"when": {"turn": n}, "steps": steps} for n, steps in enumerate(turns, 1)]
    script = f"```script\n{json.dumps({'turns': scenes})}\n```"
    body = json.dumps({"input": script, "tools": tools, "store": False}).encode()

    async def work() -> None:
        run = await gateway.engine.start(
            decode_request(body), gateway.engine.new_run(RequestContext(tenant="bench"))
        )
        response = await run.result()
        assert response.status == "completed"

    return work
