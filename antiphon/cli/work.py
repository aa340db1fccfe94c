"""`antiphon work`: a machine that only works on background responses."""

import argparse
from typing import Final

from antiphon.cli import common

ABOUT: Final = """\
Works on the background responses of all gateways that share a store, without a port of its own.
It needs a store that machines can share: [store] url = "postgresql://…".

examples:
  antiphon work
  antiphon work --config /etc/antiphon.toml --work 200

Gateways work on them too, unless they are started with --work 0. Ctrl-C or SIGTERM hands over what is
running: other workers continue it at once.
"""


def add_to(commands: "common.Commands") -> None:
    parser = common.add_command(commands, "work", work, "work on background responses, without a port", ABOUT)
    common.add_config_option(parser)
    add_work_option(parser)
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error (default: info)")


def add_work_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--work", metavar="N", help="how many background responses to work on at once (default: 64)"
    )


def work(arguments: argparse.Namespace) -> int:
    from antiphon.config import ConfigErrors

    config = common.load_config(arguments, {"work": "background.work", "log_level": "log.level"})
    if config.store.url is None:
        raise common.CommandFailed(
            "antiphon: a machine that only works needs a store that others share with it: "
            'set [store] url = "postgresql://…", the one of the gateways',
            common.MISTAKE,
        )
    if not config.background.work:
        raise common.CommandFailed(
            "antiphon: with --work 0 there is nothing to do; leave it out", common.MISTAKE
        )
    try:
        from antiphon.server.process import work
    except ModuleNotFoundError as missing:
        raise common.not_installed(missing) from missing
    try:
        return work(config)
    except ConfigErrors as errors:  # a provider may find what the configuration alone cannot
        raise common.mistakes(errors) from errors
