"""Runs the turns of a chat one after another: asks, shows the answer, stops, and sends queued messages."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import antiphon
from antiphon.tui import notices
from antiphon.tui.answering import RunEntries
from antiphon.tui.approval import ApprovalAnswer
from antiphon.tui.current_chat import CurrentChat, Point
from antiphon.tui.entries import Entry, NoticeEntry, UserEntry
from antiphon.tui.recording import CallRecording
from antiphon.tui.server_connection import ServerConnection

_FORGOTTEN = "previous_response_not_found"
_TOGETHER = 64
"""Events that are shown before others have their turn."""

_Ask = Callable[[str, str, str], "asyncio.Future[ApprovalAnswer] | Any"]


@dataclass(slots=True)
class Draft:
    """A message to send, and the place in the chat that it continues."""

    text: str
    parts: list[dict[str, Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    point: Point | None = None

    @property
    def items(self) -> list[dict[str, Any]]:
        content: str | list[dict[str, Any]] = self.text
        if self.parts:
            content = [*self.parts, {"type": "input_text", "text": self.text}]
        return [{"type": "message", "role": "user", "content": content}]


class Turns:
    """Runs one turn at a time. `add`, `redraw` and `drop` update the transcript, `on_change` the status."""

    def __init__(
        self,
        connection: ServerConnection,
        conversation: CurrentChat,
        add: Callable[[Entry], None],
        redraw: Callable[[Entry], None],
        drop: Callable[[str], None],
        ask: _Ask,
        on_change: Callable[[], None],
    ) -> None:
        self.queue: list[Draft] = []
        self.answering: RunEntries | None = None
        self._connection = connection
        self._talk = conversation
        self._add = add
        self._redraw = redraw
        self._drop = drop
        self._ask = ask
        self._on_change = on_change
        self._always: set[str] = set()
        self._run: antiphon.AgentRun | None = None
        self._task: asyncio.Task[None] | None = None
        self._following: str | None = None
        self._stopped = False

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def begin(self) -> None:
        """Switches to another chat."""
        self.queue.clear()
        self._always.clear()
        self.answering = None

    def send(self, draft: Draft) -> None:
        """Sends the message now, or after the running turn."""
        if self.is_running:
            self.queue.append(draft)
            self._on_change()
        else:
            self._start(self._turn(draft))

    def follow(self, response_id: str) -> None:
        """Follows a response that runs in the background, from its beginning."""
        if not self.is_running:
            self._start(self._follow(response_id))

    def stop(self) -> bool:
        """Stops the running turn, also on the server."""
        if not self.is_running or self._task is None:
            return False
        self._stopped = True
        if self._talk.recordings:
            self._talk.recordings[-1].leave()
        if self._run is not None:
            self._run.cancel()
        else:
            self._task.cancel()
        return True

    async def settle(self) -> None:
        """Waits until no turn runs."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Ends the running turn, unless it runs in the background."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    def _start(self, work: Any) -> None:
        self._stopped = False
        self._task = asyncio.create_task(self._run_guarded(work))
        self._on_change()

    async def _run_guarded(self, work: Any) -> None:
        try:
            await work
        except antiphon.AntiphonError as error:
            self._add(notices.of_error(error))
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            self._add(notices.stop_notice())
        finally:
            self._run = None
            self._task = None
            if self.answering is not None:
                self.answering.close()
            self._on_change()
        if self.queue and not self._stopped:
            self.send(self.queue.pop(0))

    # --- a turn -------------------------------------------------------------------------------------------

    async def _turn(self, draft: Draft) -> None:
        point = self._talk.point if draft.point is None else draft.point
        entry = UserEntry(draft.text, draft.names)
        entry.point = point
        self._add(entry)
        await self._talk.open_chat(draft.text)
        self._on_change()
        result = await self._play(draft.items, point, entry)
        while result is not None and (answers := await self._approvals(result)):
            result = await self._play(answers, self._talk.point, None)

    async def _play(
        self, items: Sequence[dict[str, Any]], point: Point, entry: UserEntry | None
    ) -> antiphon.AgentResult | None:
        """Asks the model; asks again with the whole conversation if the server no longer has it."""
        try:
            return await self._ask_model(items, point, entry, whole=False)
        except antiphon.StatusError as error:
            if error.code != _FORGOTTEN or point.previous is None or not self._talk.path(point.previous):
                raise
        self._add(
            NoticeEntry("The server no longer has this conversation", "The terminal sends all of it again.")
        )
        return await self._ask_model(items, point, entry, whole=True)

    async def _ask_model(
        self, items: Sequence[dict[str, Any]], point: Point, entry: UserEntry | None, *, whole: bool
    ) -> antiphon.AgentResult | None:
        show = self.answering = RunEntries(self._add, self._redraw)
        run = self._run = self._talk.ask(items, point, self._approve, whole=whole)
        try:
            async with run:
                await self._listen(run, show, entry, point)
        except (antiphon.ConnectionFailed, antiphon.TimedOut, antiphon.StreamBroken) as error:
            if isinstance(error, antiphon.ConnectionFailed | antiphon.StreamBroken):
                self._connection.reconnect(error)
            if isinstance(error, antiphon.StreamBroken):
                await self._keep_broken(error, point)
            raise
        finally:
            self._run = None
            show.close()
        result = run.result
        if result.stopped == "cancelled":
            if self._talk.settings.background and show.response_id is not None:
                await self._talk.client.responses.cancel(show.response_id)
            self._add(notices.stop_notice())
        elif result.stopped in ("steps", "tokens", "time"):
            self._add(NoticeEntry("The model used its tools too often", code=result.stopped, tone="warning"))
        if result.stopped != "failed":
            self._talk.go_on_from(result)
        return result

    async def _keep_broken(self, error: antiphon.StreamBroken, point: Point) -> None:
        """Keeps a background response whose stream broke, to follow it again when the server is back."""
        if error.response.background and error.response.id:
            self._following = error.response.id

    async def _listen(
        self, run: antiphon.AgentRun, show: RunEntries, entry: UserEntry | None, point: Point
    ) -> None:
        request_input: list[antiphon.Item] = []
        previous: str | None = None
        count = 0
        async for event in run:
            match event:
                case antiphon.StepStarted():
                    show.begin()
                    given = event.request.input
                    request_input = given if isinstance(given, list) else []
                    previous = event.request.previous_response_id
                case antiphon.StepEnded():
                    await self._talk.keep(event.response, request_input, previous, running=False)
                    self._on_change()
                case antiphon.RunEnded():
                    pass
                case _:
                    self._record(event)
                    show.take(event)
                    if isinstance(event, antiphon.ResponseCreatedEvent):
                        show.response_id = event.response.id
                        if entry is not None:
                            entry.response_id = entry.response_id or event.response.id
                        if event.response.background:
                            await self._talk.keep(event.response, request_input, previous, running=True)
            count += 1
            if count % _TOGETHER == 0:
                await asyncio.sleep(0)

    def _record(self, event: Any) -> None:
        if self._talk.recordings and self._talk.recordings[-1].is_translated and hasattr(event, "to_json"):
            self._talk.recordings[-1].take(event)

    # --- approvals ----------------------------------------------------------------------------------------

    async def _approve(self, call: antiphon.ToolCall) -> bool | str:
        return await self._ask_permission(call.name, call.arguments, "", call.call_id)

    async def _ask_permission(self, name: str, arguments: str, where: str, call_id: str = "") -> bool:
        key = f"{where}/{name}"
        if key in self._always:
            return True
        if self.answering is not None and call_id:
            self.answering.asking(call_id, waits=True)
        verdict: ApprovalAnswer = await self._ask(name, arguments, where)
        if self.answering is not None and call_id:
            self.answering.asking(call_id, waits=False)
        if verdict == "always":
            self._always.add(key)
        return verdict != "no"

    async def _approvals(self, result: antiphon.AgentResult) -> list[dict[str, Any]]:
        """Asks the user about the calls that need approval, and returns the answers as items."""
        response = result.response
        answers: list[dict[str, Any]] = []
        for item in response.output if response is not None and result.stopped == "answered" else ():
            if isinstance(item, antiphon.Opaque) and item.type == "mcp_approval_request":
                fields = item.fields
                given = (str(fields.get(name) or "") for name in ("name", "arguments", "server_label"))
                allowed = await self._ask_permission(*given)
                answers.append(
                    {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": allowed}
                )
        return answers

    # --- in the background --------------------------------------------------------------------------------

    async def _follow(self, response_id: str) -> None:
        self._following = response_id
        show = self.answering = RunEntries(self._add, self._redraw)
        show.begin()
        show.response_id = response_id
        recording = CallRecording()
        self._talk.recordings.append(recording)
        known = self._talk.nodes.get(response_id)
        try:
            stream = await self._talk.client.responses.retrieve(response_id, stream=True, watch=recording)
            async with stream:
                async for event in stream:
                    show.take(event)
                response: antiphon.Response = stream.response
        except asyncio.CancelledError:
            if self._stopped:
                await self._talk.client.responses.cancel(response_id)
            raise
        except (antiphon.ConnectionFailed, antiphon.StreamBroken) as error:
            self._connection.reconnect(error)
            raise
        finally:
            recording.end()
            show.close()
        self._following = None
        previous = known.previous if known else response.previous_response_id
        await self._talk.keep(response, known.input if known else [], previous, running=False)
        self._talk.point = Point(response.id)

    def take_up(self) -> None:
        """Follows the background response again when the server is back."""
        if self._following is not None and not self.is_running:
            self._drop(self._following)
            self.follow(self._following)
