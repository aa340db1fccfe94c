"""Earlier calls and instructions as plain text, for servers that do not take them as items.

The calls of a history can stand as items, as text, as comments or not at all; the system prompt as
`instructions`, as a leading developer message, or as both.
"""

from typing import Literal

from antiphon.spec import items
from antiphon.spec.content import InputText

ToolHistory = Literal["native", "text", "comment", "drop"]
_Words = Literal["text", "comment"]
"""The two ways to write a call as words; models imitate the first sooner than the second."""
SystemPrompt = Literal["instructions", "developer", "both"]

_CALLS: dict[_Words, str] = {
    "text": "[Tool Call: {name}({arguments}) -> call_id: {call_id}]",
    "comment": "<!-- prior-tool: {name} | id: {call_id} | args: {arguments} -->",
}
_OUTPUT = "[Tool Result: call_id: {call_id}]\n"


def call_as_text(call: items.FunctionCall | items.CustomToolCall, words: _Words) -> str:
    """A call as text of the assistant."""
    arguments = call.input if isinstance(call, items.CustomToolCall) else call.arguments
    return _CALLS[words].format(name=call.name, arguments=arguments, call_id=call.call_id)


def output_as_message(output: items.FunctionCallOutput | items.CustomToolCallOutput) -> items.Message:
    """A tool's output as a message of the user, for a wire on which no output stands without its call."""
    begin = _OUTPUT.format(call_id=output.call_id)
    if isinstance(output.output, str):
        return items.Message(role="user", content=begin + output.output)
    return items.Message(role="user", content=[InputText(begin), *output.output])


def place_prompt(prompt: str | None, where: SystemPrompt) -> tuple[str | None, list[items.Message]]:
    """Place the system prompt: return the instructions, and the messages that stand before all others."""
    if not prompt:
        return None, []
    leading = [] if where == "instructions" else [items.Message(role="developer", content=prompt)]
    return (None if where == "developer" else prompt), leading
