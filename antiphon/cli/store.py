"""`antiphon store`: what is kept, how large it is, and getting it out."""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from antiphon.cli.common import FAILED, CommandFailed, add_command, add_config_option, add_group, load_config

if TYPE_CHECKING:
    from antiphon.cli.common import Commands
    from antiphon.config.schema import StoreSettings
    from antiphon.store import Store

ABOUT: Final = """\
Responses, conversations and chats are kept in a SQLite database in the user's data folder, or in the
folder that [store] path names; or in the PostgreSQL database of [store] url. These commands work while the
server runs, except for `copy`.
"""

SIZE: Final = """\
Prints where the store is, how many bytes it takes, and how much is in it.

example:
  antiphon store size
"""

PRUNE: Final = """\
Removes what has expired (see [store] ttl) and gives the space back. The server does this by itself,
what expired long ago in portions, and with SQLite nothing while the clock seems to have jumped. The
command does it at once, whatever the clock says: set that right first.

example:
  antiphon store prune
"""

CHECK: Final = """\
Reads the SQLite database and the journals beside it, changes nothing, and prints a line for each thing that
is wrong. The exit status is 1 when there is one. What is set aside are records that could not be brought
into the database: they are kept in a file until you remove it. For PostgreSQL, use its own tools, such
as pg_amcheck.

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


MIGRATE: Final = """\
Brings the database to the schema of this version. A server does so by itself when it starts; before an
upgrade of several machines it can be done first, while they run: a new schema adds only what the version
before does not miss. With --check nothing is changed, and the exit status is 1 if something would be.

examples:
  antiphon store migrate --check
  antiphon store migrate
"""

COPY: Final = """\
Copies everything from a SQLite store into the empty PostgreSQL database of [store] url, or of --to. Stop the
servers before. Run the command again to resume a copy that was stopped. At the end the
rows of both sides are counted and compared. The bytes of uploaded files are not in the database: they stay in
the folder `files`, which the new gateways need under their [store] path.

example:
  antiphon store copy --from sqlite:/var/lib/antiphon
"""


def add_to(commands: "Commands") -> None:
    group = add_group(commands, "store", "look after the stored responses", ABOUT)
    add_config_option(add_command(group, "size", size, "print how much is stored", SIZE))
    add_config_option(add_command(group, "prune", prune, "remove what has expired", PRUNE))
    add_config_option(add_command(group, "check", check, "look for damage", CHECK))
    parser = add_command(group, "migrate", migrate, "bring the database to this version", MIGRATE)
    add_config_option(parser)
    parser.add_argument("--check", action="store_true", help="only say what would be done")
    parser = add_command(group, "copy", copy, "copy a SQLite store into PostgreSQL", COPY)
    add_config_option(parser)
    parser.add_argument("--from", dest="source", metavar="sqlite:FOLDER", required=True, help="what to copy")
    parser.add_argument(
        "--to", metavar="URL", help="the database (default: [store] url, which hides it better)"
    )
    parser = add_command(group, "export", export, "write everything as lines of JSON", EXPORT)
    add_config_option(parser)
    parser.add_argument("--tenant", help="only what belongs to this tenant")
    parser.add_argument("--output", metavar="FILE", help="write to this new file (default: standard output)")


def size(arguments: argparse.Namespace) -> int:
    async def measure(store: "Store", where: str) -> None:
        found = await store.size()
        print(where)
        for name in ("bytes", "responses", "conversations", "chats", "events"):
            print(f"{name:<14} {getattr(found, name)}")

    return _with_store(arguments, measure)


def prune(arguments: argparse.Namespace) -> int:
    async def remove(store: "Store", where: str) -> None:
        removed = 0
        while some := await store.prune(store.clock(), force=True):
            removed += some
        print(f"removed        {removed}")

    return _with_store(arguments, remove)


def check(arguments: argparse.Namespace) -> int:
    from antiphon.store import check

    config, folder = _find_store(arguments)
    if config.url is not None:
        raise CommandFailed(
            "antiphon: `store check` reads SQLite files; for PostgreSQL use its own tools, such as pg_amcheck"
        )
    found = check(folder)
    print(f"folder         {folder}")
    for name in ("responses", "conversations", "chats", "waiting", "set_aside"):
        print(f"{name.replace('_', ' '):<14} {getattr(found, name)}")
    for problem in found.problems:
        print(f"wrong          {problem}")
    return FAILED if found.problems else 0


def export(arguments: argparse.Namespace) -> int:
    async def write(store: "Store", where: str) -> None:
        with ExitStack() as stack:
            output = (
                stack.enter_context(_new_file(arguments.output)) if arguments.output else sys.stdout.buffer
            )
            async for line in store.export(arguments.tenant):
                output.write(line)

    return _with_store(arguments, write)


def migrate(arguments: argparse.Namespace) -> int:
    import asyncio

    config, _ = _find_store(arguments)
    if config.url is None:
        if arguments.check:
            raise CommandFailed(
                "antiphon: a SQLite store is migrated when it is opened; --check is for PostgreSQL"
            )
        return _with_store(arguments, _tell)
    with _exit_on_store_error():
        from antiphon.store.postgres.migration import migrate_store, pending_migrations

        url = config.url.reveal()
        steps = asyncio.run(pending_migrations(url) if arguments.check else migrate_store(url))
    for step in steps:
        print(f"{'missing' if arguments.check else 'done':<14} {step}")
    if not steps:
        print("nothing        the schema is that of this version, or newer")
    return FAILED if arguments.check and steps else 0


def copy(arguments: argparse.Namespace) -> int:
    import asyncio

    kind, _, name = arguments.source.partition(":")
    if kind != "sqlite" or not name:
        raise CommandFailed("antiphon: --from: expected sqlite:FOLDER, with the folder of a SQLite store")
    folder = Path(name)
    if not (folder / "antiphon.db").exists():
        raise CommandFailed(f"antiphon: --from: there is no store in {folder}")
    url = arguments.to
    if url is None:
        config, _ = _find_store(arguments)
        url = None if config.url is None else config.url.reveal()
    if url is None or not url.startswith(("postgresql://", "postgres://")):
        raise CommandFailed(
            'antiphon: expected a database: [store] url, or --to "postgresql://user@host/database"'
        )
    with _exit_on_store_error():
        from antiphon.store.postgres.migration import copy_into

        asyncio.run(copy_into(folder, url, lambda table, count: print(f"{table:<20} {count}")))
    print(f"files stay in {folder / 'files'}: the gateways need them in `files` under their [store] path")
    return 0


async def _tell(store: "Store", where: str) -> None:
    print(f"{where}\nnothing        the schema is that of this version")


def _with_store(arguments: argparse.Namespace, work: "Callable[[Store, str], Awaitable[None]]") -> int:
    import asyncio

    from antiphon.store import open_store

    config, folder = _find_store(arguments)

    async def run() -> None:
        store = await open_store(config, folder)
        try:
            await work(
                store, f"folder         {folder}" if config.url is None else "database       PostgreSQL"
            )
        finally:
            await store.close()

    with _exit_on_store_error():
        asyncio.run(run())
    return 0


@contextmanager
def _exit_on_store_error() -> Iterator[None]:
    """Ends the command with a message if the store fails."""
    from antiphon.store import StoreError

    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandFailed("antiphon: PostgreSQL needs: pip install 'antiphon[postgres]'") from error
    except StoreError as error:
        raise CommandFailed(f"antiphon: {error}") from error


def _find_store(arguments: argparse.Namespace) -> "tuple[StoreSettings, Path]":
    from antiphon.wires.data_folder import default_data_folder

    config = load_config(arguments, upstreams=False).store
    folder = Path(config.path) if config.path else default_data_folder()
    if config.url_env is not None and config.url is None:
        raise CommandFailed("antiphon: the environment variable that [store] url_env names is not set")
    if config.url is None and not folder.exists():
        raise CommandFailed(f"antiphon: nothing is stored yet: there is no folder {folder}")
    return config, folder


def _new_file(path: str) -> IO[bytes]:
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise CommandFailed(f"antiphon: cannot write {path}: {error.strerror}") from error
