"""`antiphon run`: a coding agent with everything set for one run, and no file changed."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import CommandFailed, add_command

if TYPE_CHECKING:
    from antiphon.cli.common import Commands

CLIENTS: Final = ("codex", "claude", "opencode")

ABOUT: Final = """\
Starts a coding agent on the gateway, for this one run: its settings come as options and variables, and no
file of it is changed. Where no gateway answers, one is started, and stopped again when the client ends.

examples:
  antiphon run codex
  antiphon run --model groq/llama-3.3-70b-versatile codex exec "Add a test for the parser."
  antiphon run claude -p "What does this project do?"
  antiphon run opencode
"""

_START_TIMEOUT: Final = 60.0
_NOT_FOUND: Final = 127
_BY_SIGNAL: Final = 128
_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)


def add_to(commands: "Commands") -> None:
    parser = add_command(commands, "run", run, "start a coding agent on the gateway", ABOUT)
    parser.add_argument(
        "--url", metavar="URL", help="the gateway (default: ANTIPHON_BASE_URL, else this machine's)"
    )
    parser.add_argument("--model", action="append", default=[], metavar="MODEL", help="the model to use")
    parser.add_argument("--config", metavar="FILE", help="for the gateway, if one is started: read this file")
    parser.add_argument(
        "--online", action="store_true", help="leave the client's own traffic to its vendor on"
    )
    parser.add_argument("client", choices=CLIENTS, metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="what the client is given")


def run(arguments: argparse.Namespace) -> int:
    from antiphon.cli.setup.clients import FILE_CLIENTS
    from antiphon.cli.setup.gateway import address, ask
    from antiphon.cli.setup.invocation import invocation
    from antiphon.cli.setup.options import SetupOptions

    client = FILE_CLIENTS[arguments.client]
    program = shutil.which(arguments.client)
    if program is None:
        raise CommandFailed(
            f"antiphon: {client.title} is not installed here; get it with: {client.package}", _NOT_FOUND
        )
    url = address(arguments.url)
    with (
        _ending_in_order(),
        gateway_on(url, arguments.config),
        tempfile.TemporaryDirectory(prefix="antiphon-run-") as folder,
    ):
        gateway = client.with_room(ask(url, arguments.model))
        call = invocation(arguments.client, gateway, SetupOptions(online=arguments.online), folder)
        return _wait([program, *call.arguments, *arguments.rest], call.environ)


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Stops what this command has started when a signal or a closed terminal ends the command."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(_BY_SIGNAL + number)

    before = {number: signal.signal(number, end) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def gateway_on(url: str, config: str | None) -> Iterator[None]:
    """Yields the gateway at an address; starts one if none answers, and stops that one at the end."""
    from urllib.parse import urlsplit

    from antiphon.cli.setup.gateway import is_up

    if is_up(url):
        yield
        return
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    if parts.scheme != "http" or host not in ("127.0.0.1", "localhost", "::1"):
        raise CommandFailed(
            f"antiphon: no gateway answers on {url}, and only one on this machine can be started"
        )
    command = [
        *(sys.executable, "-m", "antiphon", "serve"),
        *("--host", host, "--port", str(port), "--log-level", "error"),
        *(("--config", config) if config else ()),
    ]
    with tempfile.TemporaryFile() as output:
        gateway = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal is for the client
        )
        try:
            until = time.monotonic() + _START_TIMEOUT
            while not is_up(url):
                if gateway.poll() is not None or time.monotonic() > until:
                    output.seek(0)
                    said = output.read().decode(errors="replace").strip()
                    raise CommandFailed(f"antiphon: the gateway did not start\n{said}")
                time.sleep(0.05)
            print(f"antiphon: started a gateway on {url} for this run", file=sys.stderr)
            yield
        finally:
            gateway.terminate()
            gateway.wait()


def _wait(command: list[str], environ: dict[str, str]) -> int:
    """Runs the client in this terminal, and leaves the terminal's signals to the client."""
    whole = {**os.environ, **environ}
    before = signal.getsignal(signal.SIGINT)
    try:
        client = subprocess.Popen(command, env={name: value for name, value in whole.items() if value})
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in _ENDINGS:
            signal.signal(number, lambda given, frame: client.send_signal(given))
        code = client.wait()
    except OSError as error:
        raise CommandFailed(f"antiphon: cannot start {command[0]}: {error.strerror}") from None
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else _BY_SIGNAL - code
