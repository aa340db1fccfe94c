"""The messages of a `/chat/completions` request as that wire has them, for the gateway and the client."""

from collections.abc import Sequence
from typing import Any

from antiphon.wires.media import file_bytes

MessageFields = dict[str, Any]


class ChatMessages:
    """Appends to `done`. What a model says and calls in one turn becomes one message."""

    def __init__(self, done: list[MessageFields] | None = None, *, joins_system: bool = True) -> None:
        self.done = [] if done is None else done
        self._joins_system = joins_system

    def system(self, text: str, role: str = "system") -> None:
        if self._joins_system and role == "system" and self._last_role() == role:
            # Many chat templates take only one system message in a row.
            self.done[-1]["content"] += f"\n\n{text}"
        else:
            self.done.append({"role": role, "content": text})

    def user(self, content: str | list[MessageFields]) -> None:
        self.done.append({"role": "user", "content": content})

    def assistant(self, text: str, calls: Sequence[MessageFields] = (), **fields: object) -> None:
        """Adds to the model's turn: words, calls, and further fields of its message."""
        if not (text or calls or fields):
            return
        if self._last_role() != "assistant":
            self.done.append({"role": "assistant", "content": None})
        message = self.done[-1]
        if text:
            message["content"] = f"{message['content']}\n{text}" if message["content"] else text
        if calls:
            message["tool_calls"] = [*message.get("tool_calls", ()), *calls]
        message.update(fields)

    def output(self, call_id: str, text: str) -> None:
        """What a tool answered."""
        self.done.append({"role": "tool", "tool_call_id": call_id, "content": text})

    def _last_role(self) -> str | None:
        return self.done[-1]["role"] if self.done else None


def tool_call(call_id: str, name: str, arguments: str) -> MessageFields:
    """A call in an assistant message."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def text_part(text: str) -> MessageFields:
    return {"type": "text", "text": text}


def image_part(url: str, detail: str = "auto") -> MessageFields:
    """An image by its address or as a data URL; `auto` is what every server does without being asked."""
    target = {"url": url} if detail == "auto" else {"url": url, "detail": detail}
    return {"type": "image_url", "image_url": target}


def file_part(name: str, data: str) -> MessageFields:
    """A file as a data URL; plain base64 is made one."""
    if not data.startswith("data:"):
        data = f"data:{file_bytes(data, name).media_type};base64,{data}"
    return {"type": "file", "file": {"filename": name, "file_data": data}}
