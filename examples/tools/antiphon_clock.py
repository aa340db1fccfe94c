"""`{"type": "acme:clock"}`: a hosted tool that tells the model what time it is."""

from datetime import datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import msgspec

from antiphon import Opaque
from antiphon.config import ToolSettings
from antiphon.tools.base import Function, HostedCall, HostedTool, Outcome, Scope, ToolFailure, ToolSession

CALL = "acme:clock_call"


class ClockSettings(ToolSettings, frozen=True, kw_only=True):
    """The keys of `[tools.clock]`, besides the common ones."""

    zone: str = "UTC"


class Clock(HostedTool):
    """What the gateway keeps for as long as it runs."""

    Settings: ClassVar[type[ToolSettings]] = ClockSettings
    types = frozenset({"acme:clock"})
    items = frozenset({CALL})

    async def open(self, declared: Opaque, scope: Scope) -> ToolSession:
        assert isinstance(self.settings, ClockSettings)
        return ClockSession(self.settings.zone)


class ClockSession(ToolSession):
    """The tool in one response."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        parameters = {"type": "object", "properties": {"zone": {"type": "string"}}}
        self.functions = [Function("clock", f"The time, in {zone} or in another zone.", parameters)]

    def begin(self, call: HostedCall) -> None:
        call.item(type=CALL, status="in_progress", zone=None, time=None)

    async def run(self, call: HostedCall) -> Outcome:
        zone = msgspec.json.decode(call.arguments, type=dict[str, str]).get("zone", self._zone)
        try:
            now = datetime.now(ZoneInfo(zone)).isoformat(timespec="seconds")
        except (KeyError, ValueError):
            raise ToolFailure(f"there is no zone {zone!r}; give one such as Europe/Berlin") from None
        return Outcome(now, _item("completed", zone=zone, time=now))

    def failure(self, call: HostedCall, message: str) -> Outcome:
        return Outcome(message, _item("failed", zone=None, time=None), failed=True)


def _item(status: str, **fields: Any) -> dict[str, Any]:
    return {"type": CALL, "status": status, **fields}
