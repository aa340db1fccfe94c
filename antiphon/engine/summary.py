"""Has any model write the summary that a `compaction` item holds.

A request whose last item is a `compaction_trigger` is answered with that one item and nothing else, for
upstreams that know no such thing.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from antiphon.engine.messages_items import told_plainly
from antiphon.engine.truncation import blocks
from antiphon.providers.base import TRUNCATED, Sink, Turn, UpstreamError, WrappingSink
from antiphon.spec.codec import Opaque
from antiphon.spec.content import InputText
from antiphon.spec.errors import CONTEXT_LENGTH_EXCEEDED, ErrorPayload, SpecError
from antiphon.spec.items import Compaction, Item, Message
from antiphon.spec.request import Request
from antiphon.stream.answer_limit import MOST_HELD, AnswerTooLong, memory_of
from antiphon.stream.client_calls import COMPACTION_TRIGGER
from antiphon.stream.deltas import AnyDelta, Failure, Finish, ItemDelta, TextDelta, UsageDelta
from antiphon.wires.compaction import COMPACTION, sealed_summary
from antiphon.wires.messages.vendor import BLOCK, with_block
from antiphon.wires.run_listener import Spent, total_usage
from antiphon.wires.sealing import Seal

Ask = Callable[[Turn, Sink], Awaitable[Spent]]
"""Has the model answer once, and says what that took."""

_TASK = (
    "Write a summary of our conversation so far, for yourself, so that you can go on with it later. "
    "Keep names, numbers, code words, decisions, open questions and what the user wants. "
    "Write only the summary."
)
_USUAL_WINDOW = 65_536
_LONGEST, _SHORTEST = 8192, 128


def trigger() -> Opaque:
    return Opaque.make(type=COMPACTION_TRIGGER)


def asks_for_plain_summary(items: list[Item]) -> bool:
    """Does a client of the Messages API ask, who is given the words of the summary as well?"""
    return asks_for_summary(items) and bool(_block_of(items[-1]))


def _block_of(trigger: Item) -> dict[str, Any]:
    """The beginnings of the block that such a client is given."""
    found = trigger.fields.get(BLOCK) if isinstance(trigger, Opaque) else None
    return found if isinstance(found, dict) else {}


def asks_for_summary(items: list[Item]) -> bool:
    last = items[-1] if items else None
    return isinstance(last, Opaque) and last.type == COMPACTION_TRIGGER


async def summarise(ask: Ask, turn: Turn, sink: Sink, window: int | None, seal: Seal) -> None:
    """Have the model write the summary, of the newer half if not all of it fits, and put it as one item."""
    given, request = told_plainly(turn.items[:-1]), _request(turn.request, window)
    items, spent = given, list[Spent]()
    block = _block_of(turn.items[-1])
    instructions = block.pop("instructions", None) or _TASK
    while True:
        asked = replace(turn, request=request, items=[*items, _task(instructions)], tools=())
        answer = _SummarySink(sink)
        raised: UpstreamError | SpecError | None = None
        try:
            spent.append(await ask(asked, answer))
        except (UpstreamError, SpecError) as error:
            raised = error
        except AnswerTooLong:
            answer.is_cut = True
        finally:
            turn.upstream_status, turn.upstream_id = asked.upstream_status, asked.upstream_id
        failure = raised.payload if raised is not None else answer.failure
        if failure is None:
            break
        newer = _newer_half(items) if failure.code == CONTEXT_LENGTH_EXCEEDED else []
        if newer:
            items = newer
            continue
        if raised is not None:
            raise raised
        sink.put([Failure(failure)])
        return
    if left_out := len(given) - len(items):
        reason = f"the {left_out} oldest items did not fit, so the summary is without them"
        turn.receipt("gateway", "input", reason, TRUNCATED)
    if answer.is_cut:
        reason = "the summary reached its limit, so its end is missing"
        turn.receipt("gateway", "output", reason, TRUNCATED)
    usage = total_usage(spent)
    counted: list[AnyDelta] = [] if usage is None else [UsageDelta(usage)]
    sink.put([ItemDelta(answer.summary(seal, turn.tenant, block)), *counted, Finish()])


def _request(request: Request, window: int | None) -> Request:
    """What the model is asked: no tools, no format, and no more words than a small part of its window."""
    return Request(
        model=request.model,
        input=request.input,
        instructions=request.instructions,
        max_output_tokens=max(_SHORTEST, min(_LONGEST, (window or _USUAL_WINDOW) // 64)),
        truncation="auto",
        prompt_cache_key=request.prompt_cache_key,
    )


class _SummarySink(WrappingSink):
    """Keeps the words of an answer, and how it ended."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.failure: ErrorPayload | None = None
        self.is_cut = False
        self._words: list[str] = []
        self._memory = 0

    def put(self, deltas: list[AnyDelta]) -> bool:
        for delta in deltas:
            match delta:
                case TextDelta(text):
                    self._words.append(text)
                case Failure(error):
                    self.failure = error
                case Finish(reason="length"):
                    self.is_cut = True
        self._memory += memory_of(deltas)
        if self._memory > MOST_HELD:
            raise AnswerTooLong
        return True

    def summary(self, seal: Seal, tenant: str, block: dict[str, Any]) -> Compaction | Opaque:
        """The summary as an item; with a `block`, its words stand beside the sealed ones."""
        text = "".join(self._words).strip()
        if not text:
            message = "the model wrote no summary; try again, or name another model"
            raise SpecError(ErrorPayload("model_error", message, code="empty_summary", param="model"))
        summary = sealed_summary(text, seal, tenant)
        if block:
            mark = seal.seal(b"", tenant=tenant, purpose=COMPACTION)
            summary = with_block(summary, {**block, "content": text, "signature": mark})
        return summary


def _task(instructions: str) -> Message:
    return Message(role="user", content=[InputText(instructions)])


def _newer_half(items: list[Item]) -> list[Item]:
    """The newer half, with a call and its output on the same side; empty if there is nothing to part."""
    parts = blocks(items)
    return [item for part in parts[(len(parts) + 1) // 2 :] for item in part]
