"""Everything that is measured, up at once: the upstream, and before it nginx, ours and a simple gateway."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import nginx
from bench.load import Request
from bench.processes import Program, allow_many_files, free_port

KEY = "bench"
NGINX, OURS, STRAIGHT = "nginx", "antiphon", "straightforward"
DEFAULT_CACHE = "64 MiB"
PROMPT = "Say in two sentences what an antiphon is, and when it is sung."

_CONFIG = """\
default_model = "fake/each-400"
[server]
log_level = "warning"
[keys.bench]
key_sha256 = "{key}"
[store]
path = "{folder}"
cache_bytes = "{cache}"
[local]
enabled = false
[providers.fake]
type = "chat"
base_url = "http://127.0.0.1:{upstream}/v1"
"""


@dataclass(frozen=True, slots=True)
class Contender:
    program: Program
    speaks_responses: bool

    @property
    def name(self) -> str:
        return self.program.name

    def request(self, model: str, *, stream: bool) -> Request:
        """The same question, as chat or as Open Responses."""
        body: dict[str, Any]
        if self.speaks_responses:
            name = f"fake/{model}" if self.name == OURS else model
            body = {"model": name, "input": PROMPT, "stream": stream}
            return Request(self.program.port, "/v1/responses", body, KEY)
        body = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "stream": stream}
        return Request(self.program.port, "/v1/chat/completions", body, KEY)


@contextmanager
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def upstream(where: Path) -> Iterator[Program]:
    allow_many_files()
    port = free_port()
    command = [sys.executable, "-m", "bench.upstream", str(port)]
    with Program("upstream", command, port, log=where / "upstream.log") as program:
        program.wait_until_up()
        yield program


def write_config(where: Path, upstream: int, cache: str = DEFAULT_CACHE) -> Path:
    where.mkdir(exist_ok=True)
    config = where / "antiphon.toml"
    key = hashlib.sha256(KEY.encode()).hexdigest()
    config.write_text(_CONFIG.format(key=key, folder=where / "data", upstream=upstream, cache=cache))
    return config


def start_ours(where: Path, upstream: int, cache: str = DEFAULT_CACHE) -> Program:
    """As a user starts it: one worker, a key, and every response stored."""
    config = write_config(where, upstream, cache)
    port = free_port()
    command = [sys.executable, "-m", "antiphon", "serve", "--config", str(config), "--port", str(port)]
    return Program(OURS, command, port, log=where / "output.log")


def start_straightforward(where: Path, upstream: int) -> Program:
    where.mkdir()
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.straightforward:app", "--port", str(port)]
    env = {"UPSTREAM": f"http://127.0.0.1:{upstream}/v1"}
    return Program(STRAIGHT, [*command, "--no-access-log"], port, log=where / "output.log", env=env)


@contextmanager
def all_up(*, install: bool) -> Iterator[list[Contender]]:
    """nginx first, if there is one; then ours; then the straightforward gateway."""
    program = nginx.find(install=install)
    with folder() as where, upstream(where) as behind, ExitStack() as stack:
        contenders: list[Contender] = []
        if program is None:
            print("bench: there is no nginx here, so its column stays empty")
        else:
            proxy = stack.enter_context(
                nginx.start(program, where / "nginx", free_port(), upstream=behind.port)
            )
            proxy.wait_until_up()
            contenders.append(Contender(proxy, speaks_responses=False))
        ours = stack.enter_context(start_ours(where / "antiphon", behind.port))
        straight = stack.enter_context(start_straightforward(where / "straightforward", behind.port))
        for gateway in (ours, straight):
            gateway.wait_until_up("/healthz")
            contenders.append(Contender(gateway, speaks_responses=True))
        yield contenders
