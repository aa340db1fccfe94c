"""Every check, one module a group; importing this registers them all."""

from antiphon.compliance import observing
from antiphon.compliance.checks import (
    bodies,
    compaction,
    content,
    echoes,
    formats,
    limits,
    official,
    state,
    streaming,
    tenants,
    tools,
    websocket,
)

__all__ = [
    "bodies",
    "compaction",
    "content",
    "echoes",
    "formats",
    "limits",
    "observing",
    "official",
    "state",
    "streaming",
    "tenants",
    "tools",
    "websocket",
]
