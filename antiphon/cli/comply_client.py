"""`antiphon comply-client`: a server that judges the client which connects to it."""

import argparse
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import MISTAKE, CommandFailed, add_command

if TYPE_CHECKING:
    from antiphon.cli.common import Commands
    from antiphon.compliance.client.scenario_server import ScenarioServer

ABOUT: Final = """\
Starts a server that plays every legal and every odd stream, and reports what the connecting client did wrong.

The models that it lists are the plays. In each, a client asks for the stream of `input: "Begin."`, and then
sends what it understood as the next request of the chain (`previous_response_id`): the status and the text as
`completed|the text`, or the outputs of the calls. There are ready programs for two clients.

examples:
  antiphon comply-client --with openai       the OpenAI SDK, which must be installed
  antiphon comply-client --with antiphon     our own client
  antiphon comply-client --with 'node my-client.js'
  antiphon comply-client --port 8099         wait for a client; Ctrl-C ends it and shows the verdict

A program finds the server in OPENAI_BASE_URL and OPENAI_API_KEY.

exit codes: 0 nothing wrong, 1 something wrong, 2 it could not run.
"""
READY: Final = {
    "openai": "antiphon.compliance.client.openai_sdk",
    "antiphon": "antiphon.compliance.client.antiphon_client",
}
KEY: Final = "a-key-for-the-plays"


def add_to(commands: "Commands") -> None:
    parser = add_command(
        commands, "comply-client", comply_client, "test a client against the specification", ABOUT
    )
    parser.add_argument("--host", default="127.0.0.1", help="(default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="(default: a free one)")
    parser.add_argument(
        "--with", dest="program", metavar="PROGRAM", help="`openai`, `antiphon`, or a command"
    )
    parser.add_argument("--verbose", action="store_true", help="show what passed, too")


def comply_client(arguments: argparse.Namespace) -> int:
    import asyncio

    from antiphon.compliance.client.verdicts import judge_scenarios, write_verdicts

    servers: list[ScenarioServer] = []
    try:
        asyncio.run(_perform(arguments, servers))
    except KeyboardInterrupt:
        if not servers:
            raise
    return write_verdicts(judge_scenarios(servers[0].seen), sys.stdout, verbose=arguments.verbose)


async def _perform(arguments: argparse.Namespace, servers: "list[ScenarioServer]") -> None:
    import asyncio

    from antiphon.compliance.client.scenario_server import ScenarioServer

    async with ScenarioServer(arguments.host, arguments.port) as server:
        servers.append(server)
        if arguments.program is None:
            print(f"the plays are at {server.url}; Ctrl-C ends them and shows the verdict", flush=True)
            await asyncio.Event().wait()
        else:
            await _run(arguments.program, server.url)


async def _run(program: str, url: str) -> None:
    import asyncio
    import os
    import shlex

    if program == "openai" and find_spec("openai") is None:
        raise CommandFailed("antiphon: the OpenAI SDK is not installed; pip install openai", MISTAKE)
    command = [sys.executable, "-m", READY[program]] if program in READY else shlex.split(program)
    environment = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY}
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        raise CommandFailed(
            f"antiphon: {command[0]} could not be started: {error.strerror}", MISTAKE
        ) from None
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if code != 0:
        raise CommandFailed(f"antiphon: the client ended with exit code {code}", MISTAKE)
