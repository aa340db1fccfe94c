"""Asks `/chat/completions` where a server has no `/responses`, and reads the answer as a response.

The request may have only what both protocols have; for anything that needs the server's memory the client
raises a `UsageError`.
"""

import time
from collections import deque

from antiphon.client import errors
from antiphon.client.resources.parameters import encode_body
from antiphon.client.transport.http import MAX_BODY, Body, Clock, Http, HttpCall
from antiphon.client.transport.response_decoding import CHAT, VIA, refusal_in
from antiphon.spec import tools
from antiphon.spec.codec import Opaque, encode, to_builtins
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText, OutputText, Refusal, text_of
from antiphon.spec.decode import decode_request, decode_response
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning, type_of
from antiphon.spec.request import SAMPLING, Request, new_response
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Failure
from antiphon.wires.chat.chunks import model_of
from antiphon.wires.chat.messages import (
    ChatMessages,
    MessageFields,
    file_part,
    image_part,
    text_part,
    tool_call,
)
from antiphon.wires.chat.reader import ChatFault, ChatReader
from antiphon.wires.chat.requests import function_tool, json_schema, named_choice

# A 404 that speaks of one of these is about the request, not about the endpoint.
_OTHER_CODES = frozenset(
    {
        "model_not_found",
        "previous_response_not_found",
        "response_not_found",
        "conversation_not_found",
        "item_not_found",
    }
)
_SAME = (*SAMPLING, "parallel_tool_calls")
_STATEFUL = ("previous_response_id", "conversation", "background")


def says_no_endpoint(error: errors.StatusError) -> bool:
    """Does this refusal mean that the server has no `/responses` at all?"""
    return error.status == 404 and error.code not in _OTHER_CODES and not error.param


def read_request(body: bytes) -> Request:
    """The request that was meant for `/responses`, if chat can carry it."""
    try:
        request = decode_request(body)
    except SpecError as error:
        raise errors.UsageError(f"the request cannot be sent as a chat: {error}") from None
    for name in _STATEFUL:
        if getattr(request, name):
            raise errors.UsageError(
                f"`{name}` needs `/responses`, which this server does not have; send the whole context"
            )
    return request


def chat_body(request: Request) -> bytes:
    body: MessageFields = {"model": request.model, "messages": _messages(request)}
    body |= {name: value for name in _SAME if (value := getattr(request, name)) is not None}
    if request.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.max_output_tokens is not None:
        body["max_tokens"] = request.max_output_tokens
    if request.reasoning is not None and request.reasoning.effort is not None:
        body["reasoning_effort"] = request.reasoning.effort
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request)
    format = request.text.format if request.text else None
    if isinstance(format, tools.JsonSchemaFormat):
        body["response_format"] = json_schema(format)
    elif isinstance(format, tools.JsonObjectFormat):
        body["response_format"] = {"type": "json_object"}
    return encode_body({name: value for name, value in body.items() if value is not None})


def _messages(request: Request) -> list[MessageFields]:
    chat = ChatMessages()
    if request.instructions:
        chat.system(request.instructions)
    items = request.input or []
    if isinstance(items, str):
        chat.user(items)
        return chat.done
    for item in items:
        _add(chat, item)
    return chat.done


def _add(chat: ChatMessages, item: Item) -> None:
    match item:
        case Message(role="assistant"):
            chat.assistant(text_of(item.content))
        case Message(role="user"):
            chat.user(_content(item))
        case Message():
            chat.system(_words(item))
        case FunctionCall():
            chat.assistant("", [tool_call(item.call_id, item.name, item.arguments)])
        case FunctionCallOutput():
            chat.output(item.call_id, text_of(item.output))
        case Reasoning():
            pass  # no server that is known only by its address wants it back
        case _:
            raise errors.UsageError(
                f"an item of type {type_of(item)!r} needs `/responses`, which this server does not have; "
                "leave it out"
            )


def _words(message: Message) -> str:
    content = _content(message)
    if not isinstance(content, str):
        raise errors.UsageError("instructions cannot be sent as a chat unless they are text")
    return content


def _content(message: Message) -> str | list[MessageFields]:
    content = message.content
    if isinstance(content, str) or all(isinstance(part, InputText) for part in content):
        return text_of(content)
    return [_part(part) for part in content]


def _part(part: ContentPart) -> MessageFields:
    match part:
        case InputText(text=text) | OutputText(text=text) | Refusal(refusal=text):
            return text_part(text)
        case InputImage(image_url=str() as url, detail=detail):
            return image_part(url, detail)
        case InputFile(filename=name, file_data=str() as data):
            return file_part(name or "file", data)
    raise errors.UsageError("a part of the input cannot be sent as a chat; send text, images or files")


def _tool(tool: object) -> MessageFields:
    if not isinstance(tool, tools.FunctionTool):
        kind = tool.type if isinstance(tool, Opaque) else "custom"
        raise errors.UsageError(
            f"a tool of type {kind!r} needs `/responses`, which this server does not have"
        )
    parameters = tool.parameters or {"type": "object"}
    return function_tool(tool.name, tool.description, parameters, strict=tool.strict)


def _choice(request: Request) -> object:
    match request.tool_choice:
        case tools.FunctionToolChoice(name=name):
            return named_choice(name)
        case tools.AllowedTools() | Opaque():
            raise errors.UsageError("this tool_choice needs `/responses`, which this server does not have")
    return request.tool_choice


class _Reader(ChatReader, eq=False):
    """Keeps the fault of an answer that cannot be read to its end."""

    fault: ChatFault | None = None
    model: str = ""

    def describe(self, fault: ChatFault) -> ErrorPayload:
        said = fault.said
        if fault.kind != "reported":
            self.fault = fault
            return ErrorPayload("server_error", str(said))
        refusal = refusal_in(encode(said if isinstance(said, dict) else {"error": said}))
        return ErrorPayload(refusal.type or "server_error", refusal.message, refusal.code or None)

    def _data(self, data: bytes, line: bytes, is_last: bool) -> None:
        self.model = self.model or model_of(data)
        super()._data(data, line, is_last)


class ChatAnswer:
    """Reads events from the bytes of a chat; an unreadable answer raises an error after the events
    before it.
    """

    def __init__(self, request: Request) -> None:
        started = new_response(request, model=request.model or "", now=time.time())
        started.store = False
        marked = to_builtins(started) | {VIA: CHAT}
        self._composer = Composer(decode_response(encode(marked)), clock=time.time)
        self._reader = _Reader()
        self._pending: deque[AnyDelta] = deque()

    @property
    def response(self) -> Response:
        return self._composer.snapshot()

    def feed(self, piece: bytes) -> None:
        self._put(self._reader.feed(piece))

    def end(self) -> None:
        """Ends the answer."""
        self._put(self._reader.end())

    def whole(self, body: bytes) -> None:
        """Reads an answer in one piece, which may also be a stream that the client did not ask for."""
        if body.lstrip()[:1] != b"{":
            self.feed(body)
            self.end()
            return
        self._reader.model = model_of(body)
        try:
            self._put(self._reader.whole(body))
        except ChatFault as fault:
            self._put([Failure(self._reader.describe(fault))])

    def take(self) -> list[AnyEvent] | None:
        """Returns the events of the next delta, none if nothing has come; None after the end."""
        while self._pending:
            if events := self._composer.feed((self._pending.popleft(),)):
                return events
        if self._composer.finished:
            return None
        if (fault := self._reader.fault) is None:
            return []
        if fault.kind == "closed":
            raise self.break_off("the stream ended before the answer did")
        self.fail()
        raise errors.UnexpectedAnswer(f"the server's answer is not a chat completion: {fault.said}")

    def fail(self) -> None:
        closed = "the stream ended before the response did"
        self._composer.fail(ErrorPayload("server_error", closed, code="upstream_closed"))

    def break_off(self, message: str) -> errors.AntiphonError:
        self.fail()
        return errors.StreamBroken(f"{message}; ask again", self.response)

    def _put(self, deltas: list[AnyDelta]) -> None:
        if self._reader.model and not self._composer.response.model:
            self._composer.response.model = self._reader.model
        # The failure of an answer that cannot be read is an error of the client's, not one of the server's.
        self._pending += deltas[:-1] if self._reader.fault else deltas


def whole_answer(request: Request, body: bytes) -> Response:
    answer = ChatAnswer(request)
    answer.whole(body)
    while answer.take() is not None:
        pass
    return answer.response


class ChatSource:
    """The events of a streamed chat completion."""

    def __init__(self, http: Http, call: HttpCall, request: Request) -> None:
        self._http = http
        self._call = call
        self._answer = ChatAnswer(request)
        self._body: Body | None = None
        self.request_id = ""

    @property
    def response(self) -> Response:
        return self._answer.response

    async def open(self) -> None:
        self._body = await self._http.open(self._call, Clock(self._call.timeouts.total))
        self.request_id = self._body.request_id

    def take(self) -> list[AnyEvent] | None:
        return self._answer.take()

    async def wait(self) -> None:
        assert self._body is not None
        try:
            if self._body.content_type == "application/json":
                self._answer.whole(await self._body.read(MAX_BODY))
            elif (piece := await self._body.next()) is not None:
                self._answer.feed(piece)
            else:
                self._answer.end()
        except errors.ConnectionFailed as error:
            raise self._answer.break_off(str(error)) from None
        except (errors.TimedOut, errors.UnexpectedAnswer):
            self._answer.fail()
            raise

    async def close(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.close()
