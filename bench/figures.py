"""What was measured: a figure has one value for each round, a part its figures, a run its parts."""

import os
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bench.options import Options
from bench.processes import Bystanders

TIMES = "\N{MULTIPLICATION SIGN}"
"""The unit of ratios. Both sides of a ratio were measured in the same round."""


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a figure stands in a chart."""

    chart: str
    line: str
    x: float


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    unit: str
    values: list[float]
    better: Literal["lower", "higher"] = "lower"
    place: Place | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        """The median, and how far single rounds lie apart."""
        low, high = min(self.values), max(self.values)
        apart = f" ({amount(low)}-{amount(high)})" if len(self.values) > 1 else ""
        return f"{amount(self.median)}{apart}"


class Part(msgspec.Struct):
    """One part of a run: when and where, and how many processors other programs kept busy meanwhile."""

    when: str
    machine: str
    busy: float
    seconds: float
    figures: dict[str, Figure]
    options: Options = Options()


class Run(msgspec.Struct):
    parts: dict[str, Part]

    @classmethod
    def load(cls, file: Path) -> "Run":
        try:
            return msgspec.json.decode(file.read_bytes(), type=cls)
        except OSError as error:
            raise SystemExit(f"bench: {file} cannot be read: {error.strerror}") from None
        except msgspec.DecodeError as error:
            raise SystemExit(f"bench: {file} holds no saved run: {error}") from None

    def save(self, file: Path) -> None:
        """One line a figure, so that two versions can be told apart by eye."""
        lines = msgspec.json.encode(self).replace(b'},"', b'},\n"').replace(b'"figures":{', b'"figures":{\n')
        file.write_bytes(lines + b"\n")

    def figure(self, part: str, name: str) -> Figure | None:
        found = self.parts.get(part)
        return found.figures.get(name) if found else None


class Recorder:
    """Takes the figures of one part while it runs."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._figures: dict[str, Figure] = {}
        self._started = time.perf_counter()
        self._bystanders = Bystanders()

    def add(
        self,
        name: str,
        values: Sequence[float],
        unit: str,
        better: Literal["lower", "higher"] = "lower",
        place: Place | None = None,
    ) -> Figure:
        assert name not in self._figures, name
        rounded = [float(f"{value:.5g}") for value in values]
        figure = self._figures[name] = Figure(unit, rounded, better, place)
        return figure

    def ratio(
        self,
        name: str,
        upper: Sequence[float],
        lower: Sequence[float],
        better: Literal["lower", "higher"] = "lower",
        place: Place | None = None,
    ) -> Figure:
        return self.add(name, paired(upper, lower), TIMES, better, place)

    def part(self) -> Part:
        now = time.strftime("%Y-%m-%d", time.gmtime())
        seconds = time.perf_counter() - self._started
        busy = round(self._bystanders.cores(), 2)
        return Part(now, machine(), busy, round(seconds, 1), self._figures, self._options)


def paired(upper: Sequence[float], lower: Sequence[float]) -> list[float]:
    """The ratios of single rounds."""
    return [a / b for a, b in zip(upper, lower, strict=True)]


def amount(value: float) -> str:
    """Three digits that count, as people write them."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def machine() -> str:
    return f"{_processor()}, {os.cpu_count()} processors, Python {platform.python_version()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
