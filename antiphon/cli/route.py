"""`antiphon route explain`: which targets a request would go to, and why."""

import argparse
from pathlib import Path
from typing import Final

from antiphon.cli import common

ABOUT: Final = """\
A name with several targets is a route: [models] lists them, and [routes.NAME] says how they are used.
"""

EXPLAIN: Final = """\
Prints the order in which a route would ask its targets for a request, why, and what each would lose of
it. It sends nothing and knows no failures: GET /v1/antiphon/routes of a running server shows
the state of the targets.

examples:
  antiphon route explain --model fast
  antiphon route explain --model fast --input-file body.json
"""


def add_to(commands: "common.Commands") -> None:
    group = common.add_group(commands, "route", "see where requests go", ABOUT)
    parser = common.add_command(
        group, "explain", explain, "print which targets would be asked, and why", EXPLAIN
    )
    parser.add_argument(
        "--model", metavar="NAME", help="the name of the route (default: that of the request)"
    )
    parser.add_argument(
        "--input-file", metavar="FILE", help="the body of a request to /v1/responses, in JSON"
    )
    common.add_config_option(parser)


def explain(arguments: argparse.Namespace) -> int:
    config = common.load_config(arguments)
    body = b"{}"
    if arguments.input_file is not None:
        try:
            body = Path(arguments.input_file).read_bytes()
        except OSError as error:
            raise common.CommandFailed(f"antiphon: {arguments.input_file}: {error.strerror}") from None
    try:
        from antiphon.cli.route_plan import explain_route
    except ModuleNotFoundError as missing:
        raise common.not_installed(missing) from missing
    print("\n".join(explain_route(config, arguments.model, body)))
    return 0
