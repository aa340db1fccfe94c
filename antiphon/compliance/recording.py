"""`--record`: every exchange of a run as a file, streams also as they came."""

from pathlib import Path

import msgspec

from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.reports.machine import exchange_to_builtins


class Recorder:
    """Writes `RULE-N.json`, and beside it `RULE-N.sse` or `RULE-N.jsonl`, which `--capture` reads."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count: dict[str, int] = {}

    def keep(self, rule: str, exchange: RecordedExchange) -> None:
        self._count[rule] = number = self._count.get(rule, 0) + 1
        path = self._folder / f"{rule}-{number}"
        document = msgspec.json.encode(exchange_to_builtins(exchange))
        path.with_name(f"{path.name}.json").write_bytes(msgspec.json.format(document, indent=1))
        if exchange.transport == "websocket":
            lines = "".join(f"{arrival.data}\n" for arrival in exchange.arrivals)
            path.with_name(f"{path.name}.jsonl").write_text(lines, encoding="utf-8")
        elif exchange.is_stream:
            path.with_name(f"{path.name}.sse").write_bytes(exchange.body)
