"""How far a long step has come, and how that is shown to a person."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """Something that takes a while; with `done` it counts bytes."""

    what: str
    done: int | None = None
    total: int | None = None

    @property
    def percent(self) -> int | None:
        if self.done is None or not self.total:
            return None
        return min(100, self.done * 100 // self.total)

    def __str__(self) -> str:
        if self.done is None:
            return self.what
        if self.percent is None:
            return f"{self.what}: {self.done / _MIB:.0f} MiB"
        return f"{self.what}: {self.percent} % of {(self.total or 0) / _MIB:.0f} MiB"


Progress = Callable[[ProgressStep], None]


def silent(step: ProgressStep) -> None:
    """Shows nothing."""


class Milestones:
    """Passes on the first sight of a step and then every tenth of it (or 16 MiB), for logs and pipes."""

    def __init__(self, show: Progress) -> None:
        self._show = show
        self._last: tuple[str, int | None] | None = None

    def __call__(self, step: ProgressStep) -> None:
        mark = None if step.done is None else step.done // (16 * _MIB)
        if step.percent is not None:
            mark = step.percent // 10
        if (step.what, mark) != self._last:
            self._last = (step.what, mark)
            self._show(step)


class Console:
    """Steps on standard error: one line that is rewritten on a terminal, milestones elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._what: str | None = None
        self._width = 0
        self._show: Progress = self._rewrite if self._stream.isatty() else Milestones(self._write)

    def __call__(self, step: ProgressStep) -> None:
        self._show(step)

    def _write(self, step: ProgressStep) -> None:
        print(f"antiphon: {step}", file=self._stream, flush=True)

    def _rewrite(self, step: ProgressStep) -> None:
        if self._what is not None and step.what != self._what:
            self.close()
        line = f"antiphon: {step}"
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._what, self._width = step.what, len(line)

    def close(self) -> None:
        """Ends the line that is being rewritten."""
        if self._what is not None:
            self._stream.write("\n")
            self._stream.flush()
        self._what, self._width = None, 0
