"""`antiphon setup`: points a coding agent at the gateway, and back."""

import argparse
import re
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import MISTAKE, CommandFailed, add_command

if TYPE_CHECKING:
    from antiphon.cli.common import Commands
    from antiphon.cli.setup.client_files import ClientFile
    from antiphon.cli.setup.clients import FileClient
    from antiphon.cli.setup.options import SetupOptions

CLIENTS: Final = ("codex", "claude", "opencode", "vscode", "zed", "goose", "cline", "continue")

ABOUT: Final = """\
Points a coding agent at the gateway. For codex, claude, opencode and vscode it shows the change of the
client's file and writes it; for the others it prints the steps, with everything filled in.

What was in the file stays as it is, comments and order included; --undo brings it back byte for byte, or, if
the file was changed since, takes out only what was written. No key is written: the client gets it from
`antiphon token`, from a variable, or asks for it.

examples:
  antiphon setup codex                          with the gateway on 127.0.0.1:8080, and its default model
  antiphon setup claude --model groq/llama-3.3-70b-versatile
  antiphon setup codex --profile work           used only by `codex --profile work`
  antiphon setup opencode --project             for the project in this folder alone
  antiphon setup codex --print                  show the change, and write nothing
  antiphon setup codex --undo                   as it was before
  antiphon setup codex --prove                  let the client show that all of it works
"""


def add_to(commands: "Commands") -> None:
    parser = add_command(commands, "setup", setup, "point a coding agent at the gateway", ABOUT)
    parser.add_argument("client", choices=CLIENTS, metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument(
        "--url", metavar="URL", help="the gateway (default: ANTIPHON_BASE_URL, else this machine's)"
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="MODEL",
        help="the model to use (default: the gateway's own); may be given more than once",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--profile", metavar="NAME", help="write a file of its own, used only when it is asked for"
    )
    where.add_argument(
        "--project", action="store_true", help="for the project in this folder, not for the user"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--print", dest="only_print", action="store_true", help="show the change, and write nothing"
    )
    what.add_argument("--undo", action="store_true", help="take out what was written")
    what.add_argument(
        "--prove", action="store_true", help="drive the installed client, and report what it did"
    )
    parser.add_argument("--plain-key", action="store_true", help="write the key itself into the file")
    parser.add_argument(
        "--online",
        action="store_true",
        help="leave the client's own traffic to its vendor (updates, statistics) on",
    )


def setup(arguments: argparse.Namespace) -> int:
    from antiphon.cli.setup.clients import FILE_CLIENTS, PRINTED_CLIENTS
    from antiphon.cli.setup.gateway import address, ask

    if (printed := PRINTED_CLIENTS.get(arguments.client)) is not None:
        if arguments.undo or arguments.prove:
            raise CommandFailed(
                f"antiphon: nothing is written for {printed.title}, so there is only --print", MISTAKE
            )
        print(printed.steps(ask(address(arguments.url), arguments.model)))
        return 0
    client = FILE_CLIENTS[arguments.client]
    if arguments.prove:
        from antiphon.cli.setup.prove import prove

        return prove(arguments.client, client, address(arguments.url), arguments.model)
    options = _options(arguments)
    file = _file(arguments.client, client, options)
    if arguments.undo:
        _tell(file.undo())
        return 0
    return _write(arguments, client, file, options)


def _file(name: str, client: "FileClient", options: "SetupOptions") -> "ClientFile":
    from antiphon.cli.setup.client_files import ClientFile

    return ClientFile(name, client.file(options), client.document)


def _write(
    arguments: argparse.Namespace, client: "FileClient", file: "ClientFile", options: "SetupOptions"
) -> int:
    from antiphon.cli.setup.gateway import address, ask

    gateway = client.with_room(ask(address(arguments.url), arguments.model))
    extras = client.extras(gateway, options)
    edited = file.edit(client.settings(gateway, options))
    if edited is None:
        file.refresh(extras)
        print(f"nothing to change: {file.shown} has it already")
        _tell(client.warnings(options))
        return 0
    print(file.diff(edited, options.plain_key))
    if arguments.only_print:
        _tell(client.warnings(options))
        return 0
    file.save(edited, extras)
    print()
    print(f"wrote {file.shown}" + (f", which is {file.file}" if file.file != file.shown else ""))
    if file.backup.exists():
        print(f"as it was before, it is in {file.backup}")
    _tell(client.notes(gateway, options) + client.warnings(options))
    print(f"back to what was before: antiphon setup {arguments.client}{_scope(options)} --undo")
    return 0


def _tell(lines: list[str]) -> None:
    for line in lines:
        print(line)


def _options(arguments: argparse.Namespace) -> "SetupOptions":
    from antiphon.cli.setup.gateway import key
    from antiphon.cli.setup.options import SetupOptions

    profile = arguments.profile or ""
    if profile and not re.fullmatch(r"[\w-]+", profile):
        raise CommandFailed("antiphon: the name of a profile has letters, digits, - and _", MISTAKE)
    plain = key() if arguments.plain_key else ""
    if arguments.plain_key and not plain:
        raise CommandFailed("antiphon: there is no key to write: set ANTIPHON_API_KEY", MISTAKE)
    return SetupOptions(profile, arguments.project, plain, arguments.online)


def _scope(options: "SetupOptions") -> str:
    return f" --profile {options.profile}" if options.profile else " --project" if options.project else ""
