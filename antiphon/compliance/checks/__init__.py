"""Every check, one module a group; importing this registers them all."""

from antiphon.compliance import observations
from antiphon.compliance.checks import (
    bodies,
    compaction,
    content,
    echoes,
    formats,
    hosted,
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
    "hosted",
    "limits",
    "observations",
    "official",
    "state",
    "streaming",
    "tenants",
    "tools",
    "websocket",
]
