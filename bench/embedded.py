"""Tokens a second of the embedded model behind our gateway, beside the bindings alone, in turns.

Both have loaded the same model with the same settings. The rate is that of a stream from its first token to
its last. It is wall time, which other programs disturb; the CPU time of a token, which they disturb less, is
that of the whole tree: the gateway with its child, or the process with the bindings.
"""

import hashlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from antiphon.config import Local
from antiphon.embedded.child import Settings
from antiphon.embedded.process import available
from bench.contenders import KEY, PROMPT, folder
from bench.figures import Recorder
from bench.measure import SETTLE
from bench.options import Options
from bench.processes import Program, free_port, tree_cpu

TOKENS = 96
SLOTS, CONTEXT = 1, 1024
GATEWAY, BINDINGS = "behind the gateway", "bindings alone"
_CONFIG = """\
[server]
log_level = "warning"
[keys.bench]
key_sha256 = "{key}"
[store]
path = "{folder}"
[local]
slots = {slots}
context = {context}
"""


@dataclass(frozen=True, slots=True)
class Contestant:
    """Streams an answer and says how many tokens came in how many seconds; and its CPU seconds so far."""

    stream: Callable[[], tuple[float, float]]
    cpu: Callable[[], float]


def run(record: Recorder, options: Options) -> None:
    if reason := available():
        print(reason)
        return
    with folder() as where, _gateway(where) as gateway, Bindings() as bindings:
        gateway.wait_until_up("/healthz")
        contestants = {
            GATEWAY: Contestant(lambda: _stream(gateway.port), gateway.cpu),
            BINDINGS: Contestant(bindings.stream, bindings.cpu),
        }
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        cpu: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(options.rounds + 1):
            for name, one in contestants.items():
                before = one.cpu()
                tokens, seconds = one.stream()
                time.sleep(SETTLE)
                if turn:  # the first one loads the model and reads the prompt
                    rates[name].append((tokens - 1) / seconds)
                    cpu[name].append((one.cpu() - before) / tokens)
    print(f"streams of {TOKENS} tokens, medians of {options.rounds} interleaved rounds")
    for name in contestants:
        rate = record.add(f"tokens a second, {name}", rates[name], "tokens/s", "higher")
        spent = record.add(f"CPU a token, {name}", [value * 1000 for value in cpu[name]], "ms")
        print(f"{name:<28}{rate!s:>24} tokens/s{spent!s:>24} CPU ms a token")
    rate = record.ratio("tokens a second, gateway / bindings", rates[GATEWAY], rates[BINDINGS], "higher")
    spent = record.ratio("CPU a token, gateway / bindings", cpu[GATEWAY], cpu[BINDINGS])
    print(f"{'gateway / bindings':<28}{rate!s:>24}{'':9}{spent!s:>24}")


def _gateway(where: Path) -> Program:
    config = where / "antiphon.toml"
    key = hashlib.sha256(KEY.encode()).hexdigest()
    config.write_text(_CONFIG.format(key=key, folder=where / "data", slots=SLOTS, context=CONTEXT))
    port = free_port()
    command = [sys.executable, "-m", "antiphon", "serve", "--config", str(config), "--port", str(port)]
    return Program("antiphon", command, port, log=where / "output.log")


def _stream(port: int) -> tuple[float, float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = {"input": PROMPT, "stream": True, "max_output_tokens": TOKENS, "temperature": 0}
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    connection.request("POST", "/v1/responses", json.dumps(body), headers)
    answer = connection.getresponse()
    moments: list[float] = []
    while line := answer.readline():
        if line == b"event: response.output_text.delta\n":
            moments.append(time.perf_counter())
    connection.close()
    if len(moments) < 2:
        raise SystemExit(f"bench: the embedded model said nothing, status {answer.status}")
    return len(moments), moments[-1] - moments[0]


class Bindings:
    """The process with the bindings, from its start to its end."""

    def __enter__(self) -> "Bindings":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.bindings"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._tell(asdict(Settings(Local().model, "model", "none", SLOTS, CONTEXT, 0)))
        if self._hear() != "ready\n":
            raise SystemExit("bench: the bindings did not start")
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.communicate()

    def cpu(self) -> float:
        return tree_cpu(self._process.pid)

    def stream(self) -> tuple[float, float]:
        message = {"role": "user", "content": PROMPT}
        self._tell({"messages": [message], "stream": True, "max_tokens": TOKENS, "temperature": 0})
        answer = json.loads(self._hear())
        return answer["tokens"], answer["seconds"]

    def _tell(self, value: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()
