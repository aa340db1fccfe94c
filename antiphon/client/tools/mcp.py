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

from antiphon.client.errors import ConnectionFailed, UsageError, without_traceback
from antiphon.client.tools import Tool, ToolError, ToolOutput
from antiphon.client.tools.parameter_schema import Schema
from antiphon.spec.content import InputText
from antiphon.spec.limits import MAX_NAME, NOT_IN_NAME
from antiphon.wires.mcp import McpConnection, ServerGone, content, list_tools, words

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")


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
        self._connection: McpConnection | None = None

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
            from mcp.client.streamable_http import streamable_http_client

            from antiphon.wires.mcp_http import limited_client
        except ImportError as error:
            raise _missing() from error
        http = limited_client(headers or {})
        server = cls(streamable_http_client(url, http_client=http), prefix=prefix, timeout=timeout)
        server._open.push_async_callback(http.aclose)
        server._name = f" at {urlsplit(url).hostname}"  # the rest of an address may hold a secret
        return server

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise UsageError("an MCP server is entered once; make another one")
        self._connection = McpConnection(self._target, self._open)
        try:
            client = await self._connection.open()
            self.instructions = client.instructions
            await self._list(client)
        except ImportError as error:
            raise _missing() from error
        except (UsageError, asyncio.CancelledError):
            raise
        except BaseException as cause:
            await self._connection.close()
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
        if self._connection is not None:
            await self._connection.close()

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a call, unless the server dies over it."""
        if self._connection is None:
            work.close()
            raise ToolError("the MCP server is gone")
        try:
            return await self._connection.ask(work)
        except ServerGone:
            raise ToolError("the MCP server is gone") from None

    async def _list(self, client: "Client") -> None:
        assert self._connection is not None
        names: set[str] = set()
        for one in await self._connection.ask(list_tools(client)):
            name = NOT_IN_NAME.sub("_", self._prefix + one.name)[:MAX_NAME]
            if name not in names:
                names.add(name)
                about = one.description or one.title or ""
                self.tools.append(
                    MCPTool(self, client, one.name, name, about, one.input_schema, self._timeout)
                )


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

    async def execute(self, **arguments: Any) -> ToolOutput:
        result = await self._server.ask(self._client.call_tool(self._theirs, arguments))
        parts = content(result)
        if result.is_error:
            raise ToolError(words(parts) or "the tool failed")
        if all(isinstance(part, InputText) for part in parts):
            return words(parts)
        return parts


def _missing() -> UsageError:
    return UsageError("MCP needs another package; install it with: pip install 'antiphon[mcp]'")
