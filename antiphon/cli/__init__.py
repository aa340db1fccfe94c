"""The `antiphon` command: one module for each of its commands, and no traceback for its user.

Each command imports heavy modules only when it runs, so that `--help` is fast.
"""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from antiphon import __version__
from antiphon.cli import (
    ask,
    chat,
    completion,
    comply,
    comply_client,
    config,
    models,
    route,
    run_client,
    serve,
    setup,
    store,
    token,
    work,
)
from antiphon.cli.common import FAILED, CommandFailed, CommandParser, show_help
from antiphon.wires.terminal_text import printable

COMMANDS: Final = (
    serve,
    work,
    ask,
    chat,
    setup,
    run_client,
    token,
    config,
    models,
    route,
    store,
    comply,
    comply_client,
    completion,
)
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

DESCRIPTION: Final = """\
One program that speaks Open Responses on one side and every model on the other.
It needs no configuration: `antiphon serve` starts with a small model inside.
"""

EXAMPLES: Final = """\
examples:
  antiphon serve                      start on 127.0.0.1:8080 with the embedded model
  antiphon serve --port 9000          the same, on another port
  antiphon work                       only work on background responses of other gateways
  antiphon ask "What is new?"         ask a model, here or on a server
  antiphon chat --local               talk with a model here, without a server
  antiphon setup codex                point a coding agent at the gateway
  antiphon run claude                 start one on it, with no file changed
  antiphon config init                write a configuration from what it finds
  antiphon config check               show what is configured, or every mistake in it
  antiphon models list                the models that can run inside, here or to be fetched
  antiphon route explain --model X    which targets would be asked, and why
  antiphon store size                 how much is stored
  antiphon comply http://HOST/v1      test a server against the specification

exit codes: 0 done, 1 it failed, 2 a mistake in the command or the configuration, 130 interrupted;
`antiphon ask --help` lists more.
Set ANTIPHON_DEBUG=1 to see a Python traceback where something unexpected fails.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code.

    >>> main(["--version"])
    antiphon 0.1.0
    0
    """
    _open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except CommandFailed as failure:
        print(printable(str(failure)), file=sys.stderr)
        return failure.code
    except Exception as error:
        if os.environ.get("ANTIPHON_DEBUG"):
            raise
        print(f"antiphon: {printable(_about(error))}", file=sys.stderr)
        _drop_output()
        return FAILED
    return code


def parser() -> argparse.ArgumentParser:
    top = CommandParser(
        prog="antiphon",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"antiphon {__version__}")
    top.set_defaults(run=lambda _: show_help(top), parser=top)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return top


def run(argv: Sequence[str] | None) -> int:
    """Runs one command and returns its exit code; raises what goes wrong."""
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as stop:  # --help, --version, or a mistake in the arguments
        return stop.code if isinstance(stop.code, int) else 0
    code: int = arguments.run(arguments)
    return code


def _about(error: Exception) -> str:
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename else reason
    about = f"{type(error).__name__}: {error}".removesuffix(": ")
    return f"unexpected error: {about} (set ANTIPHON_DEBUG=1 to see where)"


def _open_streams() -> None:
    """Opens the null device in place of each standard stream that was closed before the command began."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _drop_output() -> None:
    """Points standard output, if it fails, at nothing, so that the interpreter's last flush is quiet."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
