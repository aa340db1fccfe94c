"""A request of the Messages API, made into one of the specification."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from antiphon.bridges.error_paths import part_place, place_of, rename_param
from antiphon.bridges.messages.block_fields import flag, optional_string, string, wrong_kind
from antiphon.bridges.messages.body import MessageBlock, MessagesBody, decode_messages
from antiphon.bridges.messages.conversation import MessagesTranslation
from antiphon.bridges.messages.picker_names import model_of
from antiphon.bridges.messages.summaries import check_compaction, summary_trigger
from antiphon.bridges.messages.threads import PREVIOUS, THREADS_BETA, followed_response
from antiphon.bridges.messages.tool_declarations import read_tool
from antiphon.spec.codec import Opaque, extras, with_extras
from antiphon.spec.error_paths import describe, wrong
from antiphon.spec.items import FunctionCallOutput
from antiphon.spec.limits import MAX_BODY, MAX_NAME
from antiphon.spec.request import ReasoningParam, Request, ServiceTier, TextParam
from antiphon.spec.response import Effort, Receipt
from antiphon.spec.tools import FunctionTool, FunctionToolChoice, JsonSchemaFormat, Tool, ToolChoice
from antiphon.tools.web_search.declared import MESSAGES
from antiphon.wires.messages.thinking import EFFORTS, effort_for
from antiphon.wires.messages.vendor import BETAS, FIELDS, MESSAGE_FIELDS

_CHOICES: dict[str, ToolChoice] = {"auto": "auto", "any": "required", "none": "none"}
_TIERS: dict[str, ServiceTier] = {"auto": "auto", "standard_only": "default"}
# Fields of the body that are carried as they are, for providers of the same API.
_CARRIED = ("context_management", "container", "mcp_servers", "cache_control")
# What a request calls otherwise than this API does.
_NAMES = {
    "input": "messages",
    "max_output_tokens": "max_tokens",
    "previous_response_id": PREVIOUS,
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "reasoning.effort": "output_config.effort",
    "reasoning.summary": "thinking.display",
    "reasoning": "thinking",
    "safety_identifier": "metadata.user_id",
    "stop": "stop_sequences",
    "text.format": "output_config.format",
}
# What a block calls the fields of a part.
_OF_A_BLOCK = {
    "text": "text",
    "image_url": "source",
    "file_data": "source",
    "file_url": "source.url",
    "file_id": "source.file_id",
    "filename": "title",
    "citations": "citations",
    "context": "context",
    "transformations": "transformations",
}

_OF_A_MESSAGE = re.compile(rf"input\[(\d+)\]\.({'|'.join(MESSAGE_FIELDS)})")


@dataclass(slots=True)
class ReadMessages:
    """The request, where each item of its input and each part comes from, and how thinking is to be shown.

    One that goes on with a thread has none of its tools yet: `following` gives it with them.
    """

    request: Request
    places: list[str]
    blocks: list[list[str]]
    omits_thinking: bool = False
    body: MessagesBody | None = None
    betas: str = ""
    receipts: tuple[Receipt, ...] = ()
    """None: what a provider cannot be given of a message is found later."""

    def following(self, tools: Sequence[Tool]) -> "ReadMessages":
        """The same request, with the tools that its thread was created with."""
        assert self.body is not None
        return to_request(self.body, self.betas, tools)

    def param(self, ours: str) -> str:
        """What the client calls a parameter.

        >>> asked = b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}'
        >>> read_messages(asked).param("input[0].content[0]"), read_messages(asked).param("max_output_tokens")
        ('messages[0].content', 'max_tokens')
        """
        if of_message := _OF_A_MESSAGE.fullmatch(ours):
            return f"{self.places[int(of_message[1])].partition('.')[0]}.{of_message[2]}"
        found = part_place(ours, self.blocks, _OF_A_BLOCK) or place_of(
            ours, self.places, self._id_of_call(ours)
        )
        return found or rename_param(ours, _NAMES)

    def _id_of_call(self, ours: str) -> str:
        """Calls and their results have other names for it."""
        asked = self.request.input
        number = ours.removeprefix("input[").partition("]")[0]
        item = asked[int(number)] if isinstance(asked, list) and number.isdecimal() else None
        return "tool_use_id" if isinstance(item, FunctionCallOutput) else "id"


def read_messages(body: bytes, *, max_bytes: int = MAX_BODY, betas: str = "") -> ReadMessages:
    """The body of `POST /v1/messages`; `betas` is its header `anthropic-beta`. A mistake is a `SpecError`."""
    asked = decode_messages(body, max_bytes=max_bytes)
    if asked.max_tokens is None:
        raise wrong("max_tokens", "Field required", "missing_field")
    return to_request(asked, betas)


def read_counted(body: bytes, *, max_bytes: int = MAX_BODY, betas: str = "") -> ReadMessages:
    """The body of `POST /v1/messages/count_tokens`, which has no limit."""
    asked = decode_messages(body, max_bytes=max_bytes)
    asked.compaction = None  # which this API ignores here
    return to_request(asked, betas)


def to_request(asked: MessagesBody, betas: str = "", held: Sequence[Tool] | None = None) -> ReadMessages:
    """`held` are the tools of the thread that the request goes on with, once they are known."""
    previous = followed_response(asked)
    if not asked.messages and previous is None:
        raise wrong("messages", "at least one message is required", "no_messages")
    if asked.max_tokens is not None and asked.max_tokens < 1:
        raise wrong("max_tokens", f"expected at least 1, got {asked.max_tokens}")
    if asked.compaction is not None:
        asked = check_compaction(asked, goes_on=previous is not None)
    talk = MessagesTranslation(asked.system, asked.messages)
    if asked.compaction is not None:
        talk.items.append(summary_trigger(asked.compaction, talk.tool_changes))
    own = extras(asked) | {name: value for name in _CARRIED if (value := getattr(asked, name)) is not None}
    named = [one for name in betas.split(",") if (one := name.strip())]
    if named := [name for name in named if not name.startswith(THREADS_BETA)]:
        own[BETAS] = named
    tools = list(held or ()) or [read_tool(tool, f"tools[{n}]") for n, tool in enumerate(asked.tools)]
    request = Request(
        model=model_of(asked.model),
        input=talk.items,
        previous_response_id=previous,
        store=asked.store,
        tools=tools,
        max_output_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        stream=asked.stream,
    )
    if previous is None or held is not None:
        _choose(request, asked.tool_choice, own)
    _think(request, asked, own)
    _identify(request, asked.metadata, own)
    if asked.service_tier is not None:
        request.service_tier = _TIERS.get(asked.service_tier)
        if request.service_tier is None:
            own["service_tier"] = asked.service_tier
    more: dict[str, Any] = {"stop": asked.stop_sequences or None, "top_k": asked.top_k, FIELDS: own or None}
    more = {name: value for name, value in more.items() if value is not None}
    display = (asked.thinking or {}).get("display")
    return ReadMessages(
        with_extras(request, more) if more else request,
        talk.places,
        talk.blocks,
        display == "omitted",
        None if previous is None else asked,
        betas,
    )


# --- tools ------------------------------------------------------------------------------------------------


def _choose(request: Request, choice: MessageBlock | None, own: MessageBlock) -> None:
    """A choice of tools that only their provider runs is carried: others cannot be held to it.

    The gateway can search in a provider's place, so a search can be chosen everywhere.
    """
    if choice is None:
        return
    kind, functions = choice.get("type"), list(_functions(request.tools))
    if flag(choice, "disable_parallel_tool_use", "tool_choice"):
        request.parallel_tool_calls = False
    if kind == "tool":
        name = string(choice, "name", "tool_choice")
        if name in functions:
            request.tool_choice = FunctionToolChoice(name)
        elif (tool := _of_provider(request.tools, name)) is not None:
            if tool.type.startswith(MESSAGES):
                request.tool_choice = Opaque.make(type=tool.type, name=name)
            else:
                own["tool_choice"] = choice
        else:
            raise wrong("tool_choice.name", f"there is no tool {describe(name)} in `tools`")
    elif kind == "any" and not functions:
        if not request.tools:
            raise wrong("tool_choice", "`any` needs at least one tool in `tools`")
        own["tool_choice"] = choice
    elif isinstance(kind, str) and kind in _CHOICES:
        request.tool_choice = _CHOICES[kind]
    else:
        raise wrong("tool_choice.type", f"expected 'auto', 'any', 'tool' or 'none', got {describe(kind)}")


def _of_provider(tools: Iterable[Tool], name: object) -> Opaque | None:
    return next(
        (tool for tool in tools if isinstance(tool, Opaque) and tool.fields.get("name") == name), None
    )


def _functions(tools: Iterable[Tool]) -> Iterable[str]:
    return (tool.name for tool in tools if isinstance(tool, FunctionTool))


# --- thinking, formats, and who asks ----------------------------------------------------------------------


def _think(request: Request, asked: MessagesBody, own: MessageBlock) -> None:
    """What the specification says of effort, for every provider, and the exact words for one of this API."""
    output = dict(asked.output_config or {})
    if (form := output.pop("format", None)) is not None:
        request.text = TextParam(format=_format(form, "output_config.format"))
    elif (form := own.pop("output_format", None)) is not None:
        request.text = TextParam(format=_format(form, "output_format"))
    effort = optional_string(output, "effort", "output_config")
    if effort not in EFFORTS:
        effort = None
    if output:
        own["output_config"] = output
    thinking = asked.thinking
    if thinking is None and effort is None:
        return
    own["thinking"] = thinking
    kind, budget, summary = None, None, False
    if thinking is not None:
        kind, budget = string(thinking, "type", "thinking"), _budget(thinking)
        summary = optional_string(thinking, "display", "thinking") == "summarized"
    if kind == "disabled":
        effort = "none"
    elif kind == "enabled" and budget is not None:
        effort = effort or effort_for(budget)
    if effort is not None or summary:
        request.reasoning = ReasoningParam(cast(Effort | None, effort), "auto" if summary else None)


def _budget(thinking: MessageBlock) -> int | None:
    budget = thinking.get("budget_tokens")
    if budget is None or (isinstance(budget, int) and not isinstance(budget, bool) and budget > 0):
        return budget
    raise wrong_kind("thinking.budget_tokens", "a whole number of tokens, at least 1", budget)


def _format(form: Any, where: str) -> JsonSchemaFormat:
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        raise wrong(f"{where}.type", "expected 'json_schema'")
    if not isinstance(schema := form.get("schema"), dict):
        raise wrong(f"{where}.schema", f"expected a JSON schema, got {describe(schema)}")
    return JsonSchemaFormat(schema=schema)


def _identify(request: Request, metadata: MessageBlock | None, own: MessageBlock) -> None:
    """Name the end user; an id that is too long for other providers is replaced by its hash."""
    if metadata is None:
        return
    user = optional_string(metadata, "user_id", "metadata")
    if user is not None:
        short = len(user) <= MAX_NAME
        request.safety_identifier = user if short else hashlib.sha256(user.encode()).hexdigest()
        if short and len(metadata) == 1:
            return
    own["metadata"] = metadata
