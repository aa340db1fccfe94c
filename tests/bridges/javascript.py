"""Programs in tests/bridges/node, run with Node.js: the real clients, and what they made of our streams."""

import itertools
import json
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "node"
NODE = shutil.which("node")
_DEADLINE = 60.0

needs_node = pytest.mark.skipif(
    NODE is None,
    reason="NODE.JS IS MISSING: the bridges are NOT tested with the real JavaScript clients; install Node 20",
)


def run_node(program: str, *arguments: object) -> Any:
    """What the default function of this module gives; all tests share one process, which is slow to start."""
    return Host.running().run(program, arguments)


def run_alone(program: str, *arguments: object) -> Any:
    """What a program prints as JSON, in a process of its own. Arguments are JSON texts in `process.argv`."""
    words = [json.dumps(argument) for argument in arguments]
    done = subprocess.run(
        [*_command(), str(FOLDER / program), *words],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _command() -> list[str]:
    assert NODE is not None
    assert (FOLDER / "node_modules" / ".ready").is_file(), "the clients are not installed: run `make clients`"
    return [NODE, "--no-warnings"]


class Host:
    """The process of `host.mjs`. When a program brings it down, the next caller begins a new one."""

    _current: "Host | None" = None

    @classmethod
    def running(cls) -> "Host":
        if cls._current is None or cls._current._process.poll() is not None:
            cls.close()
            cls._current = cls()
        return cls._current

    @classmethod
    def close(cls) -> None:
        if cls._current is not None:
            cls._current._end()
            cls._current = None

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*_command(), str(FOLDER / "host.mjs")],
            cwd=FOLDER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count()
        self._writing = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[tuple[Any, str | None]]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def run(self, program: str, arguments: tuple[object, ...]) -> Any:
        number, answer = next(self._numbers), queue.SimpleQueue[tuple[Any, str | None]]()
        self._waiting[number] = answer
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write(json.dumps([number, program, arguments]) + "\n")
            self._process.stdin.flush()
        result, error = answer.get(timeout=_DEADLINE)
        assert error is None, error
        return result

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, result, error = json.loads(line)
            self._waiting.pop(number).put((result, error))
        for answer in self._waiting.values():
            answer.put((None, "Node.js has ended; what it said is in the captured output"))

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(_DEADLINE)
        self._reader.join(_DEADLINE)
        self._process.stdout.close()
