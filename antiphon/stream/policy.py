"""Enforces `tool_choice`, `allowed_tools`, `parallel_tool_calls` and `max_tool_calls` on the model's output.

The full list of tools always goes to the model, so that its prompt cache holds; a call that the client
forbade is suppressed here, before the Composer gives it an index.
"""

from collections.abc import Callable, Iterable

from antiphon.spec.codec import Opaque
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.items import CustomToolCallOutput, FunctionCallOutput
from antiphon.spec.request import Request
from antiphon.spec.tools import (
    AllowedTools,
    CustomTool,
    FunctionTool,
    FunctionToolChoice,
    Tool,
    ToolChoice,
    ToolRef,
)
from antiphon.stream.answer_limit import MOST_BYTES, TOO_LONG, AnswerTooLong, size_of
from antiphon.stream.client_calls import declared_tools
from antiphon.stream.deltas import AnyDelta, CallDelta, Failure, Finish, ItemDelta, ItemEnd, Key
from antiphon.stream.dialects import solicited
from antiphon.stream.sinks import Sink, WrappingSink

POLICY = "policy"
"""The name in a receipt for what this sink suppresses."""
# Items of a hosted tool that come without a call.
_NO_CALLS = frozenset({"mcp_list_tools", "additional_tools"})


def tool_names(tools: Iterable[Tool]) -> set[str]:
    """The names that a call may have; a namespace lends its name to its tools."""
    names: set[str] = set()
    for tool in tools:
        if isinstance(tool, FunctionTool | CustomTool):
            names.add(tool.name)
        elif tool.type == "namespace":
            inner = tool.fields.get("tools")
            names |= (
                {t["name"] for t in inner if isinstance(t, dict) and isinstance(t.get("name"), str)}
                if isinstance(inner, list)
                else set()
            )
        elif isinstance(name := tool.fields.get("name"), str):
            names.add(name)
    return names


def check_tools(request: Request) -> None:
    """Refuse a choice that names a tool which the request does not have."""
    choice = request.tool_choice
    if choice is None:
        return
    given = request.input if isinstance(request.input, list) else ()
    tools = declared_tools(request.tools, given)
    names = tool_names(tools)
    if choice == "required" and not tools:
        raise SpecError(invalid_param("tool_choice", "`required` needs at least one tool in `tools`"))
    if isinstance(choice, FunctionToolChoice) and choice.name not in names:
        raise SpecError(invalid_param("tool_choice.name", f"there is no tool {choice.name!r} in `tools`"))
    if isinstance(choice, AllowedTools):
        undefined = [
            ref.name for ref in choice.tools if isinstance(ref, FunctionToolChoice) and ref.name not in names
        ]
        if undefined:
            raise SpecError(
                invalid_param(
                    "tool_choice.tools", f"allowed_tools contains undefined tools: {', '.join(undefined)}"
                )
            )
        for n, ref in enumerate(choice.tools):
            _check_type(ref, tools, f"tool_choice.tools[{n}]")
    _check_type(choice, tools, "tool_choice")
    if isinstance(choice, Opaque) and choice.type == "custom" and choice.fields.get("name") not in names:
        raise SpecError(
            invalid_param("tool_choice.name", f"there is no tool {choice.fields.get('name')!r} in `tools`")
        )


def _check_type(choice: ToolChoice | ToolRef, tools: Iterable[Tool], path: str) -> None:
    """A tool that is neither a function nor named is chosen by its type, and must be there, too."""
    if isinstance(choice, Opaque) and solicited([choice]).isdisjoint(solicited(tools)):
        message = f"there is no tool of type {choice.type!r} in `tools`"
        raise SpecError(invalid_param(f"{path}.type", message))
    if isinstance(choice, Opaque) and choice.type == "mcp":
        label = choice.fields.get("server_label")
        labels = [tool.fields.get("server_label") for tool in tools if isinstance(tool, Opaque)]
        if label is not None and label not in labels:
            message = f"there is no MCP server {label!r} in `tools`"
            raise SpecError(invalid_param(f"{path}.server_label", message))


def restricts(request: Request) -> bool:
    """Is there anything to enforce? Otherwise deltas can pass unseen."""
    return (
        request.tool_choice not in (None, "auto")
        or request.parallel_tool_calls is False
        or request.max_tool_calls is not None
    )


class PolicySink(WrappingSink):
    """A sink that lets through only the calls which one request allows.

    It calls `note` with the parameter that forbids a call, and with what it suppressed. It has let `made`
    calls of the same answer through before.
    """

    def __init__(
        self,
        sink: Sink,
        request: Request,
        note: Callable[[str, str], None],
        made: int = 0,
        limit: int = MOST_BYTES,
    ) -> None:
        super().__init__(sink)
        self._note = note
        self._allowed = _allowed_names(request.tool_choice)
        self._required = _is_required(request.tool_choice)
        self._hosted_counts = _hosted_counts(request.tool_choice)
        self._limit = _limit(request)
        self._calls: dict[Key, CallDelta] = {}  # the delta that named the call now under this key
        self._forbidden: set[Key] = set()
        self._unmade: set[str] = set()  # ids of the calls that were suppressed: their outputs are, too
        self._waiting: dict[Key, list[CallDelta]] = {}
        self._count = made
        self._over_limit = False
        self._room = limit  # for calls that are not let through

    def put(self, deltas: list[AnyDelta]) -> bool:
        return self._sink.put(self._filter(deltas))

    def _filter(self, deltas: list[AnyDelta]) -> list[AnyDelta]:
        passed: list[AnyDelta] = []
        for delta in deltas:
            if isinstance(delta, CallDelta):
                passed += self._call(delta)
            elif self._is_of_a_suppressed_call(delta):
                continue
            elif isinstance(delta, Finish):
                passed += self._finish(delta)
            elif isinstance(delta, ItemDelta) and self._hosted_counts and _is_hosted_call(delta):
                self._required = False
                passed.append(delta)
            else:
                passed.append(delta)
        return passed

    def _is_of_a_suppressed_call(self, delta: AnyDelta) -> bool:
        """Is it the end of one, or the output of one that the answerer has run itself?"""
        match delta:
            case ItemEnd(key=key):
                return key in self._forbidden
            case ItemDelta(item=FunctionCallOutput(call_id=call_id) | CustomToolCallOutput(call_id=call_id)):
                return call_id in self._unmade
        return False

    def _call(self, delta: CallDelta) -> list[AnyDelta]:
        named = self._calls.get(delta.key)
        if named is None or _is_another(named, delta):
            self._withhold(delta)
            waiting = self._waiting.setdefault(delta.key, [])
            waiting.append(delta)
            if not delta.name:
                return []
            del self._waiting[delta.key]
            self._calls[delta.key] = delta
            if self._permits(delta):
                self._forbidden.discard(delta.key)
                return list(waiting)
            self._forbidden.add(delta.key)
            self._unmade.update(piece.call_id for piece in waiting if piece.call_id)
        if delta.key not in self._forbidden:
            return [delta]
        self._withhold(delta)
        return []

    def _withhold(self, delta: CallDelta) -> None:
        """Count the bytes of a suppressed call, which the sink behind this one cannot count."""
        self._room -= size_of(delta)
        if self._room < 0:
            raise AnswerTooLong(TOO_LONG)

    def _permits(self, delta: CallDelta) -> bool:
        if self._allowed is not None and delta.name not in self._allowed:
            self._note("tool_choice", f"the model called {delta.name!r}, which is not allowed")
            return False
        if self._limit is not None and self._count >= self._limit[1]:
            self._note(self._limit[0], f"the call of {delta.name!r} is over the limit")
            self._over_limit = self._limit[0] == "max_tool_calls"
            return False
        self._count += 1
        return True

    def _finish(self, finish: Finish) -> list[AnyDelta]:
        waiting = [delta for pieces in self._waiting.values() for delta in pieces]
        if self._required and not self._count and not waiting and finish.reason in ("stop", "tool_calls"):
            message = "the model answered without the tool call that `tool_choice` requires"
            return [
                Failure(ErrorPayload("model_error", message, code="tool_call_required", param="tool_choice"))
            ]
        if self._over_limit and finish.reason in ("stop", "tool_calls"):
            finish = Finish("max_tool_calls")
        if self._allowed is not None:
            waiting = []
        return [*waiting, finish]


def _is_another(named: CallDelta, delta: CallDelta) -> bool:
    """Providers may give one key to several calls; a new name or id begins the next."""
    renamed = bool(delta.name) and delta.name != named.name
    return renamed or bool(delta.name and delta.call_id and delta.call_id != named.call_id)


def _allowed_names(choice: ToolChoice | None) -> set[str] | None:
    """The names that may be called; None when every declared tool may."""
    if choice == "none":
        return set()
    if isinstance(choice, FunctionToolChoice):
        return {choice.name}
    if isinstance(choice, AllowedTools):
        if choice.mode == "none":
            return set()
        names = {ref.name for ref in choice.tools if isinstance(ref, FunctionToolChoice)}
        return names | {
            str(ref.fields.get("name") or ref.type) for ref in choice.tools if isinstance(ref, Opaque)
        }
    return None


def _is_required(choice: ToolChoice | None) -> bool:
    if isinstance(choice, AllowedTools):
        return choice.mode == "required"
    return choice == "required" or isinstance(choice, FunctionToolChoice)


def _hosted_counts(choice: ToolChoice | None) -> bool:
    """Is the choice met by a tool that the provider runs itself?"""
    if isinstance(choice, AllowedTools):
        return any(isinstance(ref, Opaque) for ref in choice.tools)
    return choice == "required"


def _is_hosted_call(delta: ItemDelta) -> bool:
    return isinstance(delta.item, Opaque) and delta.item.type not in _NO_CALLS


def _limit(request: Request) -> tuple[str, int] | None:
    """The parameter that limits the number of calls, and the number."""
    if request.parallel_tool_calls is False and request.max_tool_calls != 0:
        return "parallel_tool_calls", 1
    if request.max_tool_calls is not None:
        return "max_tool_calls", request.max_tool_calls
    return None
