"""`antiphon chat`: a conversation in the terminal."""

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from antiphon.cli.common import MISTAKE, SERVER_HELP, CommandFailed, add_command
from antiphon.wires.own_command import own_command

if TYPE_CHECKING:
    from antiphon.cli.common import Commands

ABOUT: Final = """\
A conversation with a model in the terminal, on any Open Responses server, or with --local without one.

examples:
  antiphon chat                                   with the server on 127.0.0.1:8080, or ANTIPHON_BASE_URL
  antiphon chat --local                           with the gateway inside this program
  antiphon chat --url http://HOST/v1 --model some-model
  antiphon chat --continue                        the chat that was used last
  antiphon chat --tool weather:forecast           the model may call a function, each time after a yes
"""


def add_to(commands: "Commands") -> None:
    parser = add_command(commands, "chat", chat, "talk with a model in the terminal", ABOUT)
    parser.add_argument("--url", metavar="URL", help=SERVER_HELP)
    parser.add_argument("--api-key", metavar="KEY", help="sent as a bearer token")
    parser.add_argument("--local", action="store_true", help="no server: the gateway inside this program")
    parser.add_argument("--config", metavar="FILE", help="with --local: read this configuration")
    parser.add_argument("--model", help="the model to ask (default: the server's own)")
    parser.add_argument(
        "--effort",
        choices=("none", "low", "medium", "high", "xhigh"),
        help="how much the model thinks before it answers, if it can (default: its own)",
    )
    parser.add_argument("--system", metavar="TEXT", help="instructions for the model")
    parser.add_argument("--background", action="store_true", help="let responses outlive the terminal")
    parser.add_argument("--chat", metavar="ID", help="open this chat")
    parser.add_argument("--continue", dest="resume", action="store_true", help="open the chat used last")
    parser.add_argument("--light", action="store_true", help="dark on light")
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="a Python function that the model may call, after a yes; may be given more than once",
    )
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="CMD|URL",
        help="tools of an MCP (Model Context Protocol) server",
    )


def chat(arguments: argparse.Namespace) -> int:
    try:
        from antiphon.tui.app import ChatApp
        from antiphon.tui.options import ChatOptions
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("antiphon"):
            raise
        raise CommandFailed(
            f"antiphon: this needs the package {missing.name}, which is not installed; "
            "install it with: pip install 'antiphon[tui]'"
        ) from None
    tools, servers = _tools(arguments)
    if arguments.local and arguments.url:
        raise CommandFailed("antiphon: with --local there is no server; leave the address out", MISTAKE)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        instead = f"in a pipe, use `{own_command('ask')}`"
        raise CommandFailed(f"antiphon: chat needs a terminal; {instead}", MISTAKE)
    app = ChatApp(
        ChatOptions(
            base_url=arguments.url,
            api_key=arguments.api_key,
            local=arguments.local,
            config=arguments.config,
            model=arguments.model,
            effort=arguments.effort,
            system=arguments.system,
            background=arguments.background,
            chat=arguments.chat,
            resume=arguments.resume,
            light=arguments.light or None,
            tools=tools,
            mcp=servers,
        )
    )
    app.run()
    return app.return_code or 0


def _tools(arguments: argparse.Namespace) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Loads functions and MCP servers; without any, the client is not imported before the first paint."""
    if not (arguments.tool or arguments.mcp):
        return (), ()
    from antiphon.cli.ask_question import function_of, mcp_server_of

    return tuple(map(function_of, arguments.tool)), tuple(map(mcp_server_of, arguments.mcp))
