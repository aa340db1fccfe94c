"""Formats numbers for people."""

from datetime import datetime

from rich.cells import cell_len, set_cell_size


def seconds(value: float) -> str:
    """
    >>> seconds(0.0421), seconds(3.21), seconds(75)
    ('42 ms', '3.2 s', '1 min 15 s')
    """
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value // 60)} min {int(value % 60)} s"


def count(value: int) -> str:
    """
    >>> count(812), count(12_345), count(128_000), count(1_000_000)
    ('812', '12.3k', '128k', '1M')
    """
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return str(value)


def money(value: float) -> str:
    """
    >>> money(0.0000123), money(0.0421), money(3.5)
    ('$0.000012', '$0.0421', '$3.50')
    """
    if value >= 1:
        return f"${value:.2f}"
    return f"${value:.4f}" if value >= 0.001 else f"${value:.6f}"


def shorten(text: str, width: int) -> str:
    """
    >>> shorten("a long title", 8), shorten("short", 8)
    ('a long …', 'short')
    """
    if cell_len(text) <= width:
        return text
    return f"{set_cell_size(text, max(0, width - 1))}…"


def day(stamp: float, now: float) -> str:
    """Formats a time for a list: the time of day if it was today, else the date."""
    then, today = datetime.fromtimestamp(stamp), datetime.fromtimestamp(now)
    if then.date() == today.date():
        return then.strftime("%H:%M")
    return then.strftime("%d %b" if then.year == today.year else "%d %b %Y")
