"""Runs one call of a tool, from the approval to its outcome.

Every error becomes an output, so that no chain breaks.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from antiphon.client.agent.events import Fault, Hooks, ToolCall, ToolOutcome
from antiphon.client.tools import BadArguments, Toolbox, ToolError, ToolOutput, await_value
from antiphon.spec.codec import encode
from antiphon.spec.content import text_of
from antiphon.spec.items import CustomToolCall, FunctionCall, FunctionCallOutput, Item, Message
from antiphon.spec.items import CustomToolCallOutput as CustomOutput
from antiphon.spec.limits import MAX_TEXT
from antiphon.spec.response import Response
from antiphon.stream.lifecycle import with_status

Approve = Callable[[ToolCall], bool | str | Awaitable[bool | str]]
"""True lets a call run, False refuses it, and a text refuses it with this reason."""


class ToolRunner:
    """Runs calls with the tools of a toolbox."""

    def __init__(self, tools: Toolbox, approve: Approve | None, hooks: Hooks, seconds: float | None) -> None:
        self._tools = tools
        self._approve = approve
        self._hooks = hooks
        self._seconds = seconds

    async def run(self, call: ToolCall) -> ToolOutcome:
        """Returns the outcome; raises only the cancellation of this task, and errors of hooks."""
        if self._hooks.before_tool is not None:
            await await_value(self._hooks.before_tool(call))
        outcome = await self._outcome(call)
        if self._hooks.after_tool is not None:
            await await_value(self._hooks.after_tool(outcome))
        return outcome

    async def _outcome(self, call: ToolCall) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(self._tools.names()) or "none"
            return failed_outcome(call, "unknown_tool", f"there is no tool {call.name!r}; there are: {names}")
        if (refusal := await self._refusal(call)) is not None:
            return failed_outcome(call, "denied", refusal)
        seconds = self._seconds if tool.timeout is None else tool.timeout
        started = time.monotonic()
        try:
            async with asyncio.timeout(seconds) as limit:
                outcome = ToolOutcome(call, _sound(await tool.call(call.arguments)))
                encode(outcome.item)
        except BadArguments as error:
            outcome = failed_outcome(call, "invalid_arguments", str(error), error)
        except ToolError as error:
            outcome = failed_outcome(call, "tool_failed", str(error), error)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            outcome = failed_outcome(call, "tool_failed", "something that the tool waited for was cancelled")
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                outcome = failed_outcome(
                    call, "timeout", f"the tool did not answer within {seconds:g} seconds", error
                )
            else:
                outcome = failed_outcome(call, "tool_failed", f"{type(error).__name__}: {error}", error)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) or _is_cancelled():
                raise
            outcome = failed_outcome(call, "tool_failed", f"{type(error).__name__}: {error}")
        taken = time.monotonic() - started
        return ToolOutcome(call, outcome.output, outcome.fault, taken, outcome.error)

    async def _refusal(self, call: ToolCall) -> str | None:
        """Returns why the call may not run, or None if it may. If `approve` raises, the call may not run."""
        if self._approve is None:
            return None
        try:
            answer = await await_value(self._approve(call))
        except Exception as error:
            return f"the call was not approved: asking failed with {type(error).__name__}"
        if answer is True:
            return None
        return answer if isinstance(answer, str) and answer else "the call was not approved"


def failed_outcome(call: ToolCall, fault: Fault, message: str, error: Exception | None = None) -> ToolOutcome:
    """Returns an outcome whose output describes the error to the model."""
    error_body = {"error": {"code": fault, "message": _utf8(message)[: MAX_TEXT // 16]}}
    return ToolOutcome(call, msgspec.json.encode(error_body).decode(), fault, error=error)


def open_calls(response: Response) -> list[ToolCall]:
    """The calls that the client must answer: whole, and without an output in the same response."""
    answered = {
        item.call_id for item in response.output if isinstance(item, FunctionCallOutput | CustomOutput)
    }
    return [
        ToolCall(item)
        for item in response.output
        if isinstance(item, FunctionCall | CustomToolCall)
        and item.call_id not in answered
        and item.status in (None, "completed")
    ]


def salvage_items(response: Response) -> list[Item]:
    """Returns the usable items of a response that did not end: whole items, and the text of the last one."""
    items: list[Item] = []
    for item in response.output:
        status = getattr(item, "status", None)
        if status in (None, "completed"):
            items.append(item)
        elif isinstance(item, Message) and item.get_text():
            items.append(with_status(item, "incomplete"))
    return items


def _is_cancelled() -> bool:
    """Was this task cancelled itself?"""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _sound(output: ToolOutput) -> ToolOutput:
    """Returns an output that can be sent: within the limit, and UTF-8."""
    size = len(output) if isinstance(output, str) else len(text_of(output))
    if size > MAX_TEXT:
        raise ToolError(f"the result has {size:,} characters; at most {MAX_TEXT:,} can be sent: ask for less")
    return _utf8(output) if isinstance(output, str) else output


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
