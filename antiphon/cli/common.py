"""What the commands share: their parsers, their failures, and how they load the configuration."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from antiphon.config import Config, ConfigErrors

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

FAILED: Final = 1
MISTAKE: Final = 2
SERVER_HELP: Final = "the server (default: ANTIPHON_BASE_URL, else http://127.0.0.1:8080/v1)"

_Run = Callable[[argparse.Namespace], int]

# As argparse words it, in all its versions.
_UNKNOWN_COMMAND: Final = re.compile(
    r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL
)


class CommandFailed(Exception):
    """Ends the command with a message for its user and an exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        self.code = code
        super().__init__(message)


class CommandParser(argparse.ArgumentParser):
    """A parser that suggests the command or option that the user may have meant."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses as argparse does, but reports leftover arguments for the command that got them."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            at: CommandParser = parsed.parser
            at.error(at._about_rest(rest))
        return parsed

    def _about_rest(self, rest: list[str]) -> str:
        option = rest[0].partition("=")[0]
        if not option.startswith("-"):
            return f"nothing more was expected, but there is {rest[0]!r}"
        near = get_close_matches(option, self._option_string_actions, 1)
        return f"there is no option {option}" + (f"; did you mean {near[0]}?" if near else "")

    def error(self, message: str) -> NoReturn:
        if found := _UNKNOWN_COMMAND.match(message):
            commands = found[2].replace("'", "").split(", ")
            near = get_close_matches(found[1], commands, 1)
            hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(commands)}"
            message = f"there is no command {found[1]!r}; {hint}"
        super().error(message)


def add_command(
    commands: "Commands", name: str, run: _Run, summary: str, more: str
) -> argparse.ArgumentParser:
    """Adds a command; the first paragraph of `more` stands before the options and the rest after them."""
    about, _, after = more.partition("\n\n")
    parser = commands.add_parser(
        name,
        help=summary,
        description=about,
        epilog=after,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def add_group(commands: "Commands", name: str, summary: str, more: str) -> "Commands":
    """Adds a command that has commands of its own, and shows its help when none is given."""
    parser = add_command(commands, name, lambda _: show_help(parser), summary, more)
    return parser.add_subparsers(title="commands", metavar="COMMAND")


def show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return MISTAKE


def add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="read this file (default: ./antiphon.toml, else the one in the user's configuration folder)",
    )
    parser.add_argument(
        "--env-file",
        metavar="FILE",
        help="take variables that are not set, and that the configuration reads, from this file (NAME=value)",
    )


def load_config(
    arguments: argparse.Namespace, options: Mapping[str, str] | None = None, *, upstreams: bool = True
) -> "Config":
    """Loads the configuration of `--config` and `--env-file`, or fails with a list of every mistake.

    `options` says which options of the command stand for which keys.
    A command that calls no upstream needs neither their secrets nor their code, and does not check them.
    """
    from antiphon.config import ConfigErrors, fill_environment, load

    given = {
        key: (f"--{name.replace('_', '-')}", text)
        for name, key in (options or {}).items()
        if (text := getattr(arguments, name)) is not None
    }
    try:
        file = arguments.env_file
        environ = os.environ if file is None else fill_environment(file)
        if not upstreams:
            return load(arguments.config, environ, options=given, types=None, secrets=False)
        from antiphon.providers.discovery import in_environment
        from antiphon.providers.registry import TYPES
        from antiphon.tools.registry import TOOLS

        return load(
            arguments.config, environ, options=given, types=TYPES, tools=TOOLS, discover=in_environment
        )
    except ConfigErrors as errors:
        raise mistakes(errors) from None
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from missing


def not_installed(missing: ModuleNotFoundError) -> CommandFailed:
    """Makes the failure that names the missing package of the server and how to install it."""
    if missing.name is None or missing.name.startswith("antiphon"):
        raise missing
    return CommandFailed(
        f"antiphon: the server needs the package {missing.name}, which is not installed; "
        "install everything that it needs with: pip install 'antiphon[server]'"
    )


def mistakes(errors: "ConfigErrors") -> CommandFailed:
    count = len(errors.mistakes)
    end = "1 mistake" if count == 1 else f"{count} mistakes"
    return CommandFailed(f"{errors}\nantiphon: {end} in the configuration", MISTAKE)
