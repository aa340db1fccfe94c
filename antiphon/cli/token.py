"""`antiphon token`: the key for the gateway, for clients that start a command to get it."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import MISTAKE, CommandFailed, add_command
from antiphon.wires.own_command import own_command

if TYPE_CHECKING:
    from antiphon.cli.common import Commands

ABOUT: Final = """\
Prints the key for the gateway: ANTIPHON_API_KEY, else the one that --save has kept in a file of mode 0600 in
the user's configuration folder. Without either it prints `no-key`, which a gateway without keys takes.

examples:
  antiphon token
  antiphon token --save < key.txt       keep the key that standard input has
  antiphon token --forget               remove the kept key
"""


def add_to(commands: "Commands") -> None:
    parser = add_command(commands, "token", token, "print the key for the gateway", ABOUT)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--save", action="store_true", help="keep the key that is typed, or on standard input")
    what.add_argument("--forget", action="store_true", help="remove the kept key")


def token(arguments: argparse.Namespace) -> int:
    from antiphon.cli.setup.gateway import NO_KEY, key, key_file

    if arguments.forget:
        key_file().unlink(missing_ok=True)
        return 0
    if not arguments.save:
        found = key()
        if not found and sys.stderr.isatty():
            print(
                f"antiphon: no key is set: ANTIPHON_API_KEY, or `{own_command('token --save')}`",
                file=sys.stderr,
            )
        print(found or NO_KEY)
        return 0
    text = _read_key()
    if not text or not (text.isascii() and text.isprintable()) or " " in text:
        raise CommandFailed("antiphon: that is no key: expected one word of ASCII characters", MISTAKE)
    file = key_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as new:
        new.write(f"{text}\n")
    print(f"kept in {file}")
    return 0


def _read_key() -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("the key: ").strip()
    return sys.stdin.read().strip()
