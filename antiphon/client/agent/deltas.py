"""Converts a run of several responses to the deltas of one, so that an agent answers as a model does."""

from collections.abc import AsyncIterator
from typing import Any, Literal

from msgspec import UNSET
from msgspec.structs import replace

from antiphon.client.agent import events
from antiphon.client.agent.run import AgentRun
from antiphon.client.errors import AntiphonError, StatusError
from antiphon.spec import events as ev
from antiphon.spec import ids
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import CustomToolCall, FunctionCall, Item, ItemReference, Message, Reasoning
from antiphon.spec.response import Usage
from antiphon.stream import deltas as d
from antiphon.stream.lifecycle import with_status


async def deltas_of(run: AgentRun[Any]) -> AsyncIterator[list[d.AnyDelta]]:
    """Yields the deltas of a run in batches, up to its end."""
    reader = _DeltaReader()
    try:
        async for event in run:
            if deltas := reader.read(event):
                yield deltas
    except AntiphonError as error:
        raise _to_spec_error(error) from error


class _DeltaReader:
    def __init__(self) -> None:
        self._call_ids: dict[str, str] = {}  # of this step: our ids of calls, by the model's
        self._used: set[str] = set()
        self._outputs_given: set[str] = set()  # outputs of the step

    def read(self, event: events.AgentEvent) -> list[d.AnyDelta]:
        match event:
            case ev.OutputTextDeltaEvent(delta=text, logprobs=logprobs):
                return [d.TextDelta(text, None if logprobs is UNSET else logprobs)]
            case ev.ReasoningDeltaEvent(delta=text):
                return [d.ReasoningDelta(text)]
            case ev.ReasoningSummaryTextDeltaEvent(delta=text, summary_index=part):
                return [d.SummaryDelta(text, part)]
            case ev.RefusalDeltaEvent(delta=text):
                return [d.RefusalDelta(text)]
            case ev.OutputTextAnnotationAddedEvent(annotation=annotation):
                return [] if annotation is None else [d.AnnotationDelta(annotation)]
            case ev.ContentPartDoneEvent():
                return [d.PartEnd()]
            case ev.FunctionCallArgumentsDeltaEvent(item_id=key, delta=text):
                return [d.CallDelta(key, text)]
            case ev.CustomToolCallInputDeltaEvent(item_id=key, delta=text):
                return [d.CallDelta(key, text, kind="custom")]
            case ev.OutputItemAddedEvent(item=item):
                return [] if item is None else self._on_item_added(item)
            case ev.OutputItemDoneEvent(item=item):
                return [] if item is None else self._on_item_done(item)
            case ev.OtherEvent():
                bound = {"item_id", "output_index"} & event.fields.keys()
                return [] if bound else [d.VendorDelta(event.type, event.fields)]
            case events.StepStarted():
                self._call_ids, self._outputs_given = {}, set()
            case events.ToolEnded(outcome=outcome):
                return self._output(outcome)
            case events.RunEnded(result=result):
                left = result.steps[-1].outcomes if result.steps else ()
                return [*(delta for outcome in left for delta in self._output(outcome)), *_end(result)]
        return []

    def _on_item_added(self, item: Item) -> list[d.AnyDelta]:
        match item:
            case Message():
                return [d.MessageStart(item.phase)]
            case FunctionCall():
                named = self._name(item.call_id)
                return [d.CallDelta(item.id, name=item.name, call_id=named, namespace=item.namespace)]
            case CustomToolCall():
                named = self._name(item.call_id)
                return [d.CallDelta(item.id, "", item.name, named, "custom", item.namespace)]
            case Reasoning() | ItemReference():
                return []
        return [] if getattr(item, "status", None) in (None, "completed") else [d.ItemDelta(item, item.id)]

    def _on_item_done(self, item: Item) -> list[d.AnyDelta]:
        ended = item.status if isinstance(item, Message | Reasoning | FunctionCall | CustomToolCall) else None
        status: Literal["completed"] | None = "completed" if ended == "completed" else None
        match item:
            case Message() | ItemReference():
                return [d.ItemEnd(status=status)]
            case Reasoning():
                proof = item.encrypted_content
                return [*([d.SignatureDelta(proof)] if proof else []), d.ItemEnd(status=status)]
            case FunctionCall() | CustomToolCall():
                return [d.ItemEnd(item.id, status)]
        return [d.ItemDelta(item, item.id)]

    def _name(self, call_id: str) -> str:
        """Returns an id that no call of the answer has yet; models number their calls anew in every
        response.
        """
        named = ids.new_id(ids.CALL) if call_id in self._used else call_id
        self._used.add(named)
        self._call_ids[call_id] = named
        return named

    def _output(self, outcome: events.ToolOutcome) -> list[d.AnyDelta]:
        call_id = outcome.call.call_id
        named = self._call_ids.get(call_id)
        if named is None or call_id in self._outputs_given:
            return []
        self._outputs_given.add(call_id)
        return [d.ItemDelta(with_status(replace(outcome.item, call_id=named), "completed"))]


def _end(result: events.AgentResult) -> list[d.AnyDelta]:
    usage: list[d.AnyDelta] = [d.UsageDelta(result.usage)] if result.usage != Usage() else []
    response = result.response
    match result.stopped:
        case "answered":
            return [*usage, d.Finish("stop")]
        case "incomplete":
            details = response.incomplete_details if response is not None else None
            return [*usage, d.Finish(d.FINISH_OF.get(details.reason if details else "", "cancelled"))]
        case "steps":
            return [*usage, d.Finish("max_tool_calls")]
        case "tokens":
            return [*usage, d.Finish("length")]
        case "cancelled":
            return [*usage, d.Finish("cancelled")]
        case "time":
            return [
                *usage,
                d.Failure(ErrorPayload("server_error", "the agent took too long", code="timeout")),
            ]
    error = response.error if response is not None else None
    if error is None:
        return usage  # the run raises the error itself
    return [*usage, d.Failure(ErrorPayload("model_error", error.message, code=error.code))]


def _to_spec_error(error: AntiphonError) -> SpecError:
    """Converts an error of the agent's model; its details are not for the callers of the agent."""
    if isinstance(error, StatusError) and error.status == 429:
        busy = ErrorPayload("too_many_requests", "the agent's model is busy; try again later")
        return SpecError(busy.with_code("rate_limit_exceeded"))
    failed = ErrorPayload(
        "model_error", f"the agent's model failed: {type(error).__name__}", code="model_failed"
    )
    return SpecError(failed)
