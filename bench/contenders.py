"""Everything that is measured, up at once: the upstream, and before it nginx, ours and a simple gateway."""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from bench import litellm, nginx
from bench.fronts import Front
from bench.options import Options
from bench.outcome import Request
from bench.processes import Program, allow_many_files, free_port

KEY = "sk-bench"
NGINX, OURS, STRAIGHT, LITELLM = "nginx", "antiphon", "straightforward", "litellm"
UNSTORED, SOCKET, DIRECT = "antiphon, store off", "antiphon, WebSocket", "no gateway"
LITELLM_CHAT = "litellm, its chat route"
DEFAULT_CACHE = "64 MiB"
PROMPT = "Say in two sentences what an antiphon is, and when it is sung."

_CONFIG = """\
default_model = "fake/each-400"
[log]
level = "warning"
[server]
receipts = true
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
_PROVIDER = """\
[providers.{name}]
type = "{name}"
base_url = "http://127.0.0.1:{upstream}/{name}/v1"
api_key = "{key}"
"""


@dataclass(frozen=True, slots=True)
class Contender:
    """A program, and one way to ask it."""

    name: str
    program: Program
    speaks: Literal["chat", "responses"] = "responses"
    prefix: str = ""
    """What stands before the name of a model."""
    store: bool = True
    socket: bool = False
    front: Front | None = None
    """Asked by a front end, over its bridge."""

    def request(self, model: str, *, stream: bool, text: str = PROMPT) -> Request:
        """The same question, as chat, as Open Responses, or as a front end asks it."""
        if self.front is not None:
            asked = self.front.ask(self.prefix + model, text)
            if not stream:
                asked["stream"] = False
            return Request(self.program.port, self.front.path, asked, KEY)
        body: dict[str, Any] = {"model": self.prefix + model, "stream": stream}
        if self.speaks == "chat":
            body["messages"] = [{"role": "user", "content": text}]
            return Request(self.program.port, "/v1/chat/completions", body, KEY, varies=True)
        body["input"] = text
        if not self.store:
            body["store"] = False
        path = "/v1/responses"
        return Request(self.program.port, path, body, KEY, socket=self.socket, varies=not self.socket)


def ours(program: Program) -> Contender:
    return Contender(OURS, program, prefix="fake/")


def unstored(program: Program) -> Contender:
    return Contender(UNSTORED, program, prefix="fake/", store=False)


def over_socket(program: Program) -> Contender:
    return Contender(SOCKET, program, prefix="fake/", socket=True)


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


def write_config(
    where: Path, upstream: int, cache: str = DEFAULT_CACHE, providers: Iterable[str] = (), more: str = ""
) -> Path:
    """`providers` are types of further ones, each of that name, behind the same upstream; `more` is TOML."""
    where.mkdir(exist_ok=True)
    config = where / "antiphon.toml"
    key = hashlib.sha256(KEY.encode()).hexdigest()
    text = _CONFIG.format(key=key, folder=where / "data", upstream=upstream, cache=cache)
    behind = (_PROVIDER.format(name=name, upstream=upstream, key=KEY) for name in providers)
    config.write_text("".join((text, *behind, more)))
    return config


def start_ours(
    where: Path,
    upstream: int,
    cache: str = DEFAULT_CACHE,
    workers: int = 1,
    providers: Iterable[str] = (),
    more: str = "",
    env: Mapping[str, str] | None = None,
) -> Program:
    """As a user starts it: a key, receipts, and every response stored."""
    config = write_config(where, upstream, cache, providers, more)
    port = free_port()
    command = [sys.executable, "-m", "antiphon", "serve", "--config", str(config), "--port", str(port)]
    log = where / "output.log"
    return Program(OURS, [*command, "--workers", str(workers)], port, log=log, env=env)


def start_straightforward(where: Path, upstream: int) -> Program:
    where.mkdir()
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.straightforward:app", "--port", str(port)]
    env = {"UPSTREAM": f"http://127.0.0.1:{upstream}/v1"}
    return Program(STRAIGHT, [*command, "--no-access-log"], port, log=where / "output.log", env=env)


@contextmanager
def proxied(options: Options, *others: str) -> Iterator[dict[str, Contender]]:
    """nginx, if there is one, and ours; also the other gateways and ways of asking that are named."""
    found = nginx.find(install=options.install)
    with folder() as where, upstream(where) as behind, ExitStack() as stack:
        made: dict[str, Contender] = {}
        if DIRECT in others:
            made[DIRECT] = Contender(DIRECT, behind, speaks="chat")
        if found is None:
            print("bench: there is no nginx here, so its column stays empty")
        else:
            proxy = stack.enter_context(nginx.start(found, where / "nginx", free_port(), behind.port))
            proxy.wait_until_up()
            made[NGINX] = Contender(NGINX, proxy, speaks="chat")
        gateway = stack.enter_context(start_ours(where / "antiphon", behind.port))
        gateway.wait_until_up("/healthz")
        made[OURS] = ours(gateway)
        if UNSTORED in others:
            made[UNSTORED] = unstored(gateway)
        if SOCKET in others:
            made[SOCKET] = over_socket(gateway)
        if STRAIGHT in others:
            straight = stack.enter_context(start_straightforward(where / "straightforward", behind.port))
            straight.wait_until_up("/healthz")
            made[STRAIGHT] = Contender(STRAIGHT, straight)
        if LITELLM in others:
            lite = stack.enter_context(litellm.start(where / "litellm", free_port(), behind.port, KEY))
            lite.wait_until_up("/health/liveliness", limit=90)
            made[LITELLM] = Contender(LITELLM, lite, prefix="translated/")
            made[LITELLM_CHAT] = Contender(LITELLM_CHAT, lite, speaks="chat")
        yield made
