"""Which events each provider's answers give: the tables that stand on its page in `docs/providers/`.

A provider puts deltas, and the Composer makes events of them, so what is listed here follows from what an
upstream can say. The conformance suite holds every row to what really came. The pages are written by
`python -m scripts.provider_pages`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

_Kind = Literal[
    "text", "annotation", "refusal", "reasoning", "summary", "function", "custom", "queued", "own"
]

ALWAYS = (
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.output_item.done",
    "response.completed",
    "response.incomplete",
    "error",
    "response.failed",
)
"""What every provider gives; `error` comes just before `response.failed`."""

_PART = ("response.content_part.added", "response.content_part.done")
KINDS: Mapping[_Kind, tuple[str, ...]] = {
    "text": (_PART[0], "response.output_text.delta", "response.output_text.done", _PART[1]),
    "annotation": ("response.output_text.annotation.added",),
    "refusal": (_PART[0], "response.refusal.delta", "response.refusal.done", _PART[1]),
    "reasoning": (_PART[0], "response.reasoning.delta", "response.reasoning.done", _PART[1]),
    "summary": (
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ),
    "function": ("response.function_call_arguments.delta", "response.function_call_arguments.done"),
    "custom": ("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"),
    "queued": ("response.queued",),
    "own": (),
}
"""The events of each thing that a model can say, in the order in which they come."""


@dataclass(frozen=True)
class ProviderEvents:
    """What an upstream's answer gives and what it does not, each with the field or the reason."""

    gives: Mapping[_Kind, str]
    omits: Mapping[_Kind, str]
    order: tuple[_Kind, ...]
    """How the events of an answer follow one another that thinks, says something and calls a function."""
    about_order: str
    output_index: str
    call_id: str
    item_id: str = (
        "made here, one for each item and the same on all its events; no id of the upstream is used"
    )
    own: tuple[str, ...] = ()
    """Events outside the specification."""
    whole_calls: bool = False
    """The arguments of a call come in one piece."""

    def types(self) -> set[str]:
        """Every event type that can come."""
        return {*ALWAYS, *self.own, *(name for kind in self.gives for name in KINDS[kind])}

    def sequence(self) -> list[str]:
        """The types of that answer's events; several deltas in a row stand as one."""
        items = [
            ["response.output_item.added", *KINDS[kind], "response.output_item.done"] for kind in self.order
        ]
        told = [name for item in items for name in item]
        return ["response.created", "response.in_progress", *told, "response.completed"]


_NAMES: Mapping[_Kind, str] = {
    "text": "text",
    "annotation": "an annotation",
    "refusal": "a refusal",
    "reasoning": "raw reasoning",
    "summary": "a summary of reasoning",
    "function": "a function call",
    "custom": "a custom tool call",
    "queued": "waiting",
    "own": "events outside the specification",
}

_NO_QUEUE = "an upstream that answers has begun; there is no queue to report"
_NO_EVENTS = "what the provider's own tools do comes as whole items, with `output_item` events alone"
_BY_APPEARANCE = "items are counted from 0 as they appear"
_WRAPPED = "a call of the function that stands for a custom tool, unwrapped"

_CHAT = ProviderEvents(
    gives={
        "text": "`delta.content`",
        "annotation": "`delta.annotations[].url_citation`, `citations[]`, `search_results[]`",
        "refusal": "`delta.refusal`",
        "reasoning": "`delta.reasoning_content`, `delta.reasoning`, `<think>`, a detail `reasoning.text`",
        "summary": "`delta.reasoning_details[]`, a detail `reasoning.summary` (OpenRouter)",
        "function": "`delta.tool_calls[].function.arguments`, one delta for each chunk that has some",
        "custom": _WRAPPED,
    },
    omits={"queued": _NO_QUEUE, "own": "an unknown field is named by a receipt, not by an event"},
    order=("reasoning", "text", "function"),
    about_order=(
        "Items follow the chunks. A call is announced when its name is known, and arguments that came "
        "earlier follow. Arguments of several calls may alternate; their items close in the order in which "
        "they opened."
    ),
    output_index=(
        f"{_BY_APPEARANCE}. `tool_calls[].index` only identifies the call (without it, the `id` does), and "
        "`choices[].index` is always 0: further choices are ignored"
    ),
    call_id="`tool_calls[].id` of the first chunk that has one; made here where there is none",
)

_GEMINI = ProviderEvents(
    gives={
        "text": "a part with `text`",
        "annotation": "`groundingMetadata`, `citationMetadata`",
        "summary": "a part with `text` and `thought: true`",
        "function": "`functionCall.args`",
        "custom": _WRAPPED,
    },
    omits={
        "refusal": "the wire has none: what is refused is text, or the end with a reason such as `SAFETY`",
        "reasoning": "Google gives summaries of thoughts, not the thoughts",
        "queued": _NO_QUEUE,
        "own": _NO_EVENTS,
    },
    order=("summary", "text", "function"),
    about_order=(
        "Items follow the parts. A signature is a reasoning item before the call or the text that is signed, "
        "or after a text whose end is signed; the sources of a text come at its end."
    ),
    output_index=(
        f"{_BY_APPEARANCE}. Parts have no index, and `candidates[].index` is always 0: others are ignored"
    ),
    call_id="`functionCall.id`; made here where there is none",
    whole_calls=True,
)

_WRITER = ("text", "refusal", "function", "custom")

EVENTS: Mapping[str, ProviderEvents] = {
    "anthropic": ProviderEvents(
        gives={
            "text": "`text_delta`",
            "annotation": "`citations_delta`, when its block of text ends",
            "refusal": "`stop_details.explanation`, at the end",
            "reasoning": "`thinking_delta` of Sonnet 3.7 and of imitations",
            "summary": "`thinking_delta` of Claude 4 and later",
            "function": "`input_json_delta`",
            "custom": _WRAPPED,
        },
        omits={"queued": _NO_QUEUE, "own": _NO_EVENTS},
        order=("summary", "text", "function"),
        about_order=(
            "Items follow the blocks. One is open at a time, so each item ends before the next begins."
        ),
        output_index=(
            f"{_BY_APPEARANCE}. It is not the `index` of a block: neighbouring blocks of text are parts of "
            "one message (`content_index`), and a block without words may have no item"
        ),
        call_id="`id` of the `tool_use` block; every call has one",
    ),
    "azure": replace(
        _CHAT,
        gives={
            **{kind: source for kind, source in _CHAT.gives.items() if kind != "summary"},
            "own": "a verdict of a filter that found something",
        },
        omits={"summary": "Azure has no `reasoning_details`", "queued": _NO_QUEUE},
        own=("azure:content_filter",),
    ),
    "bedrock": ProviderEvents(
        gives={
            "text": "`contentBlockDelta` with `text`",
            "annotation": "`citation` of a block, when the block ends",
            "reasoning": "`reasoningContent.text` of models that show their reasoning itself",
            "summary": "`reasoningContent.text` of Claude 4 and later",
            "function": "`toolUse.input`",
            "custom": _WRAPPED,
        },
        omits={
            "refusal": "Converse has none: what is refused is text, or the end with `content_filtered`",
            "queued": _NO_QUEUE,
            "own": _NO_EVENTS,
        },
        order=("summary", "text", "function"),
        about_order=(
            "Items follow the blocks. Calls whose blocks alternate are open side by side, and close in the "
            "order in which they opened."
        ),
        output_index=(
            f"{_BY_APPEARANCE}. `contentBlockIndex` only identifies the block: neighbouring blocks of text "
            "are parts of one message"
        ),
        call_id="`toolUseId`; every call has one",
    ),
    "chat": _CHAT,
    "gemini": _GEMINI,
    "llama": ProviderEvents(
        gives={
            "text": "`delta.content`",
            "reasoning": "`delta.reasoning_content`, from a model that thinks; the default one does not",
            "function": (
                "the JSON that the grammar holds the model to; "
                "`delta.tool_calls[].function.arguments` from a model whose template takes tools"
            ),
            "custom": _WRAPPED,
            "queued": "all slots of the model are taken, or its context is not free for so many tokens",
        },
        omits={
            "annotation": "the model cites nothing",
            "refusal": "a refusal is text like any other",
            "summary": "thoughts come as they are",
            "own": "there is nothing that llama.cpp says besides",
        },
        order=("function",),
        about_order=(
            "An answer of the default model is either words or calls; whether it calls is decided before it "
            "begins. A model whose template takes tools may think, speak and call in one answer."
        ),
        output_index=_BY_APPEARANCE,
        call_id="made here, or llama.cpp's own where the template makes the call",
    ),
    "ollama": ProviderEvents(
        gives={
            "text": "`message.content`",
            "reasoning": "`message.thinking`",
            "function": "`message.tool_calls[].function.arguments`",
            "custom": _WRAPPED,
        },
        omits={
            "annotation": "the wire has none",
            "refusal": "the wire has none: a refusal is text like any other",
            "summary": "`thinking` is the thinking itself",
            "queued": "Ollama holds a request back in silence while it is busy",
            "own": "the wire has nothing else to say",
        },
        order=("reasoning", "text", "function"),
        about_order="Items follow the lines; a line with calls ends the text before it.",
        output_index=f"{_BY_APPEARANCE}; calls have no index of their own",
        call_id="`tool_calls[].id` of newer versions, else made here",
        whole_calls=True,
    ),
    "responses": ProviderEvents(
        gives={
            "text": "`response.output_text.delta`, and what only a later snapshot has",
            "annotation": "`response.output_text.annotation.added`, and those of a snapshot",
            "refusal": "`response.refusal.delta`",
            "reasoning": "`response.reasoning.delta`, `response.reasoning_text.delta`",
            "summary": "`response.reasoning_summary_text.delta`",
            "function": "`response.function_call_arguments.delta`",
            "custom": "`response.custom_tool_call_input.delta`",
            "own": "events of hosted tools and of vendors, under their own names, such as these",
        },
        omits={
            "queued": "the server's own waiting is not passed on: when it says so, the answer has begun here"
        },
        order=("reasoning", "text", "function"),
        about_order=(
            "As the server gave them, with these differences: items of words that it mixes come one after "
            "another, items close in the order in which they opened, and events that it left out are added."
        ),
        output_index=f"{_BY_APPEARANCE}; the server's own only identifies its items",
        call_id="`call_id`; made here where there is none",
        item_id=(
            "made here for messages, reasoning and calls; an item of a hosted tool or of a vendor keeps the "
            "server's `id`"
        ),
        own=tuple(f"response.web_search_call.{step}" for step in ("in_progress", "searching", "completed")),
    ),
    "script": ProviderEvents(
        gives={
            "text": "`text`, `echo`",
            "annotation": "`annotation`",
            "refusal": "`refusal`",
            "reasoning": "`reasoning`",
            "summary": "`summary`",
            "function": "`call`, `calls`",
            "custom": "`custom`",
            "own": "`event`, under the name that the step gives",
        },
        omits={"queued": "a script begins at once; a `delay` as its first step only delays the answer"},
        order=("reasoning", "text", "function"),
        about_order="As the steps stand.",
        output_index=_BY_APPEARANCE,
        call_id="`id` of the step; made here where there is none",
        item_id="made here; the item of an `item` step keeps its `id`",
        own=("demo:progress",),
        whole_calls=True,
    ),
    "vertex": _GEMINI,
    "writer": replace(
        _CHAT,
        gives={kind: source for kind, source in _CHAT.gives.items() if kind in _WRITER},
        omits={
            "annotation": "sources are those of Writer's own tools, which are not sent",
            "reasoning": "the wire has none",
            "summary": "the wire has none",
            **_CHAT.omits,
        },
        order=("text", "function"),
    ),
}


def section(provider: str) -> list[str]:
    """The paragraphs about a provider's events, in Markdown."""
    told = EVENTS[provider]
    given = [[_NAMES[kind], _events(told, kind), source] for kind, source in told.gives.items()]
    omitted = [[_NAMES[kind], _quoted(KINDS[kind]), why] for kind, why in told.omits.items()]
    pieces = "one piece" if told.whole_calls else "pieces, as they come"
    items = ", then ".join(_NAMES[kind] for kind in told.order)
    return [
        "## Its events",
        f"Every answer has {_quoted(ALWAYS[:2])}, {_quoted(ALWAYS[2:4])} for each item, and one end: "
        f"{_quoted(ALWAYS[4:6])}, or `error` and `response.failed`. Besides:",
        table(["what", "events", "from"], given),
        "Not given:",
        table(["what", "events", "why"], omitted),
        f"{told.about_order} The arguments of a call come in {pieces}. An answer of {items}:",
        "\n".join(["```text", *_lines(told), "```"]),
        table(
            ["field", "is"],
            [
                ["`output_index`", told.output_index],
                ["`item_id`", told.item_id],
                ["`call_id`", told.call_id],
            ],
        ),
    ]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _events(told: ProviderEvents, kind: _Kind) -> str:
    return _quoted(told.own if kind == "own" else KINDS[kind])


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _lines(told: ProviderEvents) -> list[str]:
    """A line for each item; a delta may come several times."""
    lines: list[str] = []
    for name in told.sequence():
        if not lines or name in ("response.output_item.added", "response.completed"):
            lines.append("")
        lines[-1] += f"{', ' if lines[-1] else ''}{name}{' …' if name.endswith('.delta') else ''}"
    return lines
