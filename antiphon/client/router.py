"""Several models behind one name, chosen for each task, inside the program: no server is needed."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import UNSET

from antiphon.client.async_client import AsyncClient
from antiphon.client.errors import AntiphonError, ResponseFailed, StatusError, UsageError
from antiphon.client.event_text import event_text
from antiphon.client.settings import Retries
from antiphon.client.transport.local import LOCAL_URL, LocalTransport
from antiphon.spec.codec import encode
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.response import Response, RouteAttempt
from antiphon.spec.routing import PARAMETER, RoutingDecision, SpeedRequirement, TaskComplexity
from antiphon.stream.dialects import OPEN_RESPONSES

PROVIDER_FAILED = "provider_failed"
BLOCKED = 300.0
"""For so many seconds a provider that had too many requests is left alone."""

_DAY = 86400.0
_LIMITED = ("429", "rate limit", "rate_limit")
_RECEIPTS = {"X-Antiphon-Receipts": "1"}

Word = TypeVar("Word", TaskComplexity, SpeedRequirement)


@dataclass(slots=True)
class ProviderStatus:
    """How one provider does: what it was asked today, in UTC, and whether it can be asked now."""

    name: str
    daily_limit: int | None = None
    """How many requests it may get in a day; None: as many as there are."""
    available: bool = True
    requests_today: int = 0
    tokens_today: int = 0
    last_error: str | None = None
    blocked_until: float = 0.0
    clock: Callable[[], float] = field(default=time.time, repr=False)
    _day: int = field(default=0, repr=False)

    def can_use(self) -> bool:
        """May it be asked? Not while it is blocked, and not beyond its limit."""
        self._begin_day()
        is_left = self.daily_limit is None or self.requests_today < self.daily_limit
        return self.available and is_left and self.clock() >= self.blocked_until

    def record_request(self, tokens: int = 0) -> None:
        """It has answered, with so many tokens in all."""
        self._begin_day()
        self.requests_today += 1
        self.tokens_today += tokens

    def record_error(self, error: str) -> None:
        """It has failed. When it had too many requests, it is left alone for five minutes."""
        self.last_error = error
        if any(word in error.lower() for word in _LIMITED):
            self.blocked_until = self.clock() + BLOCKED

    def _begin_day(self) -> None:
        today = int(self.clock() // _DAY)
        if today != self._day:
            self._day, self.requests_today, self.tokens_today = today, 0, 0


class Router:
    """An alias with several targets, asked without a server.

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
        self._transport = LocalTransport(config)
        self._client = AsyncClient(LOCAL_URL, "none", transport=self._transport, retries=Retries(times=0))

    async def route(
        self,
        messages: Sequence[Mapping[str, Any]] = (),
        system_prompt: str | None = None,
        complexity: TaskComplexity | str = TaskComplexity.MODERATE,
        speed: SpeedRequirement | str = SpeedRequirement.NORMAL,
    ) -> RoutingDecision:
        """Who would be asked, and why; nothing is sent."""
        body = {"model": self.model, "input": list(messages) or "", "instructions": system_prompt}
        return await self._transport.decide(encode(body | {PARAMETER: self._hint(complexity, speed)}))

    async def stream_open_responses(
        self,
        messages: Sequence[Mapping[str, Any]],
        system_prompt: str | None = None,
        complexity: TaskComplexity | str = TaskComplexity.MODERATE,
        speed: SpeedRequirement | str = SpeedRequirement.NORMAL,
        **options: Any,
    ) -> AsyncIterator[str]:
        """The events of the answer as the text of server-sent events, to `[DONE]`.

        When every provider fails, or the one that has begun, the stream ends with `response.failed` of the
        type `server_error` and the code `provider_failed`. `options` are further parameters of the request.
        """
        stream = self._client.responses.stream(
            messages,
            model=self.model,
            instructions=system_prompt,
            extra_body={PARAMETER: self._hint(complexity, speed)},
            extra_headers=_RECEIPTS,
            **options,
        )
        failures: list[AntiphonError] = []

        def failed(error: AntiphonError) -> ErrorPayload:
            failures.append(error)
            return self._failed(error)

        async for text in event_text(stream, OPEN_RESPONSES, self.model or "", failed, retells=True):
            yield text
        if not failures:
            self._learn(stream.response)

    def status(self, provider: str) -> ProviderStatus:
        """How a provider does; one that was never asked can be used."""
        return self.statuses.setdefault(provider, ProviderStatus(provider))

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

    def _failed(self, error: AntiphonError) -> ErrorPayload:
        told = provider_failed(error)
        if isinstance(error, ResponseFailed):
            self._learn(error.response)
        elif isinstance(error, StatusError):
            provider = told.message.partition(": ")[0]
            if provider in self.statuses:
                self.statuses[provider].record_error(f"{error.status} {told.message}")
        return told

    def _learn(self, response: Response) -> None:
        """From the receipt of the route: who was asked, and what came of it."""
        for attempt in _attempts(response):
            status = self.status(attempt.target.partition("/")[0])
            if attempt.outcome == "answered":
                status.record_request(attempt.usage.total_tokens if attempt.usage is not UNSET else 0)
            else:
                status.record_error(attempt.outcome)


def provider_failed(error: AntiphonError) -> ErrorPayload:
    """What a router says when nobody answered, or the one that had begun broke off."""
    reason = error.message if isinstance(error, ResponseFailed | StatusError) else str(error)
    return ErrorPayload("server_error", reason, PROVIDER_FAILED)


def _attempts(response: Response) -> Iterable[RouteAttempt]:
    for receipt in [] if response.receipts is UNSET else response.receipts:
        yield from () if receipt.attempts is UNSET else receipt.attempts


def task_word(kind: type[Word], given: Word | str) -> Word:
    """One of the words for a task, or `UsageError` with those that there are."""
    try:
        return kind(given)
    except ValueError:
        there = ", ".join(f"'{one}'" for one in kind)
        raise UsageError(f"there is no {kind.__name__} {given!r}; there are {there}") from None
