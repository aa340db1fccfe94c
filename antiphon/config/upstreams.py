"""The tables `[providers.NAME]`: what every upstream has. The keys of a type stand beside its code."""

from collections.abc import Collection, Mapping
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from msgspec import field
from msgspec.structs import replace

from antiphon.config.kinds import ExtraOptions, Name, Seconds, Section, Url, Variable
from antiphon.config.mistakes import ConfigErrors, Mistake, Where, quote, suggest
from antiphon.config.secret import Secret

if TYPE_CHECKING:
    from antiphon.config.schema import LocalSettings


class UpstreamTimeouts(Section, frozen=True, kw_only=True, dict=True):
    """How long an upstream may take, in seconds; 0 is no limit."""

    connect: Seconds = 10.0
    first_byte: Seconds = 300.0
    whole: Seconds = 900.0
    idle: Seconds = 120.0
    total: Seconds = 7200.0

    def for_answer(self, *, stream: bool) -> "UpstreamTimeouts":
        """The limits for one answer; an answer without a stream begins only when it is complete."""
        if stream:
            return self
        total = min(self.total, self.whole) if self.total and self.whole else self.total or self.whole
        return replace(self, first_byte=self.whole, total=total)

    @cached_property
    def soonest(self) -> float:
        """After how many seconds an answer may have taken too long, at the earliest."""
        return min(limit or inf for limit in (self.first_byte, self.idle, self.total, self.whole))


class ProviderSettings(Section, frozen=True, kw_only=True):
    """An upstream. A type that declares no Struct of its own finds its keys in `options`."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"name", "origin", "disabled", "options"})
    rest: ClassVar[str | None] = "options"
    needs_base_url: ClassVar[bool] = False
    embedded: ClassVar[bool] = False
    """Does it serve the model of `[local]`, and that alone?"""

    type: Name
    base_url: Url | None = None
    api_key: Secret | None = None
    api_key_env: Variable | None = None
    timeouts: UpstreamTimeouts = field(default_factory=UpstreamTimeouts)
    name: str = ""
    origin: Where = Where("built in")
    """Where the type is set."""
    disabled: str = ""
    """Why it cannot be used, in a sentence; empty when it can."""
    options: ExtraOptions = field(default_factory=ExtraOptions)

    @classmethod
    def variables(cls, table: Mapping[str, object]) -> Mapping[str, str]:
        """Which environment variable gives a key that this table does not have."""
        return {}

    def mistake(self, key: str, message: str) -> ConfigErrors:
        """The error that a provider's constructor raises for a wrong key."""
        return ConfigErrors([Mistake(self.origin, ("providers", self.name, key), message)])

    @classmethod
    def absence(cls) -> str | None:
        """Why this machine cannot run an embedded type at all, or None."""
        return None

    @classmethod
    def objection(cls, local: "LocalSettings") -> str | None:
        """What is wrong with the model that `[local]` names for an embedded type, or None."""
        return None


class DeclaredSettings(ProviderSettings, frozen=True, kw_only=True):
    """The base of a Struct that declares every key of its type: an unknown key is a mistake."""

    rest: ClassVar[str | None] = None


class HttpSettings(DeclaredSettings, frozen=True, kw_only=True):
    """An upstream over HTTP, with headers of the user's own."""

    headers: dict[str, Secret] = field(default_factory=dict)


class FoundProvider(NamedTuple):
    """A provider without configuration: the keys that its table would have, and where it was found."""

    name: str
    table: Mapping[str, Any]
    by: str
    """The variable that holds its key, or the address where it answers."""

    @property
    def is_paid(self) -> bool:
        """Do its requests cost money?"""
        return "://" not in self.by


class UnusableType(Exception):
    """A provider type cannot be used, or goes by another name; the message says which."""


def unknown_type(kind: str, known: Collection[str]) -> str:
    """The message for an unknown provider type: what to write instead."""
    if meant := suggest(kind, known):
        return f"unknown provider type {quote(kind)}{meant}"
    # What is like no type may be a secret in the wrong place, and is not repeated.
    return f"unknown provider type; the known types are {', '.join(sorted(known))}"
