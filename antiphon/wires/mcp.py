"""A connection to an MCP server, held open in a task of its own, and what its tools return as content.

The official package does the talking; it is imported when the first connection is opened.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from antiphon.spec.content import ContentPart, InputImage, InputText

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, Tool

T = TypeVar("T")

_MAX_PAGES = 100


class ServerGone(Exception):
    """The server has closed the connection, or died."""


class McpConnection:
    """Open while it is entered, in a task of its own, so that a broken one cancels no task that uses it."""

    def __init__(self, target: Any, resources: AsyncExitStack | None = None, *, mode: str = "auto") -> None:
        """`target` is whatever the package's `Client` takes; `resources` are closed with the connection."""
        self._target = target
        self._mode = mode
        self._resources = resources or AsyncExitStack()
        self._ready: asyncio.Future[Client] | None = None
        self._left = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._keeper is not None and not self._keeper.done() and not self._left.is_set()

    async def open(self) -> "Client":
        """Connect. What fails is raised as it is, without the groups around it."""
        self._ready = asyncio.get_running_loop().create_future()
        keeper = self._keeper = asyncio.ensure_future(self._keep(self._ready))
        either: list[asyncio.Future[Any]] = [keeper, self._ready]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            keeper.cancel()
            await asyncio.wait({keeper})
            raise
        if self._ready.done():
            return self._ready.result()
        self._ready.cancel()
        error = None if keeper.cancelled() else keeper.exception()
        raise first_cause(error) if error is not None else ServerGone("the MCP server closed the connection")

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a call, unless the server dies over it."""
        asking = asyncio.ensure_future(work)
        keeper = self._keeper
        try:
            if keeper is not None and not keeper.done():
                await asyncio.wait({asking, keeper}, return_when=asyncio.FIRST_COMPLETED)
                if asking.done():
                    return asking.result()
        finally:
            asking.cancel()
            await asyncio.wait({asking})
            if not asking.cancelled():
                asking.exception()
        if keeper is not None and keeper.done() and not keeper.cancelled() and keeper.exception() is not None:
            raise first_cause(keeper.exception()) from None
        raise ServerGone("the MCP server is gone")

    async def close(self) -> None:
        self._left.set()
        if self._keeper is not None:
            await asyncio.wait({self._keeper})
            if not self._keeper.cancelled():
                self._keeper.exception()  # a server that died has been told of where it was asked

    async def _keep(self, ready: "asyncio.Future[Client]") -> None:
        from mcp import Client

        async with self._resources, Client(self._target, mode=self._mode) as client:
            if not ready.done():
                ready.set_result(client)
            await self._left.wait()


async def list_tools(client: "Client") -> "list[Tool]":
    """All tools of a server, over all pages, without those whose name came before."""
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for one in page.tools:
            tools.setdefault(one.name, one)
        cursor = page.next_cursor
        if not cursor:
            break
    return list(tools.values())


def content(result: "CallToolResult") -> list[ContentPart]:
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


def words(parts: Sequence[ContentPart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, InputText))


def first_cause(error: BaseException | None) -> BaseException:
    """The first plain exception inside a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if error is not None else ServerGone("the MCP server is gone")
