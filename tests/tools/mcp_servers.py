"""Real MCP servers for tests, each a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = Path(__file__).parent / "mcp_program.py"


@contextmanager
def mcp_server(*arguments: str) -> Iterator[str]:
    """The address of a server, without the path."""
    command = [sys.executable, str(PROGRAM), "http", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def program_table(name: str = "prog", **keys: str) -> str:
    """The table of a server that the gateway runs."""
    lines = [f"{key} = {value}" for key, value in keys.items()]
    command = f'command = ["{sys.executable}", "{PROGRAM}"]'
    return "\n".join([f"[tools.mcp.servers.{name}]", command, *lines, ""])
