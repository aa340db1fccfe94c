"""One MCP server in one response: its list, its calls, and the client's approval of them."""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from antiphon.config.known_secrets import KnownSecrets
from antiphon.providers.http.failures import Forbidden
from antiphon.spec import ids
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import ContentPart, InputText
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.items import Item
from antiphon.spec.limits import NOT_IN_NAME
from antiphon.store.base import Approval
from antiphon.store.store import Store
from antiphon.tools.base import Function, HostedCall, Outcome, Resumed, Scope, ToolFailure, ToolSession
from antiphon.tools.mcp.declared import DeclaredServer
from antiphon.tools.mcp.links import HttpFailure, Link, McpAnswerTooLarge, McpAnswerUnreadable, NotAllowed
from antiphon.wires.mcp import content, list_tools, words
from antiphon.wires.worker_thread import in_worker_thread

if TYPE_CHECKING:
    from mcp.types import Tool

log = logging.getLogger(__name__)

LIST, CALL = "mcp_list_tools", "mcp_call"
REQUEST, RESPONSE = "mcp_approval_request", "mcp_approval_response"
_SERVER = "antiphon:server"
"""The field of a list that tells which server it came from: a digest of its address."""
_MOST_TOOLS = 512
_LARGEST_LIST = 1024 * 1024
_GONE = -32000
"""The code of JSON-RPC for a server that failed in a way of its own."""
_NO_TOOL = "the server has no such tool, or not any more, or it is not allowed"


class ListedTool(NamedTuple):
    """One tool of the server, as its list describes it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, Any] | None

    @property
    def reads_only(self) -> bool:
        return bool((self.annotations or {}).get("readOnlyHint", False))

    @property
    def is_idempotent(self) -> bool:
        return self.reads_only or bool((self.annotations or {}).get("idempotentHint", False))


class _Answer(NamedTuple):
    """What the client said to a request for approval."""

    approval: Approval
    item: Opaque
    approves: bool


class McpSession(ToolSession):
    def __init__(
        self,
        server: DeclaredServer,
        scope: Scope,
        link: Link,
        *,
        closes: bool,
        approval: str,
        address: str,
        store: Store,
        secrets: KnownSecrets,
        expires_at: int,
    ) -> None:
        self._server = server
        self._scope = scope
        self._link = link
        self._closes = closes
        self._approval = approval
        self._address = hashlib.sha256(address.encode()).hexdigest()[:16]
        self._store = store
        self._secrets = secrets
        """What is sent to the server beside the calls, and may not come back with its answers."""
        self._expires_at = expires_at
        self._tools: dict[str, ListedTool] = {}
        self._is_sent = False
        """Did the client send the list with this request? Then it may name anything."""
        self._own_names: frozenset[str] | None = None
        self._trouble = ""
        """Why there is no list."""
        self._answers: list[_Answer] = []
        self._taken: list[Approval] = []

    # --- the list -----------------------------------------------------------------------------------------

    async def list_tools(self, seconds: float) -> None:
        """Take the list of an earlier response of the chain, or ask the server, and show what it says."""
        found = None if self._server.refresh else self._find_known_list()
        if found is None:
            found = await self._ask_for_list(seconds)
        label = self._server.server_label
        for tool in found:
            if self._server.allows(tool.name, tool.reads_only):
                self._tools[f"{label}__{tool.name}"] = tool
        about = f" ({self._server.server_description})" if self._server.server_description else ""
        self.functions = [
            Function(name, f"{tool.description}{about}".strip(), tool.input_schema)
            for name, tool in self._tools.items()
        ]

    def _find_known_list(self) -> list[ListedTool] | None:
        label, wanted = self._server.server_label, self._server.allowed_tools
        for item in reversed(self._scope.items):
            if not isinstance(item, Opaque) or item.type != LIST:
                continue
            fields = item.fields
            if fields.get("server_label") != label or fields.get(_SERVER, self._address) != self._address:
                continue
            tools = _read(fields.get("tools"))
            lacks = isinstance(wanted, list) and not set(wanted) <= {tool.name for tool in tools}
            if lacks or not tools or fields.get("error"):
                return None
            self._is_sent = any(one is item or one == item for one in _of_type(self._scope.given, LIST))
            return tools
        return None

    async def _ask_for_list(self, seconds: float) -> list[ListedTool]:
        key, label = f"antiphon:list:{self._scope.param}", self._server.server_label
        scope = self._scope
        begun: dict[str, Any] = {"type": LIST, "server_label": label, "tools": [], "error": None}
        scope.item(key, begun)
        scope.event(key, f"response.{LIST}.in_progress")
        tools: list[ListedTool] = []
        error: str | None = None
        try:
            async with asyncio.timeout(seconds):
                answered = await self._link.ask(list_tools)
                tools = await in_worker_thread(_check_list, answered, self._server.allows, self._secrets)
        except Exception as raised:
            error = self._trouble = str(self._describe_and_log(raised)["message"])
        shown = [tool._asdict() for tool in tools]
        status = "failed" if error else "completed"
        scope.event(key, f"response.{LIST}.{status}")
        done = {**begun, "status": status, "tools": shown, "error": error, _SERVER: self._address}
        scope.item(key, done, done=True)
        return tools

    # --- calls --------------------------------------------------------------------------------------------

    def begin(self, call: HostedCall) -> None:
        if not self._waits(call):
            call.item(**self._item(call, "in_progress", arguments=""))
            call.event(f"response.{CALL}.in_progress")

    def write(self, call: HostedCall, piece: str) -> None:
        if not self._waits(call):
            call.event("response.mcp_call_arguments.delta", delta=piece)

    async def run(self, call: HostedCall) -> Outcome:
        tool = self._tools.get(call.function)
        if tool is None:
            raise ToolFailure(self._trouble or _NO_TOOL)
        if self._waits(call):
            return await self._ask_for_approval(call, tool)
        call.event("response.mcp_call_arguments.done", arguments=call.arguments)
        arguments = call.read_arguments()
        if arguments is None:
            return self.failure(call, "the arguments are no JSON object")
        try:
            if self._is_sent and not await self._has(tool.name):
                return self.failure(call, _NO_TOOL)
            result = await self._link.ask(lambda client: client.call_tool(tool.name, arguments))
            parts = [self._mask_part(part) for part in content(result)]
        except Exception as error:
            return self._fail(call, self._describe_and_log(error))
        output = _plain(parts)
        if result.is_error:
            said = words(parts) or "the tool failed"
            wrong = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": said}]}
            call.event(f"response.{CALL}.failed")
            return Outcome(output or said, self._item(call, "failed", error=wrong), failed=True)
        call.event(f"response.{CALL}.completed")
        return Outcome(output, self._item(call, "completed", output=words(parts)))

    def _describe_and_log(self, error: Exception) -> dict[str, Any]:
        """Describe an error for the client, and log its kind, but nothing that it quotes."""
        kind, code = type(error).__name__, getattr(error, "code", "")
        log.info("the MCP server %r failed: %s %s", self._server.server_label, kind, code)
        masked: dict[str, Any] = self._secrets.mask_in(describe_error(error))
        return masked

    def _mask_part(self, part: ContentPart) -> ContentPart:
        return InputText(self._secrets.mask(part.text)) if isinstance(part, InputText) else part

    async def _has(self, name: str) -> bool:
        """Is a tool in the server's own list, which is asked for once?"""
        if self._own_names is None:
            self._own_names = frozenset(tool.name for tool in await self._link.ask(list_tools))
        return name in self._own_names

    def is_idempotent(self, function: str) -> bool:
        tool = self._tools.get(function)
        return tool is not None and tool.is_idempotent

    def failure(self, call: HostedCall, message: str) -> Outcome:
        return self._fail(call, {"message": message, **_PROTOCOL})

    def _fail(self, call: HostedCall, error: dict[str, Any]) -> Outcome:
        call.event(f"response.{CALL}.failed")
        return Outcome(str(error["message"]), self._item(call, "failed", error=error), failed=True)

    def _item(self, call: HostedCall, status: str, **fields: Any) -> dict[str, Any]:
        tool, label = self._tools.get(call.function), self._server.server_label
        return {
            "type": CALL,
            "status": status,
            "approval_request_id": call.about,
            "arguments": call.arguments,
            "error": None,
            "name": call.function.removeprefix(_prefix(label)).removeprefix(f"{label}__")
            if tool is None
            else tool.name,
            "output": None,
            "server_label": label,
            **fields,
        }

    def means(self, name: str) -> bool:
        return name.startswith(_prefix(self._server.server_label))

    def choose_functions(self, choice: Opaque) -> list[str]:
        fields = choice.fields
        if fields.get("server_label") not in (None, self._server.server_label):
            return []
        wanted = fields.get("name")
        return [name for name, tool in self._tools.items() if wanted in (None, tool.name)]

    async def close(self) -> None:
        if self._closes:
            await self._link.close()

    # --- approval -----------------------------------------------------------------------------------------

    def _waits(self, call: HostedCall) -> bool:
        """Must the client allow this call first? One that it has allowed carries the id of the request."""
        tool = self._tools.get(call.function)
        if tool is None or call.about is not None:
            return False
        return self._server.needs_approval(tool.name, tool.reads_only, self._approval)

    async def _ask_for_approval(self, call: HostedCall, tool: ListedTool) -> Outcome:
        id, scope = ids.new_id(ids.prefix(REQUEST)), self._scope
        digest = self._digest(tool.name, call.arguments)
        await self._store.add_approval(Approval(scope.tenant, id, digest, self._expires_at))
        label = self._server.server_label
        asked = {
            "type": REQUEST,
            "id": id,
            "status": "completed",
            "arguments": call.arguments,
            "name": tool.name,
            "server_label": label,
        }
        return Outcome(None, asked)

    async def find_resumed_calls(self) -> Sequence[Resumed]:
        found: list[Resumed] = []
        self._answers = []
        for answer in _of_type(self._scope.given, RESPONSE):
            id = answer.fields.get("approval_request_id")
            asked = next((one for one in _of_type(self._scope.items, REQUEST) if one.id == id), None)
            if asked is None:
                raise _not_valid("there is no such request in the conversation", self._scope, answer)
            if asked.fields.get("server_label") != self._server.server_label:
                continue
            approves = answer.fields.get("approve")
            if not isinstance(approves, bool):
                place = f"input[{_place(self._scope, answer)}].approve"
                raise SpecError(invalid_param(place, "expected true or false"))
            if self._was_run(asked.id):
                continue
            if any(asked.id == one.approval.id for one in self._answers):
                raise _not_valid("it is answered twice here", self._scope, answer)
            name, arguments = str(asked.fields.get("name")), str(asked.fields.get("arguments") or "{}")
            digest = self._digest(name, arguments)
            approval = Approval(self._scope.tenant, asked.id, digest, self._expires_at)
            self._answers.append(_Answer(approval, answer, approves))
            if approves:
                found.append(Resumed(f"{self._server.server_label}__{name}", arguments, asked.id))
        return found

    async def claim(self) -> None:
        for one in self._answers:
            approval = one.approval
            if await self._store.take_approval(approval.tenant, approval.id, approval.digest):
                self._taken.append(approval)
            elif one.approves:
                why = "it has been answered before, has expired, or asked for another call"
                raise _not_valid(why, self._scope, one.item)

    async def release(self) -> None:
        while self._taken:
            await self._store.add_approval(self._taken.pop())

    def _was_run(self, id: str) -> bool:
        return any(call.fields.get("approval_request_id") == id for call in _of_type(self._scope.items, CALL))

    def _digest(self, name: str, arguments: str) -> str:
        what = [self._server.server_label, self._address, name, arguments]
        return hashlib.sha256(encode(what)).hexdigest()


_PROTOCOL: dict[str, Any] = {"type": "mcp_protocol_error", "code": _GONE}


_OF_TRANSPORT = (
    ("Failed to parse", "the server's answer could not be read"),
    ("Redirect", "the server leads to another address, which the gateway does not follow"),
    ("Unexpected content type", "the server's answer is not of a kind that MCP has"),
)
"""How errors begin that the package makes up and that quote the server, and what the client reads instead."""


def describe_error(error: BaseException) -> dict[str, Any]:
    """Describe an error for an item, without the words of the transport: they may quote a token."""
    from mcp.shared.exceptions import MCPError

    if isinstance(error, HttpFailure):
        message = f"the server answered with {error}"
        return {"type": "http_error", "code": error.status, "message": message}
    if isinstance(error, MCPError):
        said = next((plain for start, plain in _OF_TRANSPORT if error.message.startswith(start)), None)
        message = error.message[:2000] if said is None else said
        return {"type": "mcp_protocol_error", "code": error.code, "message": message}
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, McpAnswerTooLarge):
        message = "the server answered with more than the gateway reads"
    elif isinstance(error, McpAnswerUnreadable):
        message = f"the server's answer could not be read: {error}"
    elif isinstance(error, Forbidden | NotAllowed):
        message = "the server is at, or leads to, an address that the gateway may not use"
    elif isinstance(error, TimeoutError) or "TimeoutException" in names:
        message = "the server took too long"
    elif names & {"OAuthFlowError", "OAuthTokenError"}:
        message = "the gateway could not get a token for the server"
    elif names & {"ConnectError", "Unreachable", "FileNotFoundError", "PermissionError"}:
        message = "the server could not be reached"
    elif isinstance(error, ToolListError):
        message = str(error)
    else:
        message = f"the server could not be used ({type(error).__name__})"
    return {"message": message, **_PROTOCOL}


class ToolListError(ValueError):
    """The server's list of tools cannot be used; the message says why."""


def _check_list(
    tools: "Sequence[Tool]", allows: Callable[[str, bool], bool], secrets: KnownSecrets
) -> list[ListedTool]:
    """The tools that the request allows, as a model can be given them."""
    found = [
        ListedTool(
            tool.name,
            secrets.mask(tool.description or tool.title or ""),
            {"properties": {}, **secrets.mask_in(_json(tool.input_schema)), "type": "object"},
            None
            if tool.annotations is None
            else secrets.mask_in(_json(tool.annotations.model_dump(by_alias=True, exclude_none=True))),
        )
        for tool in tools
    ]
    found = [tool for tool in found if allows(tool.name, tool.reads_only)]
    if len(found) > _MOST_TOOLS:
        message = f"the server has more than {_MOST_TOOLS} tools; name those you need in `allowed_tools`"
        raise ToolListError(message)
    if len(encode([tool._asdict() for tool in found])) > _LARGEST_LIST:
        raise ToolListError(f"the server's list of tools is longer than {_LARGEST_LIST:,} bytes")
    return found


def _json(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))
    return found


def _read(tools: Any) -> list[ListedTool]:
    """The tools of a list that came back from the store, or from a client."""
    found = []
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"name": str(name), "input_schema": dict(schema)}:
                about, notes = tool.get("description"), tool.get("annotations")
                found.append(
                    ListedTool(name, str(about or ""), schema, notes if isinstance(notes, dict) else None)
                )
    return found


def _prefix(label: str) -> str:
    """What the names of a server's functions begin with, as a model that makes one up writes it."""
    return NOT_IN_NAME.sub("_", label) + "__"


def _plain(parts: list[ContentPart]) -> str | list[ContentPart]:
    return words(parts) if all(isinstance(part, InputText) for part in parts) else parts


def _of_type(items: Sequence[Item], type: str) -> list[Opaque]:
    return [item for item in items if isinstance(item, Opaque) and item.type == type]


def _place(scope: Scope, answer: Opaque) -> int:
    return next(n for n, item in enumerate(scope.given) if item is answer)


def _not_valid(why: str, scope: Scope, answer: Opaque) -> SpecError:
    id = answer.fields.get("approval_request_id")
    message = f"the approval of {str(id)[:80]!r} cannot be used: {why}"
    place = f"input[{_place(scope, answer)}]"
    return SpecError(ErrorPayload("invalid_request", message, "approval_not_valid", place))
