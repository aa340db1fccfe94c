"""Running the hosted calls of one response: at once, within their limits, each to one clean end."""

import asyncio
import logging
import time
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

from antiphon.config import ToolsSettings
from antiphon.config.known_secrets import KnownSecrets
from antiphon.engine.hosted.exits import EXITS
from antiphon.engine.hosted.functions import OpenedTool
from antiphon.engine.hosted.history import HostedHistory, ModelTurnId
from antiphon.engine.hosted.progress import ProgressLog, StartedCall
from antiphon.engine.run_state import RunState, call_listener
from antiphon.providers.base import Sink
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText
from antiphon.spec.items import FunctionCall, FunctionCallOutput
from antiphon.stream.deltas import ItemDelta
from antiphon.stream.lifecycle import with_status
from antiphon.tools.base import MARK, HostedCall, Outcome, ToolFailure
from antiphon.tools.citations import Citations
from antiphon.wires.run_listener import ToolInfo
from antiphon.wires.worker_thread import in_worker_thread

log = logging.getLogger(__name__)

_CUT = "\n[cut off here: the result is longer than {limit:,} bytes]"
_LARGE = 64 * 1024


class Ready(NamedTuple):
    """A call whose arguments are whole."""

    opened: OpenedTool
    call: HostedCall
    made: FunctionCall
    """The call as the model made it."""
    started: StartedCall | None = None
    """What is written of it in a response that another process may have to go on with."""


class CallRunner:
    """Runs the calls of one response. What they may take together is counted over all of its turns."""

    def __init__(
        self,
        run: RunState,
        settings: ToolsSettings,
        history: HostedHistory,
        sink: Sink,
        citations: Citations,
        secrets: KnownSecrets,
        log: ProgressLog | None = None,
    ) -> None:
        self._run_state = run
        self._history = history
        self._sink = sink
        self._citations = citations
        self._secrets = secrets
        self._log = log
        self._slots = asyncio.Semaphore(settings.parallel)
        self._seconds = settings.timeout
        self._bytes = settings.limit

    async def run(self, calls: Sequence[Ready], turn: ModelTurnId) -> list[FunctionCallOutput | None]:
        """The output of each call, in order; None for one that waits for the client."""
        began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run(one, turn)) for one in calls]
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            self._seconds -= time.monotonic() - began
        return [task.result() for task in tasks]

    async def _run(self, ready: Ready, turn: ModelTurnId) -> FunctionCallOutput | None:
        async with self._slots:
            began = time.monotonic()
            outcome = await self._outcome(ready)
            tool, function = ready.opened.tool.settings.name, ready.call.function
            call = ToolInfo(tool, function, time.monotonic() - began, outcome.failed)
            for hear in self._run_state.services.heard.tool_ended:
                call_listener(hear, self._run_state, call)
        return await self.end(ready, outcome, turn)

    async def end(self, ready: Ready, outcome: Outcome, turn: ModelTurnId) -> FunctionCallOutput | None:
        """Put the item of a call as it ended; returns what the model gets of it, if anything."""
        call_id = ready.made.call_id
        output, mark = None, ""
        if outcome.output is not None:
            said = self._within(self._whole(outcome.output), ready.opened.tool.settings.limit)
            output = FunctionCallOutput(call_id=call_id, output=said)
            if outcome.failed:
                output = with_status(output, "incomplete")
            given = ready.made, output, turn, self._run_state.tenant, self._citations.shown_in(said)
            is_large = _size(said) > _LARGE
            seal = self._history.seal_call
            mark = await in_worker_thread(seal, *given) if is_large else seal(*given)
        item = Opaque.make(**{"id": "", **self._whole(outcome.item), MARK: mark})
        if ready.started is not None:
            ready.started.end(output, item)
            if self._log is not None:
                # Its item may wait for another, and then there is no event to go with it.
                self._log.progress_changed()
        if not self._sink.put([*ready.call.ending, ItemDelta(item, ready.call.key)]):
            await self._sink.ready()
        return output

    async def _outcome(self, ready: Ready) -> Outcome:
        (tool, session), call = ready.opened, ready.call
        call.arguments = ready.made.arguments
        own = session.timeout or tool.settings.timeout
        seconds = min(own, self._seconds)
        if seconds <= 0:
            return make_failure(ready, "the time that tools may take in one response is used up")
        try:
            async with asyncio.timeout(seconds) as limit:
                return await session.run(call)
        except TimeoutError:
            if limit.expired():
                return make_failure(ready, f"the tool did not answer within {seconds:g} seconds")
            return make_failure(ready, "the tool took too long")
        except ToolFailure as error:
            return make_failure(ready, str(error))
        except (Exception, *EXITS) as error:
            # The message of the exception may quote what was said, so only its place is logged.
            place = "".join(traceback.format_tb(error.__traceback__))
            name, kind = tool.settings.name, type(error).__name__
            told = "request %s: the hosted tool %s failed: %s"
            log.error(told, self._run_state.request_id, name, kind, extra={"traceback": place})
            return make_failure(ready, f"the tool failed: {kind}")

    def _whole(self, value: Any) -> Any:
        """A result as it may be sent: without the gateway's secrets, and without halves of characters.

        Python's text may have such halves.
        """
        if isinstance(value, str):
            whole = value if value.isascii() else value.encode("utf-8", "replace").decode()
            return self._secrets.mask(whole)
        if isinstance(value, dict):
            return {name: self._whole(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._whole(one) for one in value]
        return InputText(self._whole(value.text)) if isinstance(value, InputText) else value

    def _within(self, output: str | list[ContentPart], limit: int) -> str | list[ContentPart]:
        """As much of a result as the tool, and the whole response, may give to the model."""
        room = max(0, min(limit, self._bytes))
        if _size(output) > room:
            output = _cut(output, room)
        self._bytes -= _size(output)
        return output


def make_failure(ready: Ready, message: str) -> Outcome:
    """The outcome of a call that came to no end of its own."""
    ready.call.ending.clear()
    return ready.opened.session.failure(ready.call, message)


def _size(output: str | list[ContentPart]) -> int:
    if isinstance(output, str):
        return len(output) if output.isascii() else len(output.encode("utf-8", "replace"))
    return sum(_size_of_part(part) for part in output)


def _size_of_part(part: ContentPart) -> int:
    if isinstance(part, InputText):
        return _size(part.text)
    if isinstance(part, InputImage):
        return len(part.image_url or "")
    if isinstance(part, InputFile):
        return len(part.file_data or "")
    return 0


def _cut(output: str | list[ContentPart], room: int) -> str | list[ContentPart]:
    note = _CUT.format(limit=room)
    if isinstance(output, str):
        return output.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + note
    kept: list[ContentPart] = []
    for part in output:
        size = _size_of_part(part)
        if size > room:
            kept.append(
                InputText(str(_cut(part.text, room)) if isinstance(part, InputText) else note.strip())
            )
            break
        kept.append(part)
        room -= size
    return kept
