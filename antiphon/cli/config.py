"""`antiphon config`: what is configured, and where."""

import argparse
import sys
from typing import TYPE_CHECKING

from antiphon.cli.common import MISTAKE, CommandFailed, add_command, add_config_option, add_group, load_config

if TYPE_CHECKING:
    from antiphon.cli.common import Commands

ABOUT = """\
Antiphon works without configuration. When there is some, it is one TOML file, and environment
variables on top: ANTIPHON_SECTION__KEY, with two underscores, is the key in the section.

example of an antiphon.toml:
  default_model = "fast"

  [providers.groq]
  type = "chat"
  base_url = "https://api.groq.com/openai/v1"
  api_key_env = "GROQ_API_KEY"

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

examples:
  antiphon config check
  antiphon config check --config /etc/antiphon.toml
"""

PATH = """\
Prints the file that the configuration is read from, or, when there is none yet, where to put it.

example:
  ${EDITOR:-vi} "$(antiphon config path)"
"""


def add_to(commands: "Commands") -> None:
    group = add_group(commands, "config", "show and check the configuration", ABOUT)
    check_parser = add_command(group, "check", check, "show what is in force, or every mistake", CHECK)
    add_config_option(check_parser)
    add_command(group, "path", path, "print where the configuration file is", PATH)


def check(arguments: argparse.Namespace) -> int:
    from antiphon.config import check_exposure, show

    config = load_config(arguments)
    if reason := check_exposure(config):
        raise CommandFailed(f"antiphon: {reason}", MISTAKE)
    sources = [config.source or "no file", *config.variables]
    print(f"# The configuration is good. Read from: {', '.join(sources)}.")
    print(show(config), end="")
    return 0


def path(arguments: argparse.Namespace) -> int:
    from antiphon.config import candidates, locate

    found = locate()
    print(found.absolute() if found else candidates()[-1])
    if found is None:
        print("antiphon: there is no configuration file yet", file=sys.stderr)
    return 0
