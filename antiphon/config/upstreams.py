"""The tables `[providers.NAME]`: what every upstream has. The keys of a type stand beside its code."""

from collections.abc import Mapping
from functools import cached_property
from math import inf
from typing import ClassVar

from msgspec import field
from msgspec.structs import replace

from antiphon.config.kinds import ExtraOptions, Name, Seconds, Section, Url, Variable
from antiphon.config.mistakes import ConfigErrors, Mistake, Where
from antiphon.config.secret import Secret


class UpstreamTimeouts(Section, frozen=True, kw_only=True, dict=True):
    """How long an upstream may take, in seconds; 0 is no limit."""

    connect: Seconds = 10.0
    first_byte: Seconds = 300.0
    whole: Seconds = 900.0
    idle: Seconds = 120.0
    total: Seconds = 7200.0

    def patient(self, *, stream: bool) -> "UpstreamTimeouts":
        """The limits for one answer: one that is not streamed begins only when it is complete."""
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

    filled_in: ClassVar[frozenset[str]] = frozenset({"name", "origin", "options"})
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
    options: ExtraOptions = field(default_factory=ExtraOptions)

    @classmethod
    def variables(cls, table: Mapping[str, object]) -> Mapping[str, str]:
        """Which environment variable gives a key that this table does not have."""
        return {}

    def mistake(self, key: str, message: str) -> ConfigErrors:
        """What a provider raises that finds, while it is made, that one of its keys is wrong."""
        return ConfigErrors([Mistake(self.origin, ("providers", self.name, key), message)])


class DeclaredSettings(ProviderSettings, frozen=True, kw_only=True):
    """The base of a Struct that declares every key of its type: an unknown key is a mistake."""

    rest: ClassVar[str | None] = None


class HttpSettings(DeclaredSettings, frozen=True, kw_only=True):
    """An upstream over HTTP, with headers of the user's own."""

    headers: dict[str, Secret] = field(default_factory=dict)


class UnusableType(Exception):
    """A provider type is known but cannot be used; the message says why."""
