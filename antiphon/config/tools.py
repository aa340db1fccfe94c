"""The table `[tools]`: limits of all hosted tools, and one table for each of them.

The keys of one tool stand beside its code: its table is read into the Struct that the tool declares.
"""

from typing import ClassVar, Literal

from msgspec import field

from antiphon.config.kinds import Bytes, Count, Seconds, Section
from antiphon.config.mistakes import ConfigErrors, Mistake, Where


class ToolSettings(Section, frozen=True, kw_only=True):
    """What the table of every hosted tool has."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"name", "origin"})

    run: Literal["auto", "gateway", "provider"] = "auto"
    """Who runs it: `auto` leaves it to a provider that does so by itself, and is the gateway elsewhere."""
    timeout: Seconds = 60.0
    """How long one call may take."""
    limit: Bytes = 256 * 1024
    """How large one result may be for the model; more of it is cut off."""
    name: str = ""
    origin: Where = Where("built in")

    def mistake(self, key: str, message: str) -> ConfigErrors:
        """The error that a tool's constructor raises for a wrong key.

        A key in a table of its own has dots: `servers.docs`.
        """
        return ConfigErrors([Mistake(self.origin, ("tools", self.name, *key.split(".")), message)])


class ToolsSettings(Section, frozen=True, kw_only=True):
    """Limits of one response, whatever tools it uses."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"tables"})
    tables_in: ClassVar[str | None] = "tables"

    turns: Count = 32
    parallel: Count = 8
    timeout: Seconds = 600.0
    limit: Bytes = 4 * 1024 * 1024
    tables: dict[str, ToolSettings] = field(default_factory=dict)
    """The table of each tool that is configured, by its name."""
