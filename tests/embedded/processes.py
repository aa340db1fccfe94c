"""A real child process with the real model, and a client for its interface."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from antiphon.embedded.child import ChildSettings

ROOT = Path(__file__).parents[2]
KEY = "a-key-for-tests"


@dataclass(frozen=True, slots=True)
class Running:
    """A child that is ready, and the first words it said."""

    process: "subprocess.Popen[bytes]"
    ready: dict[str, Any]
    log: Path

    @property
    def url(self) -> str:
        return str(self.ready["url"])

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {KEY}"}

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return httpx.post(self.url + path, json=body, headers=self.headers, timeout=120)

    def chat(self, body: dict[str, Any]) -> "Streamed":
        """A whole streamed answer."""
        with self.open_chat(body) as answer:
            return Streamed.read(answer)

    @contextmanager
    def open_chat(self, body: dict[str, Any]) -> Iterator[httpx.Response]:
        wanted = {"stream": True, "return_progress": True, "temperature": 0, **body}
        url = f"{self.url}/v1/chat/completions"
        with httpx.stream("POST", url, json=wanted, headers=self.headers, timeout=120) as answer:
            yield answer


@dataclass(frozen=True, slots=True)
class Streamed:
    chunks: list[dict[str, Any]]
    ended: bool
    """Was there a `[DONE]`?"""

    @classmethod
    def read(cls, answer: httpx.Response) -> "Streamed":
        data = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
        return cls([json.loads(one) for one in data if one != "[DONE]"], data[-1:] == ["[DONE]"])

    @property
    def text(self) -> str:
        return "".join(choice["delta"].get("content") or "" for choice in self.choices)

    @property
    def choices(self) -> list[dict[str, Any]]:
        return [choice for chunk in self.chunks for choice in chunk["choices"]]

    @property
    def finish_reason(self) -> str | None:
        return next((choice["finish_reason"] for choice in self.choices if choice["finish_reason"]), None)


def launch(settings: ChildSettings, log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "antiphon.embedded.child"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
    process.stdin.flush()
    return process


def messages(process: "subprocess.Popen[bytes]") -> Iterator[dict[str, Any]]:
    """What the child says, one line at a time."""
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


@contextmanager
def running(settings: ChildSettings, log: Path) -> Iterator[Running]:
    process = launch(settings, log)
    try:
        for message in messages(process):
            assert "error" not in message, message
            if "url" in message:
                yield Running(process, message, log)
                break
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
