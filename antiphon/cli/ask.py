"""`antiphon ask`: asks one question and prints the answer while it arrives."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import SERVER_HELP, add_command

if TYPE_CHECKING:
    from antiphon.cli.common import Commands

ABOUT: Final = """\
Asks a model one question and prints the answer while it arrives. The server is the one that ANTIPHON_BASE_URL
names (default: http://127.0.0.1:8080/v1), with the key in ANTIPHON_API_KEY; any Open Responses server will
do. With --local there is no server: the gateway runs inside this command.

A terminal gets Markdown, a pipe gets the plain text. Standard input is placed before the question.
Control characters in an answer never reach your terminal; each is printed as a visible symbol.

examples:
  antiphon ask "What is the capital of France?"
  cat log | antiphon ask "What went wrong here?"
  antiphon ask -f photo.jpg -f notes.txt "Does the photo fit the notes?"
  antiphon ask -c "And in one sentence?"
  antiphon ask --json-schema city.json "The capital of France" | jq .name
  antiphon ask --tool mytools:weather "What is the weather in Paris?"
  antiphon ask --mcp "uvx mcp-server-fetch" "What is new on example.com?"
  antiphon ask --local "No server needed"

exit codes: 0 answered, 1 the request or the response failed, 2 a mistake in the command, 3 no server could be
reached, 4 the answer is incomplete, 5 the model refused, 130 interrupted (the model is stopped), 141 the
output was closed.
"""


def add_to(commands: "Commands") -> None:
    parser = add_command(commands, "ask", ask, "ask one question and print the answer", ABOUT)
    parser.add_argument("question", nargs="*", metavar="QUESTION", help="what to ask")
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="attach a text, an image or a document",
    )
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument(
        "-c",
        "--continue",
        action="store_true",
        dest="continues",
        help="continue from the last answer of this command",
    )
    earlier.add_argument(
        "--from", metavar="RESPONSE", dest="previous", help="continue from this response (resp_…)"
    )
    parser.add_argument("--model", metavar="MODEL", help="which model answers (default: the server's)")
    parser.add_argument("--system", metavar="TEXT", help="instructions for the model")
    parser.add_argument(
        "--json-schema", metavar="FILE", help="the answer is JSON that fits the schema in this file"
    )
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="a Python function that the model may call; it runs here",
    )
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="CMD|URL",
        help="an MCP (Model Context Protocol) server whose tools the model may call",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--raw", action="store_true", help="print the server-sent events unchanged")
    shape.add_argument("--json", action="store_true", help="print the finished response as JSON")
    parser.add_argument(
        "--usage", action="store_true", help="print the tokens that it took, on standard error"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", metavar="URL", help=SERVER_HELP)
    where.add_argument("--local", action="store_true", help="answer without a server")


def ask(arguments: argparse.Namespace) -> int:
    import asyncio

    from antiphon.cli.ask_turn import answer

    try:
        return asyncio.run(answer(arguments))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise
