"""MCP servers as typed data: as the table `[tools.mcp]` names them, and as a request declares one."""

import re
from typing import ClassVar, Literal

import msgspec
from msgspec import Struct

from antiphon.config import Secret, ToolSettings
from antiphon.config.kinds import Bytes, Name, Seconds, Section, Url, Variable
from antiphon.config.known_secrets import secrets_among
from antiphon.spec.codec import Opaque
from antiphon.spec.errors import SpecError, invalid_param

_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# Headers that the transport sets itself, and headers that say where a request goes.
_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)


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
    headers: dict[str, Secret] = msgspec.field(default_factory=dict)
    authorization: Secret | None = None
    oauth: OAuthSettings | None = None
    command: tuple[Name, ...] = ()
    env: dict[str, Secret] = msgspec.field(default_factory=dict)
    pass_env: tuple[Variable, ...] = ()
    cwd: Name | None = None
    client_headers: bool = False
    """May a request bring `authorization` and `headers` of its own for this server?"""
    require_approval: Literal["always", "never"] = "always"
    name: str = ""


class McpSettings(ToolSettings, frozen=True, kw_only=True):
    """The table `[tools.mcp]`: which servers clients may use, and the servers that the operator has named."""

    allow: tuple[Url, ...] = ()
    allow_any: bool = False
    connect: Seconds = 10.0
    body_limit: Bytes = 4 * 1024 * 1024
    servers: dict[str, McpServerSettings] = msgspec.field(default_factory=dict)


class ToolFilter(Struct):
    """Chooses tools by their names, or by whether they only read, or by both."""

    tool_names: list[str] | None = None
    read_only: bool | None = None

    def matches(self, name: str, reads_only: bool) -> bool:
        if self.tool_names is None and self.read_only is None:
            return False
        return (self.tool_names is None or name in self.tool_names) and (
            self.read_only is None or self.read_only == reads_only
        )


class ApprovalFilter(Struct):
    always: ToolFilter | list[str] | None = None
    never: ToolFilter | list[str] | None = None


class DeclaredServer(Struct, kw_only=True):
    """A server and what of it the model may use."""

    server_label: str
    server_url: str | None = None
    server_description: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | ToolFilter | None = None
    require_approval: Literal["always", "never"] | ApprovalFilter | None = None
    refresh: bool = msgspec.field(name="antiphon:refresh", default=False)

    __repr__ = object.__repr__  # which shows no credential

    def secrets(self) -> list[str]:
        """What the request brings for this server alone."""
        return [self.authorization or "", *secrets_among(self.headers or {})]

    def allows(self, name: str, reads_only: bool) -> bool:
        """May the model use this tool at all?"""
        allowed = self.allowed_tools
        if allowed is None:
            return True
        return _filter(allowed).matches(name, reads_only)

    def needs_approval(self, name: str, reads_only: bool, default: str) -> bool:
        """Has the client to allow each call of this tool?

        A filter for some tools leaves the others as its opposite: a client that lists what needs no approval
        approves the rest. A tool that both filters list needs approval.
        """
        asked = self.require_approval or default
        if not isinstance(asked, ApprovalFilter):
            return asked == "always"
        if asked.always is not None and _filter(asked.always).matches(name, reads_only):
            return True
        if asked.never is not None:
            return not _filter(asked.never).matches(name, reads_only)
        return asked.always is None


def _filter(given: list[str] | ToolFilter) -> ToolFilter:
    return ToolFilter(tool_names=given) if isinstance(given, list) else given


def read(declared: Opaque, param: str) -> DeclaredServer:
    """The declaration; what is wrong with it is a `SpecError` that names the place, and no credential."""
    given = {name: value for name, value in declared.fields.items() if value is not None}
    try:
        found = msgspec.convert(given, DeclaredServer)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        place = f"{param}{where.rstrip('`')}"
        raise SpecError(invalid_param(place, what)) from None
    if not _LABEL.fullmatch(found.server_label):
        message = "a label has 1 to 64 letters, digits, `_`, `-` and `.`"
        raise SpecError(invalid_param(f"{param}.server_label", message))
    for name, value in (found.headers or {}).items():
        if not _HEADER.fullmatch(name) or not _is_sendable(value) or name.lower() in _OURS:
            message = (
                "a header has a name and a value that can be sent, and is not one of the transport's own"
            )
            raise SpecError(invalid_param(f"{param}.headers", message))
    if not _is_sendable(found.authorization or ""):
        message = "a token has printable ASCII characters only"
        raise SpecError(invalid_param(f"{param}.authorization", message))
    return found


def _is_sendable(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value)
