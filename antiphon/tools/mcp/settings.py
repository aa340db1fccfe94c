"""The table `[tools.mcp]`: which servers clients may use, and the servers that the operator has named."""

from typing import ClassVar, Literal

from msgspec import field

from antiphon.config import Secret, ToolSettings
from antiphon.config.kinds import Bytes, Name, Seconds, Section, Url, Variable


class OAuthSettings(Section, frozen=True, kw_only=True):
    """How the gateway gets a token for a server, as a client with credentials of its own."""

    client_id: Name
    client_secret: Secret
    issuer: Url
    scope: Name | None = None


class McpServerSettings(Section, frozen=True, kw_only=True):
    """A server that requests name by its label: at an address, or a program that the gateway runs."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"name"})

    url: Url | None = None
    transport: Literal["auto", "http", "sse"] = "auto"
    headers: dict[str, Secret] = field(default_factory=dict)
    authorization: Secret | None = None
    oauth: OAuthSettings | None = None
    command: tuple[Name, ...] = ()
    env: dict[str, Secret] = field(default_factory=dict)
    pass_env: tuple[Variable, ...] = ()
    cwd: Name | None = None
    client_headers: bool = False
    """May a request bring `authorization` and `headers` of its own for this server?"""
    require_approval: Literal["always", "never"] = "always"
    name: str = ""


class McpSettings(ToolSettings, frozen=True, kw_only=True):
    allow: tuple[Url, ...] = ()
    allow_any: bool = False
    connect: Seconds = 10.0
    body_limit: Bytes = 4 * 1024 * 1024
    servers: dict[str, McpServerSettings] = field(default_factory=dict)
