"""The one way to ask: every question to a provider or a paid service is an attempt, and is made here.

`ask`, `embed`, `count_tokens` and `call_service` each make one attempt; `ask` makes more where tokens must be
counted, a grammar checked or a summary written. Before an attempt begins the gate is asked; if it refuses,
there is no attempt. An attempt tells the listeners, counts the usage, and ends exactly once, also when what
is inside raises or is cancelled. The run adds up its attempts, its callers do not.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from antiphon.config import Target
from antiphon.engine.capabilities import report_unsupported
from antiphon.engine.context import Resolved, prepare_items
from antiphon.engine.failures import CLOSED, note_failure
from antiphon.engine.files import with_files
from antiphon.engine.grammar import GrammarCheck, grammars_of
from antiphon.engine.messages_items import change_tools, told_plainly
from antiphon.engine.reasoning import Proofs
from antiphon.engine.run_state import RunState, call_listener
from antiphon.engine.summary import asks_for_plain_summary, asks_for_summary, summarise
from antiphon.engine.truncation import fit
from antiphon.providers.base import Capabilities, Embedded, EmbeddingTask, Embeds, Provider, Sink, Turn
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import Item, has_media
from antiphon.spec.response import Usage
from antiphon.stream.deltas import AnyDelta, Failure, Finish, TextDelta, UsageDelta
from antiphon.wires.messages.vendor import FIELDS
from antiphon.wires.run_listener import AttemptInfo, AttemptKind, Spent

T = TypeVar("T")

_NO_WORDS = {UsageDelta}


class Attempt(Struct, eq=False):
    """One question, around which it is used as a context manager, once its costs are reserved."""

    run: RunState
    info: AttemptInfo
    turn: Turn | None = None
    """The turn whose upstream status the listeners are told."""
    spent: Spent = field(default_factory=Spent)
    _began: float = 0.0

    __repr__ = object.__repr__  # which shows no prompt

    def __enter__(self) -> Self:
        run = self.run
        run.attempts_begun = self.info.number = run.attempts_begun + 1
        for hear in run.services.heard.attempt_began:
            call_listener(hear, run, self.info)
        self._began = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run, spent = self.run, self.spent
        spent.seconds, spent.attempts = perf_counter() - self._began, 1
        self._judge(error)
        run.spent.add(spent)
        if (turn := self.turn) is not None and turn.upstream_status:
            self.info.upstream_status, self.info.upstream_id = turn.upstream_status, turn.upstream_id
        for hear in run.services.heard.attempt_ended:
            call_listener(hear, run, self.info, spent)

    def _judge(self, error: BaseException | None) -> None:
        """Note in `spent` how the attempt has ended."""
        if error is not None:
            note_failure(self.spent, error)


class AnswerAttempt(Attempt, eq=False, kw_only=True):
    """One answer of a model: the sink that the provider itself puts it into.

    It stands on the path of every delta, so of a text in the middle it only looks at the type.
    """

    sink: Sink
    _passed: type[TextDelta] | None = None
    """What needs no look: text, once there are words."""
    _is_finished: bool = False
    _failure: ErrorPayload | None = None

    def accepted(self) -> None:
        self.sink.accepted()

    def queued(self) -> None:
        self.sink.queued()

    async def ready(self) -> None:
        await self.sink.ready()

    def put(self, deltas: list[AnyDelta]) -> bool:
        if len(deltas) == 1 and type(deltas[0]) is self._passed:
            return self.sink.put(deltas)
        self._look_at(deltas)
        return self.sink.put(deltas)

    def _look_at(self, deltas: list[AnyDelta]) -> None:
        kinds = set(map(type, deltas))
        if UsageDelta in kinds:
            for delta in reversed(deltas):
                if type(delta) is UsageDelta:
                    self.spent.usage = delta.usage
                    break
        if Finish in kinds:
            self._is_finished = True
        elif Failure in kinds:
            last = deltas[-1]
            self._failure = last.error if type(last) is Failure else CLOSED
        elif self._passed is None and kinds != _NO_WORDS:
            self._passed = TextDelta
            self.spent.first_token = perf_counter() - self._began

    def _judge(self, error: BaseException | None) -> None:
        if self._is_finished:
            return  # the answer is whole, whatever its provider does afterwards
        if error is not None:
            note_failure(self.spent, error)
        elif self._failure is not None:
            self.spent.fail(self._failure, self._failure.status)
        else:
            self.spent.fail(CLOSED, 502)


def ask(
    run: RunState,
    target: Target,
    turn: Turn,
    sink: Sink,
    context: Resolved,
    added: Sequence[Item] = (),
    answers_spent: list[Spent] | None = None,
) -> Awaitable[Any]:
    """Have one target answer the turn, with everything that is done for one target.

    The turn gets its items from the context, as this provider may see them and as many as it takes, and after
    them the `added` ones. `answers_spent` gets the `Spent` of each question to the model, when it begins.
    """
    provider = run.settings.providers[target.provider]
    if (
        context.is_plain
        and not (context.has_media or provider.capabilities.counts_tokens or turn.tools)
        and run.kind != "compaction"
    ):
        report_unsupported(turn, provider)
        turn.items = [*context.items, *added] if added else context.items
        return _answer(run, target, answers_spent, turn, sink)
    return _ask(run, target, turn, sink, context, added, answers_spent)


async def _ask(
    run: RunState,
    target: Target,
    turn: Turn,
    sink: Sink,
    context: Resolved,
    added: Sequence[Item],
    answers_spent: list[Spent] | None,
) -> None:
    """The same, for a turn that is more than a few messages."""
    provider = run.settings.providers[target.provider]
    takes, is_compaction = provider.capabilities, run.kind == "compaction"
    if not is_compaction:  # whose parameters are the gateway's own
        report_unsupported(turn, provider)
    if context.is_plain and not context.has_media and not takes.counts_tokens:
        turn.items = [*context.items, *added] if added else context.items
    else:
        await _give_items(run, target, provider, turn, context, added)
    if (is_compaction or not context.is_plain) and _needs_summary(turn.items, takes, is_compaction):
        one = partial(_answer, run, target, answers_spent)
        await summarise(one, turn, sink, takes.context_window, run.services.seal)
    elif turn.tools and not takes.enforces_grammar and (grammars := grammars_of(turn.tools)):
        check = GrammarCheck(grammars, run.services.schemas, partial(_answer, run, target, answers_spent))
        await check.check_answer(turn, sink)
    else:
        await _answer(run, target, answers_spent, turn, sink)


async def embed(run: RunState, target: Target, task: EmbeddingTask) -> Embedded:
    """The vectors of all texts of the task; the target gives embeddings."""
    provider = run.settings.providers[target.provider]
    assert isinstance(provider, Embeds)
    with await _reserved(Attempt(run, _info(run, "embed", target), run.turn)) as attempt:
        embedded = await provider.embed(replace(task, model=target.upstream_model))
        attempt.spent.usage = Usage.of(embedded.input_tokens, 0) if embedded.input_tokens else None
    return embedded


async def count_tokens(run: RunState, target: Target, turn: Turn) -> int | None:
    """How many tokens the turn has as it stands; None where the provider cannot tell exactly."""
    provider = run.settings.providers[target.provider]
    with await _reserved(Attempt(run, _info(run, "count_tokens", target), turn)):
        return await provider.count_tokens(turn)


async def call_service(run: RunState, service: str, call: Callable[[], Awaitable[T]]) -> T:
    """Have a paid service of a hosted tool answer; `call` asks it."""
    with await _reserved(Attempt(run, AttemptInfo(0, "service", service, ""))):
        return await call()


class RunUpstreams(Struct, eq=False):
    """What hosted tools ask with: the functions above, for one run."""

    run: RunState

    async def embed(self, target: Target, task: EmbeddingTask) -> Embedded:
        return await embed(self.run, target, task)

    async def call_service(self, service: str, call: Callable[[], Awaitable[T]]) -> T:
        return await call_service(self.run, service, call)


@asynccontextmanager
async def open_run(run: RunState) -> AsyncIterator[RunUpstreams]:
    """Begin a run that makes no response, and end it."""
    await run.begin()
    try:
        yield RunUpstreams(run)
    except BaseException as error:
        note_failure(run.spent, error)
        raise
    finally:
        if run.admission is not None:
            await asyncio.shield(run.settle_alone())
        run.end()


async def items_to_show(run: RunState, provider: Provider, turn: Turn, context: Resolved) -> list[Item]:
    """The items of the context as this provider may see them; the turn gets the tools that are left.

    Also for counting tokens without an answer.
    """
    takes = provider.capabilities
    speaks_messages = FIELDS in takes.parameters
    if not context.is_plain and not speaks_messages:
        change_tools(turn, context.items)

    def translate(items: list[Item]) -> list[Item]:
        items = items if speaks_messages else told_plainly(items)
        return run.settings.hosted.history.show_calls(items, takes=takes, tenant=turn.tenant)

    seal = run.services.seal
    return await prepare_items(context, Proofs(seal, provider, turn), turn.tenant, seal, translate)


async def inline_media(run: RunState, provider: Provider, turn: Turn, items: list[Item]) -> list[Item]:
    """The items with the bytes of files and pictures in them, where the provider takes no addresses.

    Also for counting tokens without an answer.
    """
    media, hosted = run.settings.media, run.settings.hosted
    if media is None or not has_media(items):
        return items
    items = await with_files(hosted.tools.get("file_search"), provider, turn, items, run.services.clock())
    return await media.inline(provider, turn, items)


async def _give_items(
    run: RunState, target: Target, provider: Provider, turn: Turn, context: Resolved, added: Sequence[Item]
) -> None:
    items = [*await items_to_show(run, provider, turn, context), *added]
    turn.items = items = await inline_media(run, provider, turn, items)
    # A summary of too long a conversation leaves out the oldest items by itself.
    if run.kind == "compaction" or not asks_for_summary(items):
        turn.items = await fit(provider.capabilities, turn, items, partial(count_tokens, run, target))


def _needs_summary(items: list[Item], takes: Capabilities, is_compaction: bool) -> bool:
    """Is the answer a summary that the gateway has the model write?

    For a compaction no provider makes an item of its own: others could not read it.
    """
    return asks_for_summary(items) and (is_compaction or not takes.compacts or asks_for_plain_summary(items))


async def _answer(
    run: RunState, target: Target, answers_spent: list[Spent] | None, turn: Turn, sink: Sink
) -> Spent:
    """One attempt at an answer."""
    provider = run.settings.providers[target.provider]
    info = AttemptInfo(0, "answer", target.provider, target.upstream_model, run.route_name)
    attempt = AnswerAttempt(run, info, turn, sink=sink)
    if run.admission is not None:
        await run.admission.reserve(info)
    with attempt:
        if answers_spent is not None:
            answers_spent.append(attempt.spent)
        await provider.answer(turn, attempt)
    return attempt.spent


async def _reserved(attempt: Attempt) -> Attempt:
    """The attempt, once the gate has reserved what it may cost."""
    if (admission := attempt.run.admission) is not None:
        await admission.reserve(attempt.info)
    return attempt


def _info(run: RunState, kind: AttemptKind, target: Target) -> AttemptInfo:
    return AttemptInfo(0, kind, target.provider, target.upstream_model, run.route_name)
