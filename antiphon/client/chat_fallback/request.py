"""The way out when a server has no `/responses`: the same request to `/chat/completions`.

Only what both protocols can say goes this way; what needs the server's memory is refused in a sentence.
"""

from antiphon.client.errors import StatusError, UsageError
from antiphon.client.resources.parameters import encoded
from antiphon.spec import tools
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText, OutputText, Refusal, text_of
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning, type_of
from antiphon.spec.request import SAMPLING, Request
from antiphon.wires.chat.messages import (
    ChatMessages,
    MessageFields,
    file_part,
    image_part,
    text_part,
    tool_call,
)
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


def says_no_endpoint(error: StatusError) -> bool:
    """Does this refusal mean that the server has no `/responses` at all?"""
    return error.status == 404 and error.code not in _OTHER_CODES and not error.param


def read_request(body: bytes) -> Request:
    """The request that was meant for `/responses`, if chat can carry it."""
    try:
        request = decode_request(body)
    except SpecError as error:
        raise UsageError(f"the request cannot be sent as a chat: {error}") from None
    for name in _STATEFUL:
        if getattr(request, name):
            raise UsageError(
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
    return encoded({name: value for name, value in body.items() if value is not None})


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
            raise UsageError(
                f"an item of type {type_of(item)!r} needs `/responses`, which this server does not have; "
                "leave it out"
            )


def _words(message: Message) -> str:
    content = _content(message)
    if not isinstance(content, str):
        raise UsageError("instructions cannot be sent as a chat unless they are text")
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
    raise UsageError("a part of the input cannot be sent as a chat; send text, images or files")


def _tool(tool: object) -> MessageFields:
    if not isinstance(tool, tools.FunctionTool):
        kind = tool.type if isinstance(tool, Opaque) else "custom"
        raise UsageError(f"a tool of type {kind!r} needs `/responses`, which this server does not have")
    parameters = tool.parameters or {"type": "object"}
    return function_tool(tool.name, tool.description, parameters, strict=tool.strict)


def _choice(request: Request) -> object:
    match request.tool_choice:
        case tools.FunctionToolChoice(name=name):
            return named_choice(name)
        case tools.AllowedTools() | Opaque():
            raise UsageError("this tool_choice needs `/responses`, which this server does not have")
    return request.tool_choice
