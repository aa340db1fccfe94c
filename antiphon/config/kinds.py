"""The kinds of values that keys of the configuration have, and what a table of it is."""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct

from antiphon.config.secret import Secret, is_database_url, is_sealing_key

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


Seconds = Annotated[
    float, Meta(description='a time in seconds, or a text such as "30 s" or "1 h"', extra={"units": SECONDS})
]
Bytes = Annotated[
    int, Meta(description='a size in bytes, or a text such as "64 MiB"', extra={"units": BYTES})
]
Share = Annotated[
    float, Meta(description="true, false, or a share from 0 to 1 such as 0.01", extra={"reads": share})
]
Port = Annotated[int, Meta(ge=0, le=65535, description="a port number from 0 to 65535")]
Count = Annotated[int, Meta(ge=1, le=65536, description="a whole number from 1 to 65536")]
Slots = Annotated[int, Meta(ge=0, le=65536, description="a whole number from 0 to 65536")]
Name = Annotated[
    str, Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,1000}\Z", description="a text that is not empty, on one line")
]
Variable = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z",
        description="the name of an environment variable",
        extra={"private": True},
    ),
]
Url = Annotated[
    str,
    Meta(
        pattern=r"\Ahttps?://[^\s/?#@]+(/[^\s?#@]*)?\Z",
        description='an address such as "https://api.example.com/v1", without user name, "?" or "#"',
        extra={"private": True},
    ),
]
OriginPattern = Annotated[
    str,
    Meta(
        pattern=r"\A(\*|null|[a-z][a-z0-9+.-]*://[^\s/?#@]+)\Z",
        description='an origin such as "https://app.example.com", without a path, or "*"',
    ),
]
Host = Annotated[
    str,
    Meta(
        pattern=r"\A(\*|[^\s/?#@]+)\Z",
        description='a host name such as "api.example.com", without "https://", or "*"',
    ),
]
Sha256 = Annotated[
    str, Meta(pattern=r"\A[0-9a-fA-F]{64}\Z", description="64 hexadecimal digits", extra={"private": True})
]
SealingKey = Annotated[
    Secret,
    Meta(
        description="32 random bytes in base64 or hexadecimal, such as `openssl rand -base64 32` makes",
        extra={"accepts": is_sealing_key},
    ),
]
DatabaseUrl = Annotated[
    Secret,
    Meta(
        description='an address such as "postgresql://user@host:5432/database"',
        extra={"accepts": is_database_url},
    ),
]
Targets = Annotated[
    tuple[Name, ...], Meta(description='a target such as "groq/llama-3.3-70b"', extra={"single": True})
]

DialectName = Literal["auto", "open_responses", "openai", "ai_sdk", "vtcode", "vertice"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration file. Its fields are the keys, except the fields that the loader sets."""

    filled_in: ClassVar[frozenset[str]] = frozenset()
    rest: ClassVar[str | None] = None
    """The field that keeps the keys which are not fields; without one, they are mistakes."""
    tables_in: ClassVar[str | None] = None
    """The field that keeps the tables which are not fields: the code of a tool declares their keys."""


class ExtraOptions(dict[str, Any]):
    """A provider's own options. Some may be secret, so the `repr` shows only their names."""

    def __repr__(self) -> str:
        return f"Options({sorted(self)})"
