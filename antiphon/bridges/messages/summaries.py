"""Summaries of a conversation: a `compaction` that is asked for, and the blocks that hold one."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from antiphon.bridges.messages.block_fields import optional_string, string
from antiphon.bridges.messages.body import MessageBlock, MessagesBody
from antiphon.bridges.messages.errors import NOTHING_TO_SUMMARIZE
from antiphon.bridges.messages.tool_declarations import change_of, tool_change
from antiphon.spec.codec import Opaque
from antiphon.spec.error_paths import describe, join, wrong
from antiphon.spec.items import Item
from antiphon.stream.client_calls import COMPACTION_TRIGGER
from antiphon.wires.compaction import COMPACTION, summary_message
from antiphon.wires.messages.tool_changes import CHANGES
from antiphon.wires.messages.vendor import BLOCK, VENDOR
from antiphon.wires.sealing import is_sealed


def check_compaction(asked: MessagesBody, *, goes_on: bool) -> MessagesBody:
    """The request without what would shape an answer: nothing is answered but the summary."""
    kind = string(asked.compaction or {}, "type", "compaction")
    if kind != "summarize":
        raise wrong("compaction.type", f"expected 'summarize', got {describe(kind)}")
    optional_string(asked.compaction or {}, "instructions", "compaction")
    if asked.context_management is not None:
        raise wrong("context_management", "it cannot be combined with `compaction`; leave one of them out")
    if not goes_on and all(message.role == "system" for message in asked.messages):
        why = "there is nothing to summarise: the conversation is empty"
        raise wrong("messages", why, NOTHING_TO_SUMMARIZE)
    output = {name: one for name, one in (asked.output_config or {}).items() if name != "format"}
    return replace(asked, tool_choice=None, stop_sequences=None, output_config=output or None)


def summary_trigger(compaction: MessageBlock, changes: Sequence[MessageBlock]) -> Item:
    """The item that asks for the summary, with the beginnings of the block that it becomes."""
    words = compaction.get("instructions") or ""
    block = {"type": COMPACTION, "instructions": words if words.strip() else None, "tool_changes": changes}
    return Opaque.make(type=COMPACTION_TRIGGER, **{BLOCK: block})


def summary_items(block: MessageBlock, where: str) -> Iterator[Item]:
    """A summary made here is words, which every model can read; another's goes to its provider as it is."""
    text, signature = (optional_string(block, name, where) for name in ("content", "signature"))
    changes = block.get("tool_changes") or []
    if not isinstance(changes, list):
        raise wrong(join(where, "tool_changes"), f"expected a list of blocks, got {describe(changes)}")
    places = [f"{where}.tool_changes[{n}]" for n in range(len(changes))]
    if signature is None or not is_sealed(signature):
        told = [
            one for change, place in zip(changes, places, strict=True) for one in change_of(change, place)
        ]
        yield Opaque.make(type=VENDOR + COMPACTION, id="", status="completed", data=block, **{CHANGES: told})
        return
    if text:
        yield summary_message(text, "user")
    for change, place in zip(changes, places, strict=True):
        change_of(change, place)
        yield tool_change(change, place)
