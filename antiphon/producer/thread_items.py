"""The items of a thread of events, one class a kind: each turns its snapshots into deltas.

A thread tells an item again and again as a whole: started, updated, completed. What goes out is what is new.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from antiphon.spec import ids
from antiphon.spec.codec import Opaque
from antiphon.spec.items import FunctionCallOutput, vendor_item
from antiphon.spec.limits import MAX_CALL_ID
from antiphon.stream.deltas import AnyDelta, CallDelta, ItemDelta, ItemEnd, PartEnd, Words, WordsStart

ThreadFields = Mapping[str, Any]

_VENDOR_NAMES = {"harness": "harness_event"}


class ThreadItem(ABC):
    """One item of a thread, from its first mention to its completion."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.done = False

    @abstractmethod
    def start(self, fields: ThreadFields) -> list[AnyDelta]: ...

    @abstractmethod
    def update(self, fields: ThreadFields) -> list[AnyDelta]: ...

    @abstractmethod
    def complete(self, fields: ThreadFields) -> list[AnyDelta]: ...


class WordItem(ThreadItem):
    """A message or reasoning. A text that does not go on from the last one becomes a part of its own."""

    def __init__(self, key: str, kind: Literal["message", "reasoning"]) -> None:
        super().__init__(key)
        self._kind = kind
        self._text = ""

    def start(self, fields: ThreadFields) -> list[AnyDelta]:
        return [WordsStart(self.key, self._kind), *self.update(fields)]

    def update(self, fields: ThreadFields) -> list[AnyDelta]:
        old, new = self._text, text_in(fields, "text")
        self._text = new
        if new.startswith(old):
            return [Words(self.key, new[len(old) :])] if new != old else []
        return [PartEnd(self.key), *([Words(self.key, new)] if new else [])]

    def complete(self, fields: ThreadFields) -> list[AnyDelta]:
        return [*self.update(fields), ItemEnd(self.key, "completed")]


class CallItem(ThreadItem):
    """A tool's invocation. Its arguments go out once they are final: a call cannot take anything back."""

    def __init__(self, key: str, call_id: str) -> None:
        super().__init__(key)
        self.call_id = call_id
        self._arguments: object = None

    def start(self, fields: ThreadFields) -> list[AnyDelta]:
        name = text_in(fields, "tool_name") or "unknown"
        return [CallDelta(self.key, name=name, call_id=self.call_id), *self.update(fields)]

    def update(self, fields: ThreadFields) -> list[AnyDelta]:
        if fields.get("arguments") is not None:
            self._arguments = fields["arguments"]
        return []

    def complete(self, fields: ThreadFields) -> list[AnyDelta]:
        self.update(fields)
        return self.end()

    def end(self) -> list[AnyDelta]:
        """The call is whole, whether the thread says so or its output shows it."""
        if self.done:
            return []
        self.done = True
        given = self._arguments
        text = given if isinstance(given, str) else "" if given is None else json_text(given)
        return [*([CallDelta(self.key, text)] if text else []), ItemEnd(self.key, "completed")]


class AnsweredCall(CallItem, ABC):
    """A call that brings its result with it: its output is an item of its own, once the call is whole."""

    def complete(self, fields: ThreadFields) -> list[AnyDelta]:
        deltas = super().complete(fields)
        output = self._result(fields)
        if output is not None:
            item = FunctionCallOutput(call_id=self.call_id, output=output, status="completed")
            deltas.append(ItemDelta(item, f"output of {self.key}"))
        return deltas

    @abstractmethod
    def _result(self, fields: ThreadFields) -> str | None: ...


class McpItem(AnsweredCall):
    """A call of an MCP tool."""

    def _result(self, fields: ThreadFields) -> str | None:
        result = fields.get("result")
        if result is None and fields.get("status") == "failed":
            result = "the tool failed"
        return result if result is None or isinstance(result, str) else json_text(result)


class CommandItem(AnsweredCall):
    """A command as a call of the tool `command_execution`, for readers that know no items of a vendor."""

    def start(self, fields: ThreadFields) -> list[AnyDelta]:
        return super().start({**fields, "tool_name": "command_execution"})

    def update(self, fields: ThreadFields) -> list[AnyDelta]:
        given = {name: fields[name] for name in ("command", "arguments") if fields.get(name) is not None}
        return super().update({"arguments": given or None})

    def _result(self, fields: ThreadFields) -> str:
        output, code = text_in(fields, "aggregated_output"), fields.get("exit_code")
        if fields.get("status") != "failed" and code in (None, 0):
            return output
        failure = "the command failed" if code is None else f"the command failed with exit code {code}"
        return f"{output.rstrip()}\n{failure}".lstrip()


class OutputItem(ThreadItem):
    """The output of an invocation."""

    def __init__(self, key: str, call_id: str) -> None:
        super().__init__(key)
        self._call_id = call_id

    def start(self, fields: ThreadFields) -> list[AnyDelta]:
        return [ItemDelta(self._item("", "in_progress"), self.key), *self.update(fields)]

    def update(self, fields: ThreadFields) -> list[AnyDelta]:
        return [ItemDelta(self._item(_output(fields), "in_progress"), self.key)]

    def complete(self, fields: ThreadFields) -> list[AnyDelta]:
        return [ItemDelta(self._item(_output(fields), "completed"), self.key)]

    def _item(self, output: str, status: Literal["in_progress", "completed"]) -> FunctionCallOutput:
        return FunctionCallOutput(call_id=self._call_id, output=output, status=status)


class VendorItem(ThreadItem):
    """A command, a change of files, a search, a plan…: an item of the vendor's own."""

    def __init__(self, key: str, vendor: str, fields: ThreadFields) -> None:
        super().__init__(key)
        self._vendor = vendor
        self._id = text_in(fields, "id")
        kind = text_in(fields, "type")
        self._name = _VENDOR_NAMES.get(kind, kind)

    def start(self, fields: ThreadFields) -> list[AnyDelta]:
        return [ItemDelta(self._item(fields, "in_progress"), self.key)]

    def update(self, fields: ThreadFields) -> list[AnyDelta]:
        return self.start(fields)

    def complete(self, fields: ThreadFields) -> list[AnyDelta]:
        status = "failed" if fields.get("status") == "failed" else "completed"
        return [ItemDelta(self._item(fields, status), self.key)]

    def _item(self, fields: ThreadFields, status: str) -> Opaque:
        data = {name: value for name, value in fields.items() if name not in ("id", "type")}
        return vendor_item(self._vendor, self._name, id=self._id, data=data, status=status)


class ThreadCalls:
    """Finds the call of an output by the harness's own id, or by the provider's."""

    def __init__(self, new_id: Callable[[str], str]) -> None:
        self._new_id = new_id
        self._used: set[str] = set()
        self._by_item: dict[str, CallItem] = {}
        self._by_provider: dict[str, CallItem] = {}

    def call_id(self, fields: ThreadFields) -> str:
        """The provider's id of an invocation, unless it is missing or taken; then the harness's."""
        for given in (text_in(fields, "tool_call_id"), text_in(fields, "id")):
            if given and given not in self._used and len(given) <= MAX_CALL_ID:
                self._used.add(given)
                return given
        made = self._new_id(ids.CALL)
        self._used.add(made)
        return made

    def add(self, item: CallItem, fields: ThreadFields) -> None:
        self._by_item[text_in(fields, "id")] = item
        if given := text_in(fields, "tool_call_id"):
            self._by_provider[given] = item

    def of_output(self, fields: ThreadFields) -> CallItem | None:
        harness, provider = text_in(fields, "call_id"), text_in(fields, "tool_call_id")
        return self._by_item.get(harness) or self._by_provider.get(provider) or self._by_provider.get(harness)

    def orphan_id(self, fields: ThreadFields) -> str:
        """Returns an id for an output without a known call."""
        given = text_in(fields, "tool_call_id") or text_in(fields, "call_id")
        return given if 0 < len(given) <= MAX_CALL_ID else self._new_id(ids.CALL)


def text_in(fields: ThreadFields, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _output(fields: ThreadFields) -> str:
    """The output; one that is empty because it was written to a file says where."""
    output, path = text_in(fields, "output"), text_in(fields, "spool_path")
    return f"Output saved to {path}" if path and not output else output
