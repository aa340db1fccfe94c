"""Times, sizes and shares as people write them: `90`, `"1.5 h"`, `"64 MiB"`, `0.01`."""

import math
import re
from collections.abc import Mapping
from typing import Final

SECONDS: Final[Mapping[str, float]] = {
    "": 1,
    "ms": 0.001,
    "s": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "d": 86400,
}
BYTES: Final[Mapping[str, float]] = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "kib": 1024,
    "mb": 1000**2,
    "mib": 1024**2,
    "gb": 1000**3,
    "gib": 1024**3,
}

_WORDS: Final[Mapping[str, str]] = {"true": "1", "false": "0"}
_AMOUNT: Final = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*")


def amount(value: object, units: Mapping[str, float]) -> float | None:
    """The value in the base unit, or None when it is not a finite amount that is zero or more."""
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value)
        if match is None or match[2].lower() not in units:
            return None
        return float(match[1]) * units[match[2].lower()]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < 1e18 or math.isnan(value):
        return None
    return float(value)


def share(value: object) -> float | None:
    """How much of the whole: `true` is all of it, `false` nothing; None when it is no share."""
    if isinstance(value, str):
        try:
            value = float(_WORDS.get(value.strip().lower(), value))
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None
