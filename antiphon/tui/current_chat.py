"""One chat with a model: its tree of responses, and the next turn from any of them."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon import (
    Agent,
    AgentResult,
    AgentRun,
    AsyncClient,
    AsyncEventStream,
    Item,
    ReasoningParam,
    Request,
    Response,
    Tool,
    ToolCall,
    encode,
)
from antiphon.tui.answering import entries_of, notices_of
from antiphon.tui.chats import ChatBook, ListedChat, Node
from antiphon.tui.entries import Entry, UserEntry
from antiphon.tui.recording import CallRecording
from antiphon.tui.status import Status, StatusModel, cost_of
from antiphon.wires.terminal_text import printable_line

CHAT_FIELD = "antiphon:chat"
_RECORDINGS = 20
_TITLE = 60


@dataclass(slots=True)
class Settings:
    """The settings of a request beside its messages."""

    model: str | None = None
    effort: str | None = None
    system: str | None = None
    background: bool = False
    tools: list[Tool] = field(default_factory=list)

    def status(
        self,
        last: Response | Node | None,
        models: Mapping[str, StatusModel],
        times: tuple[float | None, float | None],
        state: str,
    ) -> Status:
        """Builds the status line: these settings, and the usage of the last response."""
        status = Status(self.model or "", self.effort or "", self.background, state=state)
        if last is None:
            return status
        status.model = self.model or last.model
        if (usage := last.usage) is None:
            return status
        facts = models.get(self.model or "") or models.get(last.model) or StatusModel()
        cached = usage.input_tokens_details.cached_tokens
        status.tokens_in, status.tokens_out = usage.input_tokens, usage.output_tokens
        status.window = facts.window
        status.cost = cost_of(facts, usage.input_tokens, usage.output_tokens, cached)
        status.first, end = times
        if status.first is not None and end is not None and end - status.first > 0.05:
            status.speed = usage.output_tokens / (end - status.first)
        return status


@dataclass(frozen=True, slots=True)
class Point:
    """A place to continue from: a stored response, and the items since."""

    previous: str | None = None
    unsent: tuple[Item, ...] = ()


class WatchedModel:
    """The model that the agent asks; it records every call."""

    remembers = False

    def __init__(self, client: AsyncClient, chat: str | None, watch: Callable[[CallRecording], None]) -> None:
        self._client = client
        self._chat = chat
        self._watch = watch

    def open(self, request: Request) -> AbstractAsyncContextManager[AsyncEventStream]:
        return self._open_stream(request)

    @asynccontextmanager
    async def _open_stream(self, request: Request) -> AsyncIterator[AsyncEventStream]:
        recording = CallRecording()
        self._watch(recording)
        body = msgspec.json.decode(encode(request), type=dict[str, Any])
        if request.tools:
            body["tools"] = [_without_nulls(tool) for tool in body["tools"]]
        if self._chat is not None:
            body[CHAT_FIELD] = self._chat
        try:
            async with self._client.responses.stream(extra_body=body, watch=recording) as stream:
                yield stream
        finally:
            recording.end()


def _without_nulls(tool: dict[str, Any]) -> dict[str, Any]:
    """Drops `null` values, which responses have and requests must not."""
    return {name: value for name, value in tool.items() if value is not None}


class CurrentChat:
    """The chat on the screen."""

    def __init__(self, client: AsyncClient, book: ChatBook, settings: Settings) -> None:
        self.client = client
        self.book = book
        self.settings = settings
        self.recordings: deque[CallRecording] = deque(maxlen=_RECORDINGS)
        self.begin()

    def begin(self) -> None:
        """Begins a new chat, which is stored with its first message."""
        self.chat: ListedChat | None = None
        self.nodes: dict[str, Node] = {}
        self.point = Point()
        self.last: Response | Node | None = None
        self.recordings.clear()

    # --- chats --------------------------------------------------------------------------------------------

    async def resume(self, chat: ListedChat) -> list[Entry]:
        """Opens another chat at its current response."""
        nodes = await self.book.nodes(chat.id)
        self.begin()
        self.chat = chat
        self.nodes = {node.id: node for node in nodes}
        return self.at(chat.current)

    def at(self, response_id: str | None) -> list[Entry]:
        """Moves to this response, from which the next turn continues, and returns the transcript so far."""
        path = self.path(response_id)
        entries: list[Entry] = []
        for node in path:
            said = entries_of([*node.input, *node.output], node.id)
            for entry in said:
                if isinstance(entry, UserEntry):
                    entry.point = Point(node.previous)
            entries += said
            entries += notices_of(node)
        self.point = Point(path[-1].id if path else None)
        self.last = path[-1] if path else None
        return entries

    def path(self, response_id: str | None) -> list[Node]:
        """Returns the responses that lead to this one, the oldest first."""
        found: list[Node] = []
        node = self.nodes.get(response_id or "")
        while node is not None and node not in found:
            found.append(node)
            node = self.nodes.get(node.previous or "")
        return found[::-1]

    def last_words(self, response_id: str) -> str:
        """Returns the end of a branch as one line."""
        node = self.nodes[response_id]
        return printable_line(node.text)[:200] or response_id

    def leaves(self) -> list[Node]:
        """Returns the last responses of all branches."""
        continued = {node.previous for node in self.nodes.values()}
        return [node for node in self.nodes.values() if node.id not in continued]

    async def move(self, response_id: str) -> list[Entry]:
        """Moves the chat to another branch."""
        assert self.chat is not None
        self.chat = await self.book.update(self.chat.id, current=response_id)
        return self.at(response_id)

    async def open_chat(self, words: str) -> ListedChat:
        """Returns the chat of this conversation; names a new one by its first words."""
        if self.chat is None:
            title = printable_line(words)
            title = title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…"
            self.chat = await self.book.create(title or "Chat")
        return self.chat

    # --- turns --------------------------------------------------------------------------------------------

    def ask(
        self,
        items: Sequence[dict[str, Any]],
        point: Point,
        approve: Callable[[ToolCall], Any],
        *,
        whole: bool = False,
    ) -> AgentRun:
        """Asks for the next turn; `whole` sends the conversation too, for a server that has lost it."""
        settings = self.settings
        reasoning = None
        if settings.effort:
            reasoning = msgspec.convert({"effort": settings.effort}, ReasoningParam)
        agent = Agent(
            model=settings.model,
            tools=settings.tools,
            instructions=settings.system,
            client=WatchedModel(self.client, self.chat.id if self.chat else None, self.recordings.append),
            request=Request(reasoning=reasoning, background=settings.background),
            approve=approve,
        )
        before: list[Item] = list(point.unsent)
        if whole:
            before = [*self.items(point.previous), *before]
        return agent.stream(list(items), previous_response_id=None if whole else point.previous, items=before)

    def items(self, response_id: str | None) -> list[Item]:
        """Returns the items of the conversation up to this response."""
        return [item for node in self.path(response_id) for item in (*node.input, *node.output)]

    async def keep(
        self, response: Response, input: Sequence[Item], previous: str | None, *, running: bool
    ) -> None:
        """Stores a response of this chat that is complete, or runs in the background."""
        self.nodes[response.id] = Node.of(response, input, previous)
        self.last = response
        if self.chat is not None:
            self.chat.current = response.id
            await self.book.keep(self.chat.id, response, input, previous, running=running)

    def go_on_from(self, result: AgentResult) -> None:
        self.point = Point(result.response_id, result.unsent)
