"""`antiphon completion` and `antiphon help`: completion for the shell, and help on a command."""

import argparse
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import CommandFailed, add_command

if TYPE_CHECKING:
    from antiphon.cli.common import Commands

SHELLS: Final = ("bash", "zsh", "fish")

COMPLETION: Final = """\
Prints a script that makes the shell complete the commands and options of antiphon.

examples:
  antiphon completion bash > ~/.local/share/bash-completion/completions/antiphon
  antiphon completion zsh > "${fpath[1]}/_antiphon"
  antiphon completion fish > ~/.config/fish/completions/antiphon.fish
"""

HELP: Final = """\
Shows what a command does, with its options and examples: the same as its --help.

examples:
  antiphon help serve
  antiphon help config check
"""


def add_to(commands: "Commands") -> None:
    completion = add_command(
        commands, "completion", complete, "a completion script for the shell", COMPLETION
    )
    completion.add_argument("shell", choices=SHELLS)
    help = add_command(commands, "help", show, "what a command does", HELP)
    help.add_argument("command", nargs="*", metavar="COMMAND")


def complete(arguments: argparse.Namespace) -> int:
    from antiphon.cli import parser

    try:
        import shtab
    except ModuleNotFoundError as missing:
        message = "antiphon: completion needs the package shtab; install it with: pip install shtab"
        raise CommandFailed(message) from missing
    print(shtab.complete(parser(), shell=arguments.shell))
    return 0


def show(arguments: argparse.Namespace) -> int:
    from antiphon.cli import run

    return run([*arguments.command, "--help"])
