"""What the sandbox opens is closed once, whatever else opens and closes files meanwhile."""

import subprocess
import sys
from pathlib import Path

from tests.tools.code_interpreter.sandbox import needs_sandbox


@needs_sandbox
def test_eight_sandboxes_under_uvloop_close_nothing_of_threads_and_streams(tmp_path: Path) -> None:
    """uvloop closed the pipe of a sandbox's files, and the file object of the pipe closed its number again.

    Within half a minute the gateway died without a line, or a tenant read the response of another.
    """
    program = [sys.executable, "-m", "tests.tools.code_interpreter.descriptor_load", str(tmp_path), "4"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
