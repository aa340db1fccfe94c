"""What a bridge shows, and the object that a harness plugs in."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from antiphon.spec.items import CORE_TYPES

_CALLS = frozenset({"function_call", "function_call_output"})


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """The section `[agent.open_responses]` of a harness's configuration. Unless it is enabled, nothing is."""

    enabled: bool = False
    emit_events: bool = True
    include_extensions: bool = True
    map_tool_calls: bool = True
    include_reasoning: bool = True

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """The section in a configuration; one that is missing leaves every default."""
        found: Any = tomllib.loads(text)
        for name in ("agent", "open_responses"):
            found = found.get(name, {}) if isinstance(found, Mapping) else {}
        return cls.of(found)

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> Self:
        names = [field.name for field in fields(cls)]
        for name, value in section.items():
            if name not in names:
                raise ValueError(f"agent.open_responses.{name} is unknown; there are: {', '.join(names)}")
            if not isinstance(value, bool):
                raise ValueError(f"agent.open_responses.{name} must be true or false, not {value!r}")
        return cls(**section)

    def effective(self) -> "BridgeOptions":
        """What counts: with `enabled` off, every switch is off."""
        return self if self.enabled else BridgeOptions(False, False, False, False, False)

    def shows(self, kind: str) -> str | None:
        """Under which type an item or an event goes out. Messages always do."""
        now = self.effective()
        if kind == "reasoning":
            shown = now.include_reasoning
        elif kind in _CALLS:
            shown = now.map_tool_calls
        else:
            shown = kind in CORE_TYPES or now.include_extensions
        return kind if shown else None
