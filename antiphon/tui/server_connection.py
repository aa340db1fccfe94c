"""The connection to the server, and its recovery."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import antiphon
from antiphon.tui.options import ChatOptions
from antiphon.tui.status import StatusModel, facts_of

_QUICK = antiphon.Timeouts(connect=3.0, read=10.0, idle=10.0, total=15.0)
_PAUSE = 1.0
_HEADERS = {"X-Antiphon-Receipts": "1"}
"""The inspector shows the receipts, and a gateway lists them only for those who ask."""


class ServerConnection:
    """A client, the facts about the server's models, and whether the server answers."""

    def __init__(self, options: ChatOptions, on_change: Callable[[], None]) -> None:
        self._options = options
        self._on_change = on_change
        self._open = AsyncExitStack()
        self._waiting: asyncio.Task[None] | None = None
        self.problem = ""
        self.models: dict[str, StatusModel] = {}
        if options.local:
            self.client = antiphon.AsyncClient(transport="local", config=options.config, headers=_HEADERS)
        else:
            self.client = antiphon.AsyncClient(
                options.base_url, options.api_key, headers=_HEADERS, retries=antiphon.Retries(times=1)
            )

    @property
    def name(self) -> str:
        """The name of the server for people."""
        return "this program" if self._options.local else urlsplit(self.client.base_url).netloc

    @property
    def is_up(self) -> bool:
        return not self.problem

    async def look(self) -> bool:
        """Asks for the models, and returns whether the server answers."""
        try:
            models = await self.client.models.list(timeouts=_QUICK)
        except (antiphon.ConnectionFailed, antiphon.TimedOut) as error:
            self.problem = str(error)
        except antiphon.StatusError as error:
            # It answers, whatever it has against this question.
            self.problem = str(error) if error.status in (401, 403) else ""
        except antiphon.AntiphonError as error:
            self.problem = str(error)
        else:
            self.problem = ""
            self.models = {model.id: facts_of(antiphon.extras(model)) for model in models}
        self._on_change()
        return self.is_up

    def reconnect(self, error: Exception) -> None:
        """Notes the error, and asks the server again until it answers."""
        self.problem = str(error)
        self._on_change()
        self.wait()

    def wait(self) -> None:
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.create_task(self._look_until_up())

    async def _look_until_up(self) -> None:
        while True:
            if await self.look():
                return
            await asyncio.sleep(_PAUSE)

    async def tools(self) -> list[antiphon.Tool]:
        """Returns the requested tools; starts their MCP servers."""
        found: list[antiphon.Tool] = []
        for one in self._options.tools:
            found.append(one if isinstance(one, antiphon.Tool) else antiphon.PythonTool(one))
        for server in self._options.mcp:
            found += (await self._open.enter_async_context(server)).tools
        return found

    async def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        await self._open.aclose()
        await self.client.close()
