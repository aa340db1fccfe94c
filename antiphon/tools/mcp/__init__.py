"""`mcp`: the tools of MCP servers, on any model."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import ClassVar

from antiphon.config import ToolSettings
from antiphon.config.known_secrets import KnownSecrets
from antiphon.spec.codec import Opaque
from antiphon.spec.items import Item
from antiphon.tools.base import MARK, HostedTool, Scope, ToolEnvironment, ToolSession, tell_as_call
from antiphon.tools.mcp.declared import McpSettings, read
from antiphon.tools.mcp.links import Links
from antiphon.tools.mcp.session import CALL, LIST, REQUEST, RESPONSE, McpSession

_NO_OUTPUT = "(no output was recorded)"
_DENIED = "The user has not approved this call, and it was not run."
_WAITS = "This call waits for the user's approval, and has not been run."
_APPROVAL_SECONDS = 30 * 86400.0


class Mcp(HostedTool):
    Settings: ClassVar[type[ToolSettings]] = McpSettings
    types = frozenset({"mcp"})
    items = frozenset({LIST, CALL, REQUEST, RESPONSE})
    is_named = True
    settings: McpSettings

    def __init__(self, settings: McpSettings, environment: ToolEnvironment) -> None:
        super().__init__(settings, environment)
        for name, server in settings.servers.items():
            if bool(server.url) == bool(server.command):
                raise settings.mistake(f"servers.{name}", "expected `url` or `command`, one of them")
        self._servers = settings.servers
        self._is_open = bool(settings.allow or settings.allow_any or settings.servers)
        self._links = Links(settings, environment.secrets)

    def unavailable(self, declared: Opaque) -> str | None:
        if not self._is_open:
            return "no MCP server is allowed here; [tools.mcp] says which may be used"
        if find_spec("mcp") is None:
            return "MCP needs another package; install it with: pip install 'antiphon[mcp]'"
        label = declared.fields.get("server_label")
        is_configured = isinstance(label, str) and label in self._servers
        if not is_configured and (declared.fields.get("connector_id") or declared.fields.get("tunnel_id")):
            return "the gateway has no connectors; give a `server_url`, or a label of [tools.mcp.servers]"
        return None

    def is_ours(self, declared: Opaque) -> bool:
        label = declared.fields.get("server_label")
        return not declared.fields.get("server_url") and isinstance(label, str) and label in self._servers

    def permissions(self, declared: Opaque, param: str) -> Sequence[str]:
        server = read(declared, param)
        self._links.check(server, param)
        named = f"mcp:{server.server_label}"
        # A label of the client's own choice is no permission for a server that has it here.
        return [named] if server.server_label in self._servers else [named, "mcp"]

    async def open(self, declared: Opaque, scope: Scope) -> ToolSession:
        server = read(declared, scope.param)
        self._links.check(server, scope.param)
        configured = self._servers.get(server.server_label)
        link, closes = self._links.link(server)
        environment = self.environment
        ttl = environment.config.store.ttl or _APPROVAL_SECONDS
        session = McpSession(
            server,
            scope,
            link,
            closes=closes,
            approval="always" if configured is None else configured.require_approval,
            address=(configured.url if configured else server.server_url) or server.server_label,
            store=environment.store,
            secrets=KnownSecrets(server.secrets(), environment.secrets),
            expires_at=int(environment.clock() + ttl),
        )
        await self._links.load()
        try:
            await session.list_tools(self.settings.connect + self.settings.timeout)
        except BaseException:  # the loop, which closes sessions, does not know this one yet
            await session.close()
            raise
        return session

    def is_own(self, item: Opaque, context: Sequence[Item]) -> bool:
        if item.type != RESPONSE:
            return MARK in item.fields
        asked = item.fields.get("approval_request_id")
        return any(isinstance(one, Opaque) and one.id == asked and MARK in one.fields for one in context)

    def recall(self, item: Opaque, context: Sequence[Item]) -> list[Item] | None:
        fields = item.fields
        if item.type == CALL:
            output, error = fields.get("output"), fields.get("error")
            wrong = error.get("message") if isinstance(error, dict) else error
            return _recall_call(item, output if isinstance(output, str) else str(wrong or _NO_OUTPUT))
        if item.type == RESPONSE and not self.is_own(item, context):
            return None  # the provider leaves a receipt: the request was not made here
        if item.type != REQUEST:
            return []
        others = [one.fields for one in context if isinstance(one, Opaque) and one.type in (CALL, RESPONSE)]
        about = [one for one in others if one.get("approval_request_id") == item.id]
        if any(one.get("type") == CALL or one.get("approve") is True for one in about):
            return []
        reason = next((one["reason"] for one in about if one.get("reason")), "")
        said = _DENIED if about else _WAITS
        return _recall_call(item, f"{said} Their reason: {reason}" if reason else said)

    async def close(self) -> None:
        await self._links.close()


def _recall_call(item: Opaque, output: str) -> list[Item]:
    fields = item.fields
    name = f"{fields.get('server_label')}__{fields.get('name')}"
    return tell_as_call(item, name, str(fields.get("arguments") or "{}"), output)
