"""Sends one question to the server, runs the tools that the model calls, and prints the answer."""

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec

from antiphon.cli.ask_printing import BytePrinter, OutputFailed, Printer, note, printer_for
from antiphon.cli.ask_question import format_of, function_of, mcp_server_of, question_of
from antiphon.cli.common import FAILED, MISTAKE, CommandFailed
from antiphon.client.agent import Agent, AgentTool
from antiphon.client.agent.events import RunEnded, Tally, ToolEnded, ToolStarted
from antiphon.client.async_client import AsyncClient
from antiphon.client.errors import AntiphonError, ConnectionFailed, TimedOut, UsageError
from antiphon.client.settings import Retries
from antiphon.client.tools.parameter_schema import SchemaError
from antiphon.client.transport.local import LOCAL_URL, LocalTransport
from antiphon.spec.codec import UNREADABLE, encode
from antiphon.spec.content import OutputText, Refusal
from antiphon.spec.decode import decode_request
from antiphon.spec.events import OutputTextDeltaEvent, RefusalDeltaEvent
from antiphon.spec.items import Message
from antiphon.spec.request import Request
from antiphon.spec.response import Response, Usage
from antiphon.store.folder import make_folder
from antiphon.wires.data_folder import default_data_folder
from antiphon.wires.own_command import own_command
from antiphon.wires.terminal_text import printable_line

UNREACHABLE = 3
INCOMPLETE = 4
REFUSED = 5

_LOCAL = "local"
_RETRIES = Retries(times=1, base=0.2)


async def answer(arguments: argparse.Namespace) -> int:
    """Asks, prints the answer, and returns the exit code."""
    if arguments.previous == "":
        raise CommandFailed("antiphon: --from needs the id of a response (resp_…)", MISTAKE)
    message = question_of(arguments.question, arguments.file)
    text = {"format": format_of(arguments.json_schema)} if arguments.json_schema else None
    tools: list[AgentTool] = [function_of(name) for name in arguments.tool]
    try:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(_client(arguments))
            where = _LOCAL if arguments.local else client.base_url
            previous = _last(where) if arguments.continues else arguments.previous
            for target in arguments.mcp:
                tools += await _tools_of(target, stack)
            agent = _agent(client, tools, _request(arguments, text))
            response, usage = await _run(arguments, agent, message, previous)
    except OutputFailed as failed:
        raise failed.reason from None
    except (ConnectionFailed, TimedOut) as error:
        raise _no_answer(error, arguments) from None
    except UsageError as error:
        raise CommandFailed(f"antiphon: {printable_line(str(error))}", MISTAKE) from None
    except AntiphonError as error:
        raise CommandFailed(f"antiphon: {printable_line(str(error))}", FAILED) from None
    if response.status in ("completed", "incomplete"):
        _remember(where, response.id)
    if arguments.usage:
        note(_describe_usage(usage))
    return _ending(response)


def _agent(client: AsyncClient, tools: list[AgentTool], request: Request) -> Agent:
    try:
        return Agent(client=client, tools=tools, request=request)
    except (SchemaError, ValueError) as error:  # a function that no model can call, or one name for two
        raise CommandFailed(f"antiphon: {printable_line(str(error))}", MISTAKE) from None


async def _tools_of(target: str, stack: AsyncExitStack) -> list[AgentTool]:
    try:
        server = await stack.enter_async_context(mcp_server_of(target))
    except ConnectionFailed as error:
        raise CommandFailed(f"antiphon: --mcp {target}: {printable_line(str(error))}") from None
    return [*server.tools]


def _request(arguments: argparse.Namespace, text: dict[str, Any] | None) -> Request:
    given = {"model": arguments.model, "instructions": arguments.system, "text": text}
    return decode_request(encode({name: value for name, value in given.items() if value is not None}))


def _client(arguments: argparse.Namespace) -> AsyncClient:
    if not arguments.raw:
        return AsyncClient(arguments.url, transport="local" if arguments.local else "http", retries=_RETRIES)
    printer = BytePrinter(sys.stdout)
    if arguments.local:
        return AsyncClient(LOCAL_URL, transport=Copying(LocalTransport(None), printer), retries=_RETRIES)
    copying = Copying(httpx.AsyncHTTPTransport(), printer)
    return AsyncClient(arguments.url, transport=copying, retries=_RETRIES)


class Copying(httpx.AsyncBaseTransport):
    """Prints what a server sends in answer to a question, byte by byte, while the client reads it."""

    def __init__(self, inner: httpx.AsyncBaseTransport, printer: BytePrinter) -> None:
        self._inner = inner
        self._printer = printer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"  # what is packed cannot be read
        response = await self._inner.handle_async_request(request)
        if response.is_success and isinstance(response.stream, httpx.AsyncByteStream):
            response.stream = _Copied(response.stream, self._printer)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Copied(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, printer: BytePrinter) -> None:
        self._inner = inner
        self._printer = printer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._printer.write(piece)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _run(
    arguments: argparse.Namespace, agent: Agent, message: Message, previous: str | None
) -> tuple[Response, Usage]:
    printer: Printer | None = None
    if not arguments.raw and not arguments.json:
        printer = printer_for(sys.stdout, markdown=not arguments.json_schema)
    response, tally, message_shown = None, Tally(), ""
    try:
        async with agent.stream(message, previous_response_id=previous) as run:
            async for event in run:
                match event:
                    case OutputTextDeltaEvent() | RefusalDeltaEvent() if printer:
                        if message_shown not in ("", event.item_id):
                            printer.text("\n\n")  # what is said after a call is a paragraph of its own
                        message_shown = event.item_id
                        printer.text(event.delta)
                    case ToolStarted(call=call):
                        note(f"→ {call.name}({call.arguments})")
                    case ToolEnded(outcome=outcome) if outcome.fault:
                        note(f"← {outcome.call.name}: {outcome.fault}: {outcome.output}")
                    case RunEnded(result=result):
                        response, tally.usage = result.response, result.usage
    finally:
        if printer is not None:
            printer.close()
    if response is None:
        raise CommandFailed("antiphon: there was no answer")
    if arguments.json:
        whole = printer_for(sys.stdout, markdown=False)
        whole.text(encode(response).decode())
        whole.close()
    return response, tally.usage


def _ending(response: Response) -> int:
    """Returns the exit code, and prints the reason if it is not 0."""
    if response.status == "failed":
        error = response.error
        code, reason = (error.code, error.message) if error else ("unknown", "the server gave no reason")
        note(f"antiphon: the response failed: {reason} ({code}) [{response.id}]")
        return FAILED
    if response.status != "completed":
        details = response.incomplete_details
        note(f"antiphon: the answer is incomplete: {details.reason if details else response.status}")
        return INCOMPLETE
    parts = [part for item in response.output if isinstance(item, Message) for part in item.content]
    if any(isinstance(part, Refusal) for part in parts) and not any(
        isinstance(part, OutputText) for part in parts
    ):
        return REFUSED
    return 0


def _describe_usage(usage: Usage) -> str:
    given, made = usage.input_tokens_details, usage.output_tokens_details
    return (
        f"{usage.input_tokens} tokens in ({given.cached_tokens} cached), "
        f"{usage.output_tokens} out ({made.reasoning_tokens} reasoning), {usage.total_tokens} in all"
    )


def _no_answer(error: ConnectionFailed | TimedOut, arguments: argparse.Namespace) -> CommandFailed:
    message = f"antiphon: {printable_line(str(error))}"
    reached = error.sent if isinstance(error, ConnectionFailed) else error.limit != "connect"
    if reached or arguments.local:
        return CommandFailed(message, FAILED)
    start = f"start a server with `{own_command('serve')}`"
    advice = f"{start}, name another with --url, or ask without one: --local"
    return CommandFailed(f"{message}\nantiphon: no server could be reached; {advice}", UNREACHABLE)


# --- what `-c` goes on from -------------------------------------------------------------------------------


def _state() -> Path:
    return default_data_folder() / "ask.json"


def _answers() -> dict[str, str]:
    """The file with the last response of this command on each server."""
    try:
        return msgspec.json.decode(_state().read_bytes(), type=dict[str, str])
    except (OSError, *UNREADABLE):
        return {}


def _last(where: str) -> str:
    found = _answers().get(where)
    if found is None:
        raise CommandFailed(f"antiphon: nothing was asked at {where} before; leave out -c", MISTAKE)
    return found


def _remember(where: str, response: str) -> None:
    """Saves the id for `--continue`; a failure to save it is ignored."""
    path = _state()
    with suppress(OSError):
        make_folder(path.parent)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_bytes(encode(_answers() | {where: response}))
        new.replace(path)
