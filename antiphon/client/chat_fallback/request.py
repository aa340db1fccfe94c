"""The way out when a server has no `/responses`: the same request to `/chat/completions`.

Only what both protocols can say goes this way; what needs the server's memory is refused in a sentence.
"""

from collections.abc import Iterator

from antiphon.client.errors import StatusError, UsageError
from antiphon.client.resources.parameters import encoded
from antiphon.spec.codec import Opaque
from antiphon.spec.content import InputFile, InputImage, InputText, OutputText, Refusal, text_of
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message, type_of
from antiphon.spec.request import SAMPLING, Request
from antiphon.spec.tools import (
    AllowedTools,
    FunctionTool,
    FunctionToolChoice,
    JsonObjectFormat,
    JsonSchemaFormat,
)
from antiphon.wires.chat.requests import (
    Fields,
    function_tool,
    json_schema,
    named_choice,
    tool_call,
    tool_message,
)

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
    body: Fields = {"model": request.model, "messages": list(_messages(request))}
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
    if isinstance(format, JsonSchemaFormat):
        body["response_format"] = json_schema(format)
    elif isinstance(format, JsonObjectFormat):
        body["response_format"] = {"type": "json_object"}
    return encoded({name: value for name, value in body.items() if value is not None})


def _messages(request: Request) -> Iterator[Fields]:
    if request.instructions:
        yield {"role": "system", "content": request.instructions}
    items = request.input or []
    if isinstance(items, str):
        yield {"role": "user", "content": items}
        return
    answer: Fields | None = None
    for item in items:
        part = _of_answer(item)
        if part is None:
            if answer is not None:
                yield answer
                answer = None
            if (message := _message(item)) is not None:
                yield message
        else:
            # One turn of the model is one message, its words and its calls together.
            answer = _joined(answer, part)
    if answer is not None:
        yield answer


def _of_answer(item: Item) -> Fields | None:
    match item:
        case Message(role="assistant"):
            return {"content": text_of(item.content)}
        case FunctionCall():
            return {"tool_calls": [tool_call(item.call_id, item.name, item.arguments)]}
    return None


def _joined(answer: Fields | None, part: Fields) -> Fields:
    joined = dict(answer or {"role": "assistant", "content": None})
    if "content" in part:
        joined["content"] = f"{joined['content'] or ''}{part['content']}"
    if "tool_calls" in part:
        joined["tool_calls"] = [*joined.get("tool_calls", []), *part["tool_calls"]]
    return joined


def _message(item: Item) -> Fields | None:
    match item:
        case Message(role=role):
            return {"role": "system" if role == "developer" else role, "content": _content(item)}
        case FunctionCallOutput():
            return tool_message(item.call_id, text_of(item.output))
    if type_of(item) == "reasoning":
        return None
    raise UsageError(
        f"an item of type {type_of(item)!r} needs `/responses`, which this server does not have; leave it out"
    )


def _content(message: Message) -> str | list[Fields]:
    content = message.content
    if isinstance(content, str) or all(isinstance(part, InputText) for part in content):
        return text_of(content)
    parts: list[Fields] = []
    for part in content:
        match part:
            case InputText(text=text) | OutputText(text=text) | Refusal(refusal=text):
                parts.append({"type": "text", "text": text})
            case InputImage(image_url=str() as url, detail=detail):
                parts.append({"type": "image_url", "image_url": {"url": url, "detail": detail}})
            case InputFile(filename=name, file_data=str() as data):
                parts.append({"type": "file", "file": {"filename": name or "file", "file_data": data}})
            case _:
                raise UsageError("a part of the input cannot be sent as a chat; send text, images or files")
    return parts


def _tool(tool: object) -> Fields:
    if not isinstance(tool, FunctionTool):
        kind = tool.type if isinstance(tool, Opaque) else "custom"
        raise UsageError(f"a tool of type {kind!r} needs `/responses`, which this server does not have")
    parameters = tool.parameters or {"type": "object"}
    return function_tool(tool.name, tool.description, parameters, strict=tool.strict)


def _choice(request: Request) -> object:
    match request.tool_choice:
        case FunctionToolChoice(name=name):
            return named_choice(name)
        case AllowedTools() | Opaque():
            raise UsageError("this tool_choice needs `/responses`, which this server does not have")
    return request.tool_choice
