"""A provider that tells a watch what comes of each time that it is asked."""

from antiphon.engine.failures import CLOSED, INTERNAL, Problem
from antiphon.providers.base import Provider, Sink, Turn, UpstreamError, WrappingProvider, WrappingSink
from antiphon.spec.errors import SpecError
from antiphon.stream.deltas import AnyDelta, Failure, Finish, UsageDelta
from antiphon.wires.provider_watch import ProviderWatch


class WatchedProvider(WrappingProvider):
    def __init__(self, provider: Provider, watch: ProviderWatch) -> None:
        super().__init__(provider)
        self._watch = watch

    async def answer(self, turn: Turn, sink: Sink) -> None:
        self._watch.asks(turn.request_id, self.name)
        heard, problem = _Heard(sink), None
        try:
            await self._provider.answer(turn, heard)
            problem = heard.problem
        except (UpstreamError, SpecError) as error:
            problem = Problem(error.payload, error.status)
            raise
        except Exception:
            problem = Problem(INTERNAL, 500)
            raise
        finally:
            if problem is None:
                self._watch.answered(turn.request_id, self.name, heard.tokens)
            else:
                self._watch.failed(turn.request_id, self.name, problem.status, problem.payload)


class _Heard(WrappingSink):
    """Keeps how an answer ends, and how many tokens it has."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.tokens = 0
        self.problem: Problem | None = Problem(CLOSED, 502)
        """None for an answer that is complete."""

    def put(self, deltas: list[AnyDelta]) -> bool:
        for delta in deltas:
            if isinstance(delta, UsageDelta):
                self.tokens = delta.usage.total_tokens
            elif isinstance(delta, Finish):
                self.problem = None
            elif isinstance(delta, Failure):
                self.problem = Problem(delta.error, delta.error.status)
        return super().put(deltas)
