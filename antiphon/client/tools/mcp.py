"""The tools of an MCP server, for an agent. Needs the extra `mcp`: the official package does the talking.

async with MCPServer.stdio("my-server", ["--readonly"]) as server:
    result = await Agent(model="small", tools=[*server.tools]).run("What is in the folder?")
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from antiphon.client.errors import ConnectionFailed, UsageError, without_traceback
from antiphon.client.tools import Output, Tool, ToolError
from antiphon.client.tools.schema import Schema
from antiphon.spec.content import ContentPart, InputImage, InputText
from antiphon.spec.limits import MAX_NAME, NOT_IN_NAME

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

T = TypeVar("T")

_MAX_PAGES = 100


class MCPServer:
    """A server that is connected while it is entered; `tools` are its tools then.

    `prefix` goes before the name of each tool, so that the tools of two servers can live together. `timeout`
    is in seconds, for each call.
    """

    def __init__(self, target: Any, *, prefix: str = "", timeout: float | None = None) -> None:
        self.tools: list[Tool] = []
        self.instructions: str | None = None
        self._name = ""
        self._target = target
        self._prefix = prefix
        self._timeout = timeout
        self._open = AsyncExitStack()
        self._ready = asyncio.Event()
        self._left = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @classmethod
    def stdio(
        cls,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        prefix: str = "",
        timeout: float | None = None,
    ) -> Self:
        """A program that is started here and ended on leaving."""
        try:
            from mcp import StdioServerParameters
        except ImportError as error:
            raise _missing() from error
        target = StdioServerParameters(
            command=command, args=list(args), env=dict(env) if env is not None else None, cwd=cwd
        )
        server = cls(target, prefix=prefix, timeout=timeout)
        server._name = f" {command}"
        return server

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        prefix: str = "",
        timeout: float | None = None,
    ) -> Self:
        """A server at an address, over streamable HTTP."""
        try:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client
        except ImportError as error:
            raise _missing() from error
        if not headers:
            server = cls(url, prefix=prefix, timeout=timeout)
        else:
            http = httpx2.AsyncClient(headers=dict(headers), timeout=httpx2.Timeout(30.0, read=300.0))
            server = cls(streamable_http_client(url, http_client=http), prefix=prefix, timeout=timeout)
            server._open.push_async_callback(http.aclose)
        server._name = f" at {urlsplit(url).hostname}"  # the rest of an address may hold a secret
        return server

    async def __aenter__(self) -> Self:
        if self._keeper is not None:
            raise UsageError("an MCP server is entered once; make another one")
        keeper = self._keeper = asyncio.ensure_future(self._keep())
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait({keeper, ready}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            keeper.cancel()
            await asyncio.wait({keeper})
            raise
        finally:
            ready.cancel()
        if keeper.done() and (error := keeper.exception()) is not None:
            if isinstance(error, UsageError):
                raise error
            cause = _first(error)
            reason = f"{type(cause).__name__}: {cause}"
            raise ConnectionFailed(
                f"the MCP server{self._name} cannot be used: {reason}; check its command or address",
                sent=False,
            ) from without_traceback(cause)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tools = []
        self._left.set()
        if self._keeper is not None:
            await asyncio.wait({self._keeper})
            if not self._keeper.cancelled():
                self._keeper.exception()  # a server that died has been told of where it was asked

    async def _keep(self) -> None:
        """Hold the connection, in a task of its own: one that breaks must not cancel whoever uses it."""
        try:
            from mcp import Client
        except ImportError as error:
            raise _missing() from error
        async with self._open, Client(self._target) as client:
            self.instructions = client.instructions
            await self._list(client)
            self._ready.set()
            await self._left.wait()

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a call, unless the server dies over it."""
        asking = asyncio.ensure_future(work)
        try:
            if self._keeper is not None and not self._keeper.done():
                await asyncio.wait({asking, self._keeper}, return_when=asyncio.FIRST_COMPLETED)
                if asking.done():
                    return asking.result()
        finally:
            asking.cancel()
            await asyncio.wait({asking})
        raise ToolError("the MCP server is gone")

    async def _list(self, client: "Client") -> None:
        cursor: str | None = None
        names: set[str] = set()
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            for one in page.tools:
                name = NOT_IN_NAME.sub("_", self._prefix + one.name)[:MAX_NAME]
                if name not in names:
                    names.add(name)
                    words = one.description or one.title or ""
                    self.tools.append(
                        MCPTool(self, client, one.name, name, words, one.input_schema, self._timeout)
                    )
            cursor = page.next_cursor
            if not cursor:
                return


class MCPTool(Tool):
    """One tool of a server; the server itself checks the arguments."""

    def __init__(
        self,
        server: MCPServer,
        client: "Client",
        theirs: str,
        name: str,
        description: str,
        schema: Schema,
        timeout: float | None,
    ) -> None:
        self.name = name
        self.description = description
        self.timeout = timeout
        self._server = server
        self._client = client
        self._theirs = theirs
        self._schema = schema

    def get_schema(self) -> Schema:
        return {"properties": {}, **self._schema, "type": "object"}

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def execute(self, **arguments: Any) -> Output:
        result = await self._server.ask(self._client.call_tool(self._theirs, arguments))
        parts = _parts(result)
        if result.is_error:
            raise ToolError(_joined(parts) or "the tool failed")
        if all(isinstance(part, InputText) for part in parts):
            return _joined(parts)
        return parts


def _parts(result: "CallToolResult") -> list[ContentPart]:
    """What a tool gave back: words and pictures as they are, everything else told in words."""
    parts: list[ContentPart] = []
    for block in result.content:
        match block.type:
            case "text":
                parts.append(InputText(block.text))
            case "image":
                parts.append(InputImage(f"data:{block.mime_type};base64,{block.data}"))
            case "audio":
                parts.append(InputText(f"[audio, {block.mime_type}]"))
            case "resource_link":
                parts.append(InputText(f"{block.name}: {block.uri}"))
            case "resource":
                text = getattr(block.resource, "text", None)
                parts.append(InputText(text if isinstance(text, str) else f"[data at {block.resource.uri}]"))
    if not parts and result.structured_content is not None:
        parts.append(InputText(msgspec.json.encode(result.structured_content).decode()))
    return parts


def _joined(parts: Sequence[ContentPart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, InputText))


def _first(error: BaseException) -> BaseException:
    """The first plain exception inside a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _missing() -> UsageError:
    return UsageError("MCP needs another package; install it with: pip install 'antiphon[mcp]'")
