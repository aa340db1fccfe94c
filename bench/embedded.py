"""Tokens a second of the embedded model behind our gateway, beside the bindings alone, in turns.

Both have loaded the same model with the same settings, are asked the same with the same sampling, and must
say the same words. The rate is that of a stream from its first token to its last. It is wall time, which
other programs disturb, so there are many short streams, in changing order; and whoever reads the gateway's
answer has the same cores, so it does little. The CPU time of a token, which is disturbed less, is that of
the whole tree: the gateway with its child, or the process with the bindings.
"""

import hashlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from antiphon.config import LocalSettings
from antiphon.embedded.child import ChildSettings
from antiphon.embedded.defaults import defaults_of
from antiphon.embedded.process import why_unavailable
from bench.bindings import Said
from bench.contenders import KEY, folder
from bench.figures import Recorder
from bench.measure import SETTLE
from bench.options import Options
from bench.processes import Program, free_port, tree_cpu

MB = 1024 * 1024
TOKENS = 48
STREAMS = 6
"""Streams of each in a round."""
PROMPT = "Write a long story about a lighthouse keeper, his dog and the sea."
"""The model would go on for longer than it may."""
SAMPLING = {"temperature": 0, "top_p": 0.9}
SLOTS, CONTEXT = 1, 1024
GATEWAY, BINDINGS = "behind the gateway", "bindings alone"
_DELTA = b'data: {"type":"response.output_text.delta"'
_CONFIG = """\
[log]
level = "warning"
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
    """Streams an answer; and its CPU seconds so far."""

    stream: Callable[[], Said]
    cpu: Callable[[], float]


def run(record: Recorder, options: Options) -> None:
    if reason := why_unavailable():
        print(reason)
        return
    measure_memory(record)
    with (
        folder() as where,
        start_gateway(where, slots=SLOTS, context=CONTEXT) as gateway,
        Bindings() as bindings,
    ):
        gateway.wait_until_up("/healthz")
        contestants = {
            GATEWAY: Contestant(lambda: _stream(gateway.port), gateway.cpu),
            BINDINGS: Contestant(bindings.stream, bindings.cpu),
        }
        # The first time loads the model and reads the prompt.
        first, other = (one.stream().words for one in contestants.values())
        if first != other or len(first) < TOKENS:
            raise SystemExit(f"bench: the embedded model said\n{first}\nand\n{other}")
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        cpu: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(STREAMS * options.rounds):
            for name, one in list(contestants.items())[:: -1 if turn % 2 else 1]:
                before = one.cpu()
                said = one.stream()
                time.sleep(SETTLE)
                rates[name].append(said.later / said.seconds)
                cpu[name].append((one.cpu() - before) / len(said.words))
    print(f"streams of {TOKENS} tokens, medians of {STREAMS * options.rounds} interleaved rounds")
    for name in contestants:
        rate = record.add(f"tokens a second, {name}", rates[name], "tokens/s", "higher")
        spent = record.add(f"CPU a token, {name}", [value * 1000 for value in cpu[name]], "ms")
        print(f"{name:<28}{rate!s:>24} tokens/s{spent!s:>24} CPU ms a token")
    rate = record.ratio("tokens a second, gateway / bindings", rates[GATEWAY], rates[BINDINGS], "higher")
    spent = record.ratio("CPU a token, gateway / bindings", cpu[GATEWAY], cpu[BINDINGS])
    print(f"{'gateway / bindings':<28}{rate!s:>24}{'':9}{spent!s:>24}")


def measure_memory(record: Recorder) -> None:
    """The process of the model after one question, with the slots and the context that are the default."""
    with folder() as where, start_gateway(where) as gateway:
        gateway.wait_until_up("/healthz")
        without = gateway.resident()
        _stream(gateway.port)
        resident = record.add("resident after one question", [(gateway.resident() - without) / MB], "MB")
    print(f"the model's process after one question: {resident.median:.0f} MB")


def start_gateway(
    where: Path, *, slots: int = LocalSettings().slots, context: int = LocalSettings().context
) -> Program:
    """Ours, with nothing but the embedded model."""
    config = where / "antiphon.toml"
    key = hashlib.sha256(KEY.encode()).hexdigest()
    config.write_text(_CONFIG.format(key=key, folder=where / "data", slots=slots, context=context))
    port = free_port()
    command = [sys.executable, "-m", "antiphon", "serve", "--config", str(config), "--port", str(port)]
    return Program("antiphon", command, port, log=where / "output.log")


def _stream(port: int) -> Said:
    """Reads whatever comes and takes the time; what it was is looked at when all is here."""
    body = json.dumps({"input": PROMPT, "stream": True, "max_output_tokens": TOKENS, **SAMPLING})
    head = (
        f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    pieces: list[bytes] = []
    moments: list[float] = []
    at_first = 0
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall((head + body).encode())
        while piece := connection.recv(65536):
            pieces.append(piece)
            if _DELTA in piece:
                moments.append(time.perf_counter())
                at_first = at_first or piece.count(_DELTA)
    lines = b"".join(pieces).split(b"\n")
    words = [json.loads(line[6:])["delta"] for line in lines if line.startswith(_DELTA)]
    if len(words) < 2:
        raise SystemExit(f"bench: the embedded model said nothing: {lines[0]!r}")
    return Said(words, len(words) - at_first, moments[-1] - moments[0])


class Bindings:
    """The process with the bindings, from its start to its end."""

    def __enter__(self) -> "Bindings":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.bindings"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # As our child is: the kernel shares the processors among sessions before it does among processes.
            start_new_session=True,
        )
        self._tell(asdict(ChildSettings(LocalSettings().model, "model", "none", SLOTS, CONTEXT, 0)))
        if self._hear() != "ready\n":
            raise SystemExit("bench: the bindings did not start")
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.communicate()

    def cpu(self) -> float:
        return tree_cpu(self._process.pid)

    def stream(self) -> Said:
        defaults = defaults_of(LocalSettings().model)
        messages = defaults.add_opening([{"role": "user", "content": PROMPT}])
        asked = {"messages": messages, "stream": True, "max_tokens": TOKENS, **SAMPLING}
        self._tell(asked | defaults.more)
        return Said(**json.loads(self._hear()))

    def _tell(self, value: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()
