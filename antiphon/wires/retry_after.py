"""How long a server asks to wait before the next try: `Retry-After` and its form in milliseconds."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST_VALUE = 100


def retry_after(
    headers: Mapping[str, str], now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> float | None:
    """The seconds that these headers (named in lower case) ask for; None if they ask for nothing readable.

    >>> retry_after({"retry-after": "20"})
    20.0
    >>> retry_after({"retry-after-ms": "1500", "retry-after": "20"})
    1.5
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    return _until(value, now) if seconds is None else seconds


def _number(value: str) -> float | None:
    try:
        number = float(value) if len(value) <= _LONGEST_VALUE else float("nan")
    except ValueError:
        return None
    return max(0.0, number) if number < float("inf") else None


def _until(value: str, now: Callable[[], datetime]) -> float | None:
    """A date, which is in GMT if it does not say."""
    try:
        date = parsedate_to_datetime(value[:_LONGEST_VALUE])
    except (ValueError, OverflowError):
        return None
    left = (date if date.tzinfo else date.replace(tzinfo=UTC)) - now()
    return max(0.0, left.total_seconds())
