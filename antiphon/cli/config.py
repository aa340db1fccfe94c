"""`antiphon config`: writes, checks and locates the configuration."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from antiphon.cli import common

if TYPE_CHECKING:
    from antiphon.config import Config

ABOUT = """\
Antiphon works without configuration. When there is some, it is one TOML file, and environment
variables on top: ANTIPHON_SECTION__KEY, with two underscores, is the key in the section.

example of an antiphon.toml:
  default_model = "fast"

  [providers.groq]
  type = "groq"

  [models]
  fast = "groq/llama-3.3-70b-versatile"

examples of environment variables:
  ANTIPHON_SERVER__PORT=9000
  ANTIPHON_PROVIDERS__GROQ__API_KEY=gsk_...
  ANTIPHON_DEFAULT_MODEL=fast
"""

CHECK = """\
Reads the configuration as `antiphon serve` would. Prints everything that is in force, also the defaults,
as TOML with the secrets hidden; or prints every mistake with its file and line, and exits with 2.

With --connect it asks every provider for its models instead, for ten seconds at most, and prints a line for
each; it exits with 1 when one of them failed.

examples:
  antiphon config check
  antiphon config check --config /etc/antiphon.toml
  antiphon config check --connect
"""

INIT = """\
Writes a configuration with what it finds, the keys of vendors in the environment and servers that answer on
their usual ports of this machine, and with comments on what one may want next. No key is written, only the
name of its variable.

examples:
  antiphon config init
  antiphon config init --config ./antiphon.toml --force
"""

PATH = """\
Prints the file that the configuration is read from, or, when there is none yet, where to put it.

example:
  ${EDITOR:-vi} "$(antiphon config path)"
"""


def add_to(commands: "common.Commands") -> None:
    group = common.add_group(commands, "config", "show and check the configuration", ABOUT)
    check_parser = common.add_command(group, "check", check, "show what is in force, or every mistake", CHECK)
    common.add_config_option(check_parser)
    check_parser.add_argument("--connect", action="store_true", help="ask every provider for its models")
    init_parser = common.add_command(group, "init", init, "write a configuration from what it finds", INIT)
    init_parser.add_argument(
        "--config",
        metavar="FILE",
        help="write this file (default: the one that `antiphon config path` prints)",
    )
    init_parser.add_argument("--force", action="store_true", help="overwrite a file that is there")
    common.add_command(group, "path", path, "print where the configuration file is", PATH)


def check(arguments: argparse.Namespace) -> int:
    from antiphon.config import ConfigErrors, check_exposure, show

    config = common.load_config(arguments)
    if reason := check_exposure(config):
        raise common.CommandFailed(f"antiphon: {reason}", common.MISTAKE)
    failed = _connect(config) if arguments.connect else False
    if config.warnings:
        raise common.mistakes(ConfigErrors(config.warnings))
    if arguments.connect:
        return common.FAILED if failed else 0
    sources = [config.source or "no file", *config.variables]
    print(f"# The configuration is good. Read from: {', '.join(sources)}.")
    if config.discovered:
        found = ", ".join(f"{one.name} ({one.by})" for one in config.discovered.values())
        print(f"# Found, and not configured: {found}.")
    print(show(config), end="")
    return 0


def _connect(config: "Config") -> bool:
    """Asks all providers, prints their answers, and returns whether one of them failed."""
    import asyncio

    from antiphon.cli.provider_models import check_providers
    from antiphon.config import add_found_providers, should_discover
    from antiphon.providers.discovery import on_this_machine
    from antiphon.providers.registry import TYPES

    if should_discover(config):
        found = asyncio.run(on_this_machine((config.server.host, config.server.port)))
        config = add_found_providers(config, found, TYPES, {})
    answers = asyncio.run(check_providers(config))
    width = max((len(answer.provider) for answer in answers), default=0)
    for answer in answers:
        print(f"{answer.provider:<{width}}  {answer.says}")
    return any(answer.failed for answer in answers)


def init(arguments: argparse.Namespace) -> int:
    import asyncio

    from antiphon.cli.config_init import starter
    from antiphon.config import candidates, locate

    try:
        from antiphon.providers.discovery import in_environment, on_this_machine
    except ModuleNotFoundError as missing:
        raise common.not_installed(missing) from missing
    file = locate(arguments.config) or candidates()[-1]
    if os.path.lexists(file) and not arguments.force:
        raise common.CommandFailed(f"antiphon: {file} is there already; --force overwrites it")
    found = [*in_environment(os.environ), *asyncio.run(on_this_machine(("", 0)))]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as new:
            new.write(starter(found))
    except OSError as error:
        raise common.CommandFailed(f"antiphon: cannot write {file}: {error.strerror}") from error
    print(f"wrote {file.absolute()}, with {', '.join(one.name for one in found) or 'comments only'}")
    return 0


def path(arguments: argparse.Namespace) -> int:
    from antiphon.config import candidates, locate

    found = locate()
    print(found.absolute() if found else candidates()[-1])
    if found is None:
        print("antiphon: there is no configuration file yet", file=sys.stderr)
    return 0
