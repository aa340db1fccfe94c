"""Line charts as SVG, nothing but strings: both axes logarithmic with a line with points for each contender,
or what happened over time, from zero on.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 44, 84
COLOURS = ("#c0392b", "#2166ac", "#2e7d32", "#8e44ad", "#b8860b")
_FONT = 'font-family="sans-serif" font-size="12"'

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn from pixel `start` to pixel `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> "Axis":
        """Wide enough for the values: whole powers of ten, or half of one."""
        low, high = math.log10(min(values)), math.log10(max(values))
        low, high = math.floor(low * 2) / 2, math.ceil(high * 2) / 2
        if low == high:
            low, high = low - 0.5, high + 0.5
        return cls(10**low, 10**high, start, end)

    def at(self, value: float) -> float:
        part = math.log10(value / self.low) / math.log10(self.high / self.low)
        return round(self.start + part * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Powers of ten, with twos and fives between them where there is room."""
        decades = math.log10(self.high / self.low)
        steps = (1,) if decades > 3 else (1, 2, 5)
        powers = range(math.floor(math.log10(self.low)) - 1, math.ceil(math.log10(self.high)) + 1)
        made = [step * 10.0**power for power in powers for step in steps]
        return [tick for tick in made if self.low * 0.999 <= tick <= self.high * 1.001]


class Linear(Axis):
    """An axis from zero on."""

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> "Linear":
        high = max(*values, 1e-9)
        step = _step(high)
        return cls(0.0, math.ceil(high / step) * step, start, end)

    def at(self, value: float) -> float:
        return round(self.start + value / self.high * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        step = _step(self.high)
        return [step * n for n in range(round(self.high / step) + 1)]


def _step(high: float) -> float:
    """A round number of which four to ten go into the highest value."""
    power = 10.0 ** math.floor(math.log10(high))
    return next(power * part for part in (0.1, 0.2, 0.5, 1.0) if high / (power * part) <= 10)


def chart(title: str, across: str, up: str, lines: Mapping[str, Points]) -> str:
    """Every value must be above zero. `across` and `up` are the labels of the axes."""
    points = [point for line in lines.values() for point in line]
    if not points or any(x <= 0 or y <= 0 for x, y in points):
        raise ValueError("a chart needs points, all above zero")
    return _drawn(title, across, up, lines, Axis, dots=True)


def timeline(title: str, across: str, up: str, lines: Mapping[str, Points]) -> str:
    """What happened over time; no value is below zero."""
    return _drawn(title, across, up, lines, Linear, dots=False)


def _drawn(
    title: str, across: str, up: str, lines: Mapping[str, Points], axis: type[Axis], *, dots: bool
) -> str:
    points = [point for line in lines.values() for point in line]
    x = axis.over([point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = axis.over([point[1] for point in points], HEIGHT - BOTTOM, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(middle, 24, title, size=15),
        *(_grid(x, y)),
        _text(middle, HEIGHT - BOTTOM + 40, across),
        f'<g transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">{_text(0, 0, up)}</g>',
    ]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(x.at(a), y.at(b)) for a, b in sorted(line)]
        path = " ".join(f"{a},{b}" for a, b in places)
        made.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if dots:
            made += [f'<circle cx="{a}" cy="{b}" r="3.5" fill="{colour}"/>' for a, b in places]
        at = LEFT + number * (WIDTH - LEFT - RIGHT) / len(lines)
        made.append(f'<rect x="{at:.0f}" y="{HEIGHT - 26}" width="14" height="4" fill="{colour}"/>')
        made.append(_text(at + 20, HEIGHT - 20, name, anchor="start"))
    return "\n".join([*made, "</svg>", ""])


def _grid(x: Axis, y: Axis) -> list[str]:
    made: list[str] = []
    for tick in x.ticks():
        at = x.at(tick)
        made.append(_rule(at, y.start, at, y.end))
        made.append(_text(at, y.start + 18, number(tick)))
    for tick in y.ticks():
        at = y.at(tick)
        made.append(_rule(x.start, at, x.end, at))
        made.append(_text(x.start - 8, at + 4, number(tick), anchor="end"))
    return made


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12) -> str:
    font = _FONT.replace("12", str(size))
    return f'<text x="{x:.0f}" y="{y:.0f}" {font} fill="#222222" text-anchor="{anchor}">{escape(text)}</text>'


def number(value: float) -> str:
    """1000000 as 1M, 20000 as 20k, 0.5 as 0.5."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
