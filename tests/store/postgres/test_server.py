"""The PostgreSQL of the tests ends with the process that started it."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.postgres import needs_postgres
from tests.server.servers import until

START = """
import sys
from pathlib import Path
from examples.cluster.postgres_server import PostgresServer
PostgresServer(Path(sys.argv[1])).start()
print("started", flush=True)
sys.stdin.read()
"""

pytestmark = needs_postgres


def test_a_killed_test_leaves_no_postgresql_running() -> None:
    folder = Path(tempfile.mkdtemp(prefix="antiphon-pg-"))
    command = [sys.executable, "-c", START, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as test:
        assert test.stdout is not None
        assert test.stdout.readline() == b"started\n"
        running = folder / "data" / "postmaster.pid"
        assert running.exists()
        test.kill()
    until(lambda: not running.exists())
    shutil.rmtree(folder)
