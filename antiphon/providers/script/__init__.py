"""`type = "script"`: answers that were written down before, for examples, demos, tests and fault injection.

The script is a file, or a fenced block in the request itself; without one, the provider echoes its input.
`docs/providers/script.md` has every step.
"""

import asyncio
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from antiphon.config import DeclaredSettings
from antiphon.config.kinds import Name
from antiphon.providers import errors
from antiphon.providers.base import Capabilities, Environment, Sink, Turn, UpstreamError
from antiphon.providers.script import steps
from antiphon.providers.script.file import Scene, Script, ScriptError, find_block, parse, read
from antiphon.spec.codec import Opaque
from antiphon.spec.content import text_of
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
    type_of,
)
from antiphon.spec.request import PROVIDER_PARAMETERS
from antiphon.spec.response import Usage
from antiphon.stream import deltas as d
from antiphon.wires.usage import tokens_in

ECHO = Script([Scene(steps=[steps.EchoStep(echo=True, chunk=16)])])

_EVERYTHING = Capabilities(
    parameters=frozenset(PROVIDER_PARAMETERS),
    images=True,
    image_urls=True,
    files=True,
    file_urls=True,
    custom_tools=True,
    logprobs=True,
    reasoning=True,
    proofs=True,
    makes_summaries=True,
)


class ScriptSettings(DeclaredSettings, frozen=True, kw_only=True):
    file: Name | None = None
    from_requests: bool = True


class ScriptProvider:
    """Plays the first scene of its script that fits the turn."""

    Settings = ScriptSettings

    def __init__(self, settings: ScriptSettings, environment: Environment) -> None:
        self.name = settings.name
        self.capabilities = _EVERYTHING
        self._script = _script(settings)
        self._from_requests = settings.from_requests

    async def answer(self, turn: Turn, sink: Sink) -> None:
        scene = self._choose_scene(turn)
        clock = _Clock()
        waiting = [step for step in scene.steps if not isinstance(step, steps.PauseStep)]
        if waiting and isinstance(refusal := waiting[0], steps.ErrorStep):
            for step in scene.steps[: scene.steps.index(refusal) + 1]:
                await clock.wait(step.delay)
            raise self._make_error(refusal)
        sink.accepted()
        said = 0
        for batch, delay in self._play(scene, turn):
            await clock.wait(delay)
            said += sum(map(_length, batch))
            if batch and isinstance(batch[-1], d.Finish) and not scene.counts:
                batch.insert(
                    0, d.UsageDelta(Usage.of(tokens_in(_count_input_characters(turn)), tokens_in(said)))
                )
            if not sink.put(batch):
                await sink.ready()

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        return [self.name]

    async def close(self) -> None:
        return

    def _choose_scene(self, turn: Turn) -> Scene:
        script = self._script
        if self._from_requests and (found := find_block(turn)):
            param, text = found
            try:
                script = parse(text)
            except ScriptError as error:
                raise self._script_error(f"the script in `{param}`: {error}", param) from None
        number, last = _place(turn.items), turn.items[-1] if turn.items else None
        kind, words = (type_of(last), _words(last)) if last is not None else ("", "")
        for scene in script.turns:
            if scene.fits(turn=number, last=kind, words=words, model=turn.model):
                return scene
        raise self._script_error(
            f"no turn of the script fits: this is turn {number} and the last item is {kind!r}"
        )

    def _script_error(self, message: str, param: str | None = None) -> UpstreamError:
        payload = ErrorPayload("invalid_request", f"{self.name}: {message}", "invalid_script", param)
        return UpstreamError(payload, 400)

    def _make_error(self, step: steps.ErrorStep) -> UpstreamError:
        given = step.error
        payload = ErrorPayload(given.type, given.message, given.code, given.param)
        status = payload.status if given.status is None else given.status
        return UpstreamError(payload, status, given.retry_after)

    def _play(self, scene: Scene, turn: Turn) -> Iterator[tuple[list[d.AnyDelta], float]]:
        """Make the batches, each with the time to wait before it; the last one ends the answer."""
        for n, step in enumerate(scene.steps):
            if isinstance(step, steps.PauseStep):
                yield [], step.delay
            for delta in self._deltas(step, n, turn):
                yield [delta], step.delay
        if not (scene.steps and isinstance(scene.steps[-1], steps.ENDS)):
            called = any(
                isinstance(step, steps.CallStep | steps.CallsStep | steps.CustomStep) for step in scene.steps
            )
            yield [d.Finish("tool_calls" if called else "stop")], 0.0

    def _deltas(self, step: steps.ScriptStep, n: int, turn: Turn) -> Iterator[d.AnyDelta]:
        match step:
            case steps.TextStep():
                yield from (d.TextDelta(piece) for piece in step.pieces(step.text))
            case steps.ReasoningStep():
                yield from (d.ReasoningDelta(piece) for piece in step.pieces(step.reasoning))
            case steps.SummaryStep():
                yield from (d.SummaryDelta(piece, step.part) for piece in step.pieces(step.summary))
            case steps.RefusalStep():
                yield from (d.RefusalDelta(piece) for piece in step.pieces(step.refusal))
            case steps.EchoStep():
                last = turn.items[-1] if turn.items else None
                yield from (d.TextDelta(piece) for piece in step.pieces(_words(last) if last else ""))
            case steps.SignatureStep():
                yield d.SignatureDelta(step.signature)
            case steps.CallStep():
                yield from _interleave([step], n)
            case steps.CallsStep():
                yield from _interleave(step.calls, n)
            case steps.CustomStep():
                yield d.CallDelta(n, name=step.custom, call_id=step.id, kind="custom")
                yield from (d.CallDelta(n, piece, kind="custom") for piece in step.pieces(step.input))
                yield d.ItemEnd(n, "completed")
            case steps.ItemStep():
                yield d.ItemDelta(Opaque.make(**step.item))
            case steps.AnnotationStep():
                yield d.AnnotationDelta(step.annotation)
            case steps.EventStep():
                yield d.VendorDelta(step.event, step.fields)
            case steps.MessageStep():
                yield d.MessageStart(step.message)
            case steps.UsageStep():
                yield d.UsageDelta(step.usage.to_spec())
            case steps.FinishStep():
                yield d.Finish(step.finish)
            case steps.ErrorStep():
                yield d.Failure(self._make_error(step).payload)
            case steps.CutStep():
                yield d.Failure(errors.closed(self.name, "in the middle of the answer").payload)


def _script(settings: ScriptSettings) -> Script:
    if settings.file is None:
        return ECHO
    # A relative path starts where the configuration file lies.
    path = Path(settings.origin.source).parent / Path(settings.file).expanduser()
    try:
        return read(path)
    except ScriptError as error:
        raise settings.mistake("file", f"the script: {error}") from None


class _Clock:
    """Waits from one moment to the next, so that the work between them does not add up."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()

    async def wait(self, delay: float) -> None:
        self._at = max(self._at + delay, self._loop.time())
        await asyncio.sleep(self._at - self._loop.time())


def _interleave(calls: list[steps.CallStep], n: int) -> Iterator[d.AnyDelta]:
    """Begin all calls, then put out one piece of each in turn."""
    keys = [f"{n}.{one}" for one in range(len(calls))]
    for key, call in zip(keys, calls, strict=True):
        yield d.CallDelta(key, name=call.call, call_id=call.id, namespace=call.namespace)
    for pieces in zip_longest(*(call.pieces(call.to_json()) for call in calls)):
        yield from (d.CallDelta(key, piece) for key, piece in zip(keys, pieces, strict=True) if piece)


def _place(items: list[Item]) -> int:
    """Which turn of the model this is: one more than the answers that the conversation holds already."""
    ours = [_is_ours(item) for item in items]
    return 1 + sum(1 for before, now in zip([False, *ours], ours, strict=False) if now and not before)


def _is_ours(item: Item) -> bool:
    if isinstance(item, Message):
        return item.role == "assistant"
    return isinstance(item, FunctionCall | CustomToolCall | Reasoning)


def _words(item: Item) -> str:
    match item:
        case Message():
            return item.get_text()
        case FunctionCallOutput() | CustomToolCallOutput():
            return text_of(item.output)
        case FunctionCall():
            return item.arguments
        case CustomToolCall():
            return item.input
        case Reasoning():
            return item.get_reasoning_text()
    return ""


def _count_input_characters(turn: Turn) -> int:
    return len(turn.request.instructions or "") + sum(len(_words(item)) for item in turn.items)


def _length(delta: d.AnyDelta) -> int:
    match delta:
        case d.TextDelta(text) | d.RefusalDelta(text) | d.ReasoningDelta(text) | d.SummaryDelta(text):
            return len(text)
        case d.CallDelta():
            return len(delta.arguments)
    return 0
