"""Tools for a model whose chat template knows none: its prompt, and the grammar that holds it to a call.

A call is `{"name": …, "arguments": {…}}`, and with parallel calls a list of them. The grammar is made from a
JSON schema by llama.cpp, so what comes back is always a valid call of a declared function.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

PromptMessage = dict[str, Any]

MOST_CALLS: Final = 4
"""How many calls one answer may have."""

_ASK: Final = "With this result, answer my question:"
_CALL: Final = '{"name": function name, "arguments": {...}}'


class PromptTool(Protocol):
    """A function as a chat interface declares it."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...


def tool_schema(
    tools: Sequence[PromptTool], *, parallel: bool = False, most: int = MOST_CALLS
) -> dict[str, Any]:
    """The schema of a call of one of these functions, or with `parallel` of a list of up to `most` calls.

    >>> from types import SimpleNamespace
    >>> ping = SimpleNamespace(name="ping", description=None, parameters={"type": "object"})
    >>> tool_schema([ping])["properties"]["name"]
    {'const': 'ping'}
    """
    calls = [_call(tool.name, f"#/$defs/{number}") for number, tool in enumerate(tools)]
    one: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    # A schema's references count from its root, and here each schema has moved.
    moved = {str(n): _move_references(_parameters(tool), f"#/$defs/{n}") for n, tool in enumerate(tools)}
    if not parallel:
        return {**one, "$defs": moved}
    return {"type": "array", "items": one, "minItems": 1, "maxItems": max(1, most), "$defs": moved}


def tool_prompt(tools: Sequence[PromptTool]) -> str:
    """The prompt for a call of one of these functions."""
    lines = [
        json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        for tool in tools
    ]
    return "\n".join(
        (
            "You call functions. Functions:",
            *lines,
            f"Reply with {_CALL} using values from the user's message.",
        )
    )


def build_call_messages(
    messages: Sequence[PromptMessage], tools: Sequence[PromptTool]
) -> list[PromptMessage]:
    """The conversation as the model sees it when it is to call one of these functions."""
    plain = _in_words(messages)
    prompt = tool_prompt(tools)
    if plain and plain[0]["role"] == "system":
        first = {"role": "system", "content": f"{_text(plain[0])}\n\n{prompt}"}
        return [first, *plain[1:]]
    return [{"role": "system", "content": prompt}, *plain]


def build_answer_messages(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """The conversation as the model sees it when it is to answer in words."""
    plain = _in_words(messages)
    if messages and messages[-1]["role"] == "tool" and (question := last_question(messages)):
        plain[-1] = {"role": "user", "content": f"{plain[-1]['content']}\n{_ASK} {question}"}
    return plain


def last_question(messages: Sequence[PromptMessage]) -> str:
    """The text of the user's last message."""
    return next((_text(message) for message in reversed(messages) if message["role"] == "user"), "")


def _in_words(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Calls and their outputs as plain messages, because the template would drop them without a word."""
    calls_by_id: dict[str, str] = {}
    plain: list[PromptMessage] = []
    before = ""
    for message in messages:
        role = message["role"]
        if role == "tool":
            call = calls_by_id.get(message.get("tool_call_id", ""), "the function")
            said = f"The result of {call} is: {_text(message)}"
            if before == "tool":
                plain[-1] = {"role": "user", "content": f"{plain[-1]['content']}\n{said}"}
            else:
                plain.append({"role": "user", "content": said})
        elif calls := message.get("tool_calls"):
            for call in calls:
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                calls_by_id[call["id"]] = name if len(calls) == 1 else f"{name} {arguments}"
            functions = [call["function"] for call in calls]
            said = "\n".join(f"I called {one['name']} with {one['arguments']}." for one in functions)
            plain.append({"role": role, "content": "\n".join(filter(None, (_text(message), said)))})
        else:
            plain.append(message)
        before = role
    return plain


def _text(message: PromptMessage) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _call(name: str, parameters: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": {"$ref": parameters}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _parameters(tool: PromptTool) -> Mapping[str, Any]:
    """The schema of a function's arguments, with the type `object` where it names none."""
    if "type" in tool.parameters or "$ref" in tool.parameters or "anyOf" in tool.parameters:
        return tool.parameters
    return {"type": "object", **tool.parameters}


def _move_references(schema: Any, place: str) -> Any:
    """Make a schema whose references to its own root lead to `place` instead."""
    if isinstance(schema, Mapping):
        return {
            key: place + value[1:] if _is_local(key, value) else _move_references(value, place)
            for key, value in schema.items()
        }
    if isinstance(schema, list | tuple):
        return [_move_references(one, place) for one in schema]
    return schema


def _is_local(key: str, value: Any) -> bool:
    return key == "$ref" and isinstance(value, str) and value.startswith("#")
