"""What the sandbox opens is closed once, whatever else opens and closes files meanwhile."""

import ast
import subprocess
import sys
from pathlib import Path

import antiphon
from tests.tools.code_interpreter.sandbox import needs_sandbox


@needs_sandbox
def test_eight_sandboxes_under_uvloop_close_nothing_of_threads_and_streams(tmp_path: Path) -> None:
    """uvloop closed the pipe of a sandbox's files, and the file object of the pipe closed its number again.

    Within half a minute the gateway died without a line, or a tenant read the response of another.
    """
    program = [sys.executable, "-m", "tests.tools.code_interpreter.descriptor_load", str(tmp_path), "4"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_file_object_is_given_to_the_event_loop() -> None:
    """uvloop closes the descriptor of a pipe that it is given, and so does the file object."""
    package = Path(antiphon.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("connect_read_pipe", "connect_write_pipe")
    ]
    assert found == []
