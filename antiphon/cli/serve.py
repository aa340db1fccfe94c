"""`antiphon serve`: the gateway."""

import argparse
import errno
from typing import Final

from antiphon.cli import common
from antiphon.cli.work import add_work_option

ABOUT: Final = """\
Starts the gateway: Open Responses on http://HOST:PORT/v1/responses, over HTTP and WebSocket.
Without configuration it serves a small embedded model, which is loaded when it is first used.

examples:
  antiphon serve
  antiphon serve --port 9000 --log-level debug
  antiphon serve --config /etc/antiphon.toml --workers 4
  ANTIPHON_SERVER__PORT=9000 antiphon serve

Without keys the server listens only on this machine. To let others in, add to the configuration:
  [server]
  host = "0.0.0.0"
  [keys.alice]
  key_env = "ALICE_KEY"       # or key_sha256 = "..."

An option wins over an environment variable, and that over the file. Ctrl-C or SIGTERM stops the server:
it takes no new requests and lets running ones finish, up to the limit in [server] drain.
"""


def add_to(commands: "common.Commands") -> None:
    parser = common.add_command(commands, "serve", serve, "start the gateway", ABOUT)
    parser.add_argument("--host", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", help="the port to listen on (default: 8080); 0 takes a free one")
    common.add_config_option(parser)
    parser.add_argument("--workers", metavar="N", help="how many server processes (default: 1)")
    add_work_option(parser)
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error (default: info)")


def serve(arguments: argparse.Namespace) -> int:
    from antiphon.config import ConfigErrors, check_exposure

    options = {
        "host": "server.host",
        "port": "server.port",
        "workers": "server.workers",
        "work": "background.work",
        "log_level": "log.level",
    }
    config = common.load_config(arguments, options)
    if reason := check_exposure(config):
        raise common.CommandFailed(f"antiphon: {reason}", common.MISTAKE)
    try:
        from antiphon.server import run
    except ModuleNotFoundError as missing:
        raise common.not_installed(missing) from missing
    try:
        return run(config)
    except ConfigErrors as errors:  # a provider may find what the configuration alone cannot
        raise common.mistakes(errors) from errors
    except OSError as error:
        raise common.CommandFailed(
            f"antiphon: {explain(error, config.server.host, config.server.port)}"
        ) from error


def explain(error: OSError, host: str, port: int) -> str:
    """Explains why the server could not start, and what to do about it."""
    from socket import gaierror

    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    reason = error.strerror or str(error)
    if isinstance(error, gaierror):
        return f"the host {host} is not known: {reason}; choose another with --host"
    if error.filename is not None:
        return f"cannot use {error.filename}: {reason}"
    match error.errno:
        case errno.EADDRINUSE:
            choose = 'choose another port with --port (under make: ARGS="--port 9000")'
            return f"{address} is already in use; {choose}, or stop what is using it"
        case errno.EACCES | errno.EPERM:
            return f"not allowed to listen on {address}; choose a port above 1023 with --port"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine; choose another with --host"
        case _:
            return f"the server could not run on {address}: {reason}"
