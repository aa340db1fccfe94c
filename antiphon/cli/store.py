"""`antiphon store`: what is kept, how large it is, and getting it out."""

import argparse
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from antiphon.cli.common import FAILED, CommandFailed, add_command, add_config_option, add_group, load_config

if TYPE_CHECKING:
    from antiphon.cli.common import Commands
    from antiphon.config.schema import StoreSettings as StoreConfig
    from antiphon.store import SqliteStore

ABOUT: Final = """\
Responses, conversations and chats are kept in a SQLite database in the user's data folder, or in the
folder that [store] path names. These commands work while the server runs.
"""

SIZE: Final = """\
Prints where the store is, how many bytes it takes, and how much is in it.

example:
  antiphon store size
"""

PRUNE: Final = """\
Removes what has expired (see [store] ttl) and gives the space back. The server does this by itself;
the command does it at once.

example:
  antiphon store prune
"""

CHECK: Final = """\
Reads the database and the journals beside it, changes nothing, and prints a line for each thing that is
wrong. The exit status is 1 when there is one. What is set aside are records that could not be brought into
the database: they are kept in a file until somebody removes it.

example:
  antiphon store check
"""

EXPORT: Final = """\
Writes every response, conversation and chat as one line of JSON each. The output holds prompts and answers:
a file that this command makes can be read by its owner only.

examples:
  antiphon store export > everything.jsonl
  antiphon store export --tenant research --output research.jsonl
"""


def add_to(commands: "Commands") -> None:
    group = add_group(commands, "store", "look after the stored responses", ABOUT)
    add_config_option(add_command(group, "size", size, "print how much is stored", SIZE))
    add_config_option(add_command(group, "prune", prune, "remove what has expired", PRUNE))
    add_config_option(add_command(group, "check", check, "look for damage", CHECK))
    parser = add_command(group, "export", export, "write everything as lines of JSON", EXPORT)
    add_config_option(parser)
    parser.add_argument("--tenant", help="only what belongs to this tenant")
    parser.add_argument("--output", metavar="FILE", help="write to this new file (default: standard output)")


def size(arguments: argparse.Namespace) -> int:
    async def measure(store: "SqliteStore", folder: Path) -> None:
        found = await store.size()
        print(f"folder         {folder}")
        for name in ("bytes", "responses", "conversations", "chats", "events"):
            print(f"{name:<14} {getattr(found, name)}")

    return _with_store(arguments, measure)


def prune(arguments: argparse.Namespace) -> int:
    async def remove(store: "SqliteStore", folder: Path) -> None:
        print(f"removed        {await store.prune(time.time())}")

    return _with_store(arguments, remove)


def check(arguments: argparse.Namespace) -> int:
    from antiphon.store import check

    _, folder = _found(arguments)
    found = check(folder)
    print(f"folder         {folder}")
    for name in ("responses", "conversations", "chats", "waiting", "set_aside"):
        print(f"{name.replace('_', ' '):<14} {getattr(found, name)}")
    for problem in found.problems:
        print(f"wrong          {problem}")
    return FAILED if found.problems else 0


def export(arguments: argparse.Namespace) -> int:
    async def write(store: "SqliteStore", folder: Path) -> None:
        with ExitStack() as stack:
            output = (
                stack.enter_context(_new_file(arguments.output)) if arguments.output else sys.stdout.buffer
            )
            async for line in store.export(arguments.tenant):
                output.write(line)

    return _with_store(arguments, write)


def _with_store(arguments: argparse.Namespace, work: "Callable[[SqliteStore, Path], Awaitable[None]]") -> int:
    import asyncio

    from antiphon.store import SqliteStore, StoreError

    config, folder = _found(arguments)

    async def run() -> None:
        store = await SqliteStore.open(folder, synchronous=config.synchronous)
        try:
            await work(store, folder)
        finally:
            await store.close()

    try:
        asyncio.run(run())
    except StoreError as error:
        raise CommandFailed(f"antiphon: {error}") from error
    return 0


def _found(arguments: argparse.Namespace) -> "tuple[StoreConfig, Path]":
    from antiphon.store import default_data_folder

    config = load_config(arguments, upstreams=False).store
    folder = Path(config.path) if config.path else default_data_folder()
    if not folder.exists():
        raise CommandFailed(f"antiphon: nothing is stored yet: there is no folder {folder}")
    return config, folder


def _new_file(path: str) -> IO[bytes]:
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise CommandFailed(f"antiphon: cannot write {path}: {error.strerror}") from error
