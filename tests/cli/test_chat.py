"""`antiphon chat`: what it says where it cannot start, and a whole session on a terminal of its own."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Result
from tests.server.servers import DEADLINE, Serving, configure
from tests.tui.conftest import SCRIPTED, script


def test_it_needs_a_terminal(run: Callable[..., Result]) -> None:
    result = run("chat")
    assert result.code == 2
    assert "needs a terminal" in result.err


def test_a_tool_that_is_not_there_is_told_of(run: Callable[..., Result]) -> None:
    result = run("chat", "--tool", "nowhere:nothing")
    assert result.code == 2
    assert "nowhere:nothing cannot be loaded" in result.err


def test_a_server_and_none_at_once_is_a_mistake(run: Callable[..., Result]) -> None:
    result = run("chat", "--url", "http://127.0.0.1:1/v1", "--local")
    assert result.code == 2
    assert "leave the address out" in result.err


class Terminal:
    """A program on a pseudo terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environ = {**os.environ, "HOME": str(folder), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
        )
        os.close(theirs)
        self.seen = b""

    def wait_for(self, words: bytes) -> None:
        ends = time.monotonic() + DEADLINE
        while words not in self.seen:
            assert time.monotonic() < ends, self.seen[-2000:]
            if select.select([self._ours], [], [], 0.1)[0]:
                self.seen += os.read(self._ours, 65536)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)
        os.close(self._ours)


def test_a_session_on_a_real_terminal(tmp_path: Path) -> None:
    with Serving(configure(tmp_path / "gateway", SCRIPTED)) as serving:
        system = script({"text": "Hello\x1b]52;c;aGk=\x07 there."})
        terminal = Terminal(
            [sys.executable, "-m", "antiphon", "chat", "--url", f"{serving.url}/v1", "--system", system],
            tmp_path,
        )
        try:
            terminal.wait_for(b"essage, /command")
            terminal.type(b"Hi\r")
            terminal.wait_for(b"there.")
            assert b"\x1b]52" not in terminal.seen
            terminal.type(b"\x11")
            assert terminal.process.wait(DEADLINE) == 0
        finally:
            terminal.close()
