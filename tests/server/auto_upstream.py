"""Lets a chat upstream answer by itself, so that a test can wait for its own request."""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tests.server.servers import DEADLINE
from tests.server.upstream import Call, Upstream

Says = Callable[[Call], None]


class Voice:
    """Answers each request with `says`, and keeps what was asked in `heard`."""

    says: Says

    def __init__(self, upstream: Upstream) -> None:
        self.heard: list[dict[str, Any]] = []
        self.reset()
        self._upstream = upstream
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._answer, name="upstream-voice", daemon=True)

    @property
    def toml(self) -> str:
        """`model` takes what every chat server takes, `full` what OpenAI does, `scripted` plays a script."""
        return (
            self._upstream.toml
            + 'full = "full/some-model"\nscripted = "demo/any"\n'
            + f'[providers.full]\ntype = "chat"\nprofile = "openai"\nbase_url = "{self._upstream.url}"\n'
            + '[providers.demo]\ntype = "script"\n'
        )

    @property
    def last(self) -> dict[str, Any]:
        return self.heard[-1]

    def reset(self) -> None:
        self.heard.clear()
        self.say("Hello.")

    def say(self, *words: str, reason: str = "stop") -> None:
        """From now on, say this."""
        self.says = lambda call: call.finish(*words, reason=reason)

    def refuse(self, status: int, message: str = "no") -> None:
        self.says = lambda call: call.refuse(status, message)

    def call(self, *calls: tuple[str, str]) -> None:
        """From now on, call these functions: names with their arguments."""

        def says(call: Call) -> None:
            for n, (name, arguments) in enumerate(calls):
                call.begin_call(name, arguments, f"call_{len(self.heard)}_{n}")
            call.finish(reason="tool_calls")

        self.says = says

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(DEADLINE)

    def _answer(self) -> None:
        while not self._over.is_set():
            with suppress(queue.Empty):
                call = self._upstream.calls.get(timeout=0.02)
                self.heard.append(call.body)
                with suppress(OSError):  # whoever asked may be gone
                    self.says(call)
