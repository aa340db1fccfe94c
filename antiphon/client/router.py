"""Several models behind one name, chosen for each task, inside the program: no server is needed."""

import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf
from types import TracebackType
from typing import Any, Self, TypeVar

from antiphon.client.agent.run import ModelStream
from antiphon.client.async_client import AsyncClient
from antiphon.client.errors import AntiphonError, ResponseFailed, StatusError, UsageError
from antiphon.client.event_text import event_text
from antiphon.client.settings import Retries
from antiphon.client.transport.local import LOCAL_URL, LocalTransport
from antiphon.spec.codec import encode
from antiphon.spec.errors import INSUFFICIENT_QUOTA, RATE_LIMIT_EXCEEDED, ErrorPayload, SpecError, rate_limit
from antiphon.spec.ids import new_id
from antiphon.spec.routing import PARAMETER, RoutingDecision, SpeedRequirement, TaskComplexity
from antiphon.stream.dialects import OPEN_RESPONSES
from antiphon.wires.run_gate import SettlementRow
from antiphon.wires.run_listener import AttemptInfo, RunInfo, SilentListener, Spent

PROVIDER_FAILED = "provider_failed"
BLOCKED = 300.0
"""For so many seconds a provider that had too many requests is left alone."""

_DAY = 86400.0
_LIMITED = re.compile(r"\b429\b|rate[ _-]?limit")
_LIMIT_CODES = frozenset({RATE_LIMIT_EXCEEDED, INSUFFICIENT_QUOTA})

Word = TypeVar("Word", TaskComplexity, SpeedRequirement)


@dataclass(slots=True)
class ProviderStatus:
    """The state of one provider: its requests of today, in UTC, and whether it can get one now."""

    name: str
    daily_limit: int | None = None
    """How many requests it may get in a day; None: as many as there are."""
    available: bool = True
    requests_today: int = 0
    """Those that it has answered, or answers now; one that it never answers is taken back."""
    tokens_today: int = 0
    last_error: str | None = None
    blocked_until: float = 0.0
    clock: Callable[[], float] = field(default=time.time, repr=False)
    _day: int = field(default=0, repr=False)

    def can_use(self) -> bool:
        """May it be asked? Not while it is blocked, and not beyond its limit."""
        return self.clock() >= self._free_at()

    def record_request(self, tokens: int = 0) -> None:
        """Records an answer of the provider, with its total number of tokens."""
        self._begin_day()
        self.requests_today += 1
        self.tokens_today += tokens

    def record_error(self, error: str) -> None:
        """Records a failure. After too many requests the provider gets no more for five minutes."""
        self._record_failure(error, is_limited=_LIMITED.search(error.lower()) is not None)

    def _record_failure(self, error: str, *, is_limited: bool) -> None:
        self.last_error = error
        if is_limited:
            self.blocked_until = self.clock() + BLOCKED

    def _record_tokens(self, tokens: int) -> None:
        """Adds the tokens of an answer to a request that is recorded already."""
        self._begin_day()
        self.tokens_today += tokens

    def _take_back_request(self, day: int) -> None:
        """A request that was recorded on this day has failed."""
        self._begin_day()
        if day == self._day:
            self.requests_today = max(0, self.requests_today - 1)

    def _free_at(self) -> float:
        """Returns the time from which the provider can be asked."""
        self._begin_day()
        if not self.available or self.daily_limit == 0:
            return inf
        return max(self.blocked_until, (self._day + 1) * _DAY) if self._is_full() else self.blocked_until

    def _obstacle(self) -> str:
        """Why it cannot be asked now, and when it can."""
        if (free := self._free_at()) == inf:
            return f"{self.name}: it is not to be asked"
        why = f"its daily limit of {self.daily_limit} is reached" if self._is_full() else self.last_error
        return f"{self.name}: {why or 'it is blocked'}, free again in {ceil(free - self.clock())} s"

    def _is_full(self) -> bool:
        return self.daily_limit is not None and self.requests_today >= self.daily_limit

    def _begin_day(self) -> None:
        today = int(self.clock() // _DAY)
        if today != self._day:
            self._day, self.requests_today, self.tokens_today = today, 0, 0


@dataclass(slots=True)
class _Asking:
    """The providers that the gateway asks for one request."""

    counted: dict[str, int] = field(default_factory=dict)
    """The providers with whom the request is recorded, each with the day of that."""
    answered: set[str] = field(default_factory=set)
    """Those that have answered a turn of it."""
    failed: str = ""
    """The provider that was asked last, if it has failed."""


class _StatusKeeper(SilentListener):
    """Keeps the statuses true: a listener to the gateway, and the gate that refuses what is beyond a limit.

    A request counts once with each provider that answers it, however many turns the model takes for it.
    """

    def __init__(self, statuses: dict[str, ProviderStatus]) -> None:
        self.statuses = statuses
        self.requests: dict[str, _Asking] = {}
        """Those that somebody reads, by their id."""

    def status(self, provider: str) -> ProviderStatus:
        return self.statuses.setdefault(provider, ProviderStatus(provider))

    async def admit(self, run: RunInfo) -> "_Admission":
        return _Admission(self, run.request_id)

    async def rejoin(self, run: RunInfo) -> "_Admission":
        return await self.admit(run)

    def count_request(self, request_id: str, provider: str) -> None:
        """Count a request with the provider; refuse one that would be beyond the limit."""
        status, asking = self.status(provider), self._asking(request_id)
        asking.failed = ""
        if provider in asking.counted:
            return
        if not status.can_use():
            raise SpecError(rate_limit(status._obstacle()))
        status.record_request()
        asking.counted[provider] = status._day

    def attempt_ended(self, run: RunInfo, attempt: AttemptInfo, spent: Spent) -> None:
        if attempt.kind != "answer":
            return
        provider, asking = attempt.provider, self._asking(run.request_id)
        kept, error = self.status(provider), spent.error
        if error is None:
            asking.answered.add(provider)
            kept._record_tokens(spent.usage.total_tokens if spent.usage is not None else 0)
            return
        asking.failed = provider
        if provider in asking.counted and provider not in asking.answered:
            kept._take_back_request(asking.counted.pop(provider))
        reason = error.message.removeprefix(f"{provider}: ")
        is_limited = spent.http_status == 429 or error.code in _LIMIT_CODES
        description = f"{spent.http_status} {error.code or error.type}: {reason}"
        kept._record_failure(description, is_limited=is_limited)

    def _asking(self, request_id: str) -> _Asking:
        return self.requests.get(request_id) or _Asking()


@dataclass(frozen=True, slots=True)
class _Admission:
    """One request, which is counted with each provider before that is asked."""

    keeper: _StatusKeeper
    request_id: str

    async def reserve(self, attempt: AttemptInfo) -> None:
        if attempt.kind == "answer":
            self.keeper.count_request(self.request_id, attempt.provider)

    def settle(self, spent: Spent) -> tuple[SettlementRow, ...]:
        return ()


class Router:
    """An alias with its targets, asked without a server.

    `model` is the alias, or the default model of the configuration; `config` is as in
    `AsyncClient(transport="local")`. Complexity and speed choose where the alias has the strategy `tiers`.
    `daily_limits` says how many requests a provider may get in a day.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        config: object = None,
        daily_limits: Mapping[str, int] | None = None,
    ) -> None:
        self.model = model
        self.statuses = {name: ProviderStatus(name, limit) for name, limit in (daily_limits or {}).items()}
        """How each provider does, as far as this router has asked it."""
        self._keeper = _StatusKeeper(self.statuses)
        self._transport = LocalTransport(config, self._keeper)
        self._client = AsyncClient(LOCAL_URL, "none", transport=self._transport, retries=Retries(times=0))

    async def route(
        self,
        messages: Sequence[Mapping[str, Any]] = (),
        system_prompt: str | None = None,
        complexity: TaskComplexity | str = TaskComplexity.MODERATE,
        speed: SpeedRequirement | str = SpeedRequirement.NORMAL,
    ) -> RoutingDecision:
        """Decides which provider would get a request, and why; sends nothing.

        Raises `UsageError` if no provider can get one now.
        """
        await self._check_somebody_can_be_asked()
        body = {"model": self.model, "input": list(messages) or "", "instructions": system_prompt}
        return await self._transport.decide(encode(body | {PARAMETER: self._hint(complexity, speed)}))

    async def stream_open_responses(
        self,
        messages: Sequence[Mapping[str, Any]],
        system_prompt: str | None = None,
        complexity: TaskComplexity | str = TaskComplexity.MODERATE,
        speed: SpeedRequirement | str = SpeedRequirement.NORMAL,
        **options: Any,
    ) -> AsyncGenerator[str, None]:
        """The events of the answer as the text of server-sent events, to `[DONE]`.

        When every provider fails or cannot be asked now, or the one that has begun fails, the stream ends
        with `response.failed` of the type `server_error` and the code `provider_failed`; its message is the
        name of the provider and its reason. `options` are further parameters of the request.
        """
        request_id = new_id("req_")
        stream = self._client.responses.stream(
            messages,
            model=self.model,
            instructions=system_prompt,
            extra_body={PARAMETER: self._hint(complexity, speed)},
            extra_headers={"X-Antiphon-Receipts": "1", "X-Request-Id": request_id},
            **options,
        )
        asking = self._keeper.requests[request_id] = _Asking()
        failure = partial(_name_provider, asking=asking)
        texts = event_text(
            self._open(stream), OPEN_RESPONSES, self.model or "", failure, replaces_failures=True
        )
        try:
            async with aclosing(texts):
                async for text in texts:
                    yield text
        finally:
            del self._keeper.requests[request_id]

    def status(self, provider: str) -> ProviderStatus:
        """Returns the state of a provider; one without requests can be used."""
        return self._keeper.status(provider)

    async def close(self) -> None:
        """Let what runs finish, and close the gateway."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _hint(self, complexity: TaskComplexity | str, speed: SpeedRequirement | str) -> dict[str, object]:
        words = {
            "complexity": task_word(TaskComplexity, complexity),
            "speed": task_word(SpeedRequirement, speed),
        }
        without = [name for name, status in self.statuses.items() if not status.can_use()]
        return {**words, "without": without} if without else {**words}

    @asynccontextmanager
    async def _open(self, stream: AbstractAsyncContextManager[ModelStream]) -> AsyncIterator[ModelStream]:
        await self._check_somebody_can_be_asked()
        async with stream as opened:
            yield opened

    async def _check_somebody_can_be_asked(self) -> None:
        """`UsageError` when no provider behind the name can be asked now: why, and who is free when."""
        if all(status.can_use() for status in self.statuses.values()):
            return
        names = await self._transport.providers_of(self.model)
        found = [self.statuses.get(name) or ProviderStatus(name) for name in names]
        if not any(status.can_use() for status in found):
            found.sort(key=ProviderStatus._free_at)
            raise UsageError("; ".join(status._obstacle() for status in found))


def provider_failed(error: AntiphonError) -> ErrorPayload:
    """Returns the error for an answer that no provider gave, or that its provider broke off."""
    reason = error.message if isinstance(error, ResponseFailed | StatusError) else str(error)
    return ErrorPayload("server_error", reason, PROVIDER_FAILED)


def _name_provider(error: AntiphonError, asking: _Asking) -> ErrorPayload:
    """Returns the same error, with the name of the provider before its reason."""
    payload, prefix = provider_failed(error), f"{asking.failed}: "
    if asking.failed and isinstance(error, ResponseFailed | StatusError):
        payload.message = prefix + payload.message.removeprefix(prefix)
    return payload


def task_word(kind: type[Word], given: Word | str) -> Word:
    """Converts a word for a task; raises `UsageError` with the valid words for any other."""
    try:
        return kind(given)
    except ValueError:
        there = ", ".join(f"'{one}'" for one in kind)
        raise UsageError(f"there is no {kind.__name__} {given!r}; there are {there}") from None
