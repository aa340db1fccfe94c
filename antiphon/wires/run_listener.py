"""What listeners learn of runs, and what a gate decides about them.

A run is one request for a model or a paid service, from its admission to its end: a response, a compaction,
embeddings, a count of tokens, a search. It makes attempts: each question to one provider or service is one.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from antiphon.spec.errors import ErrorPayload
from antiphon.spec.response import Usage

RunKind = Literal["response", "compaction", "embeddings", "input_tokens", "search", "indexing"]
AttemptKind = Literal["answer", "embed", "count_tokens", "service"]
Outcome = Literal["answered", "failed", "cancelled"]
"""`cancelled`: the one who asked did not wait for the end."""


class Spent(Struct):
    """What one attempt took; or a whole run, which adds up its attempts."""

    usage: Usage | None = None
    """None where no provider has said it."""
    attempts: int = 0
    seconds: float = 0.0
    first_token: float = 0.0
    """Seconds from the beginning to the first words; 0 if there were none, or they came with the end."""
    outcome: Outcome = "answered"
    error: ErrorPayload | None = None
    http_status: int = 0
    """Of the error, if there is one."""

    def fail(self, error: ErrorPayload, http_status: int) -> None:
        """Note that what it took led to an error."""
        self.outcome, self.error, self.http_status = "failed", error, http_status

    def add(self, attempt: "Spent") -> None:
        """Count one more attempt. How the run ends is not for an attempt to say."""
        self.attempts += 1
        if attempt.usage is not None:
            self.usage = attempt.usage if self.usage is None else self.usage.plus(attempt.usage)


def total_usage(attempts: Sequence[Spent]) -> Usage | None:
    """What several attempts took together; None where no provider has said it."""
    total: Usage | None = None
    for spent in attempts:
        if spent.usage is not None:
            total = spent.usage if total is None else total.plus(spent.usage)
    return total


class RunInfo(Struct, eq=False):
    """One run, as far as it is known by now."""

    kind: RunKind
    tenant: str = ""
    key: str = ""
    """The name of the key that the client sent."""
    request_id: str = ""
    id: str = ""
    """Of the response, where there is one. It stays the same when another process takes the run over."""
    model: str = ""
    """The name that the client asked for."""
    is_background: bool = False

    __repr__ = object.__repr__  # which shows no prompt


class AttemptInfo(Struct, eq=False):
    """One question to one provider or service."""

    number: int
    """Counted from 1 in its run, as far as this process makes it."""
    kind: AttemptKind
    provider: str
    """Its name in the configuration; of a service, the name of its tool."""
    model: str
    """The name of the model there; empty for a service."""
    route: str = ""
    """The route that chose this target, if there is one."""
    upstream_status: int = 0
    """Of a provider that refused or failed: its HTTP status, and its own id for the request."""
    upstream_id: str = ""


class ToolInfo(Struct, frozen=True):
    """A call of a hosted tool that has ended."""

    tool: str
    function: str
    seconds: float
    failed: bool


class Listener(Protocol):
    """Learns of runs, attempts and hosted calls. It is called in the event loop, and must not wait.

    An exception that it raises is logged, and the answer goes on.
    """

    def run_began(self, run: RunInfo) -> None:
        """The gate has let the run in."""

    def attempt_began(self, run: RunInfo, attempt: AttemptInfo) -> None:
        """A provider or a service is about to be asked."""

    def attempt_ended(self, run: RunInfo, attempt: AttemptInfo, spent: Spent) -> None:
        """The attempt has ended, in whatever way. Each one that began ends once."""

    def tool_ended(self, run: RunInfo, call: ToolInfo) -> None:
        """A hosted tool has run a call."""

    def run_ended(self, run: RunInfo, spent: Spent) -> None:
        """The run has ended, and this is what all its attempts took together."""


class SilentListener:
    """A listener that ignores everything: override what is to be heard."""

    def run_began(self, run: RunInfo) -> None:
        return

    def attempt_began(self, run: RunInfo, attempt: AttemptInfo) -> None:
        return

    def attempt_ended(self, run: RunInfo, attempt: AttemptInfo, spent: Spent) -> None:
        return

    def tool_ended(self, run: RunInfo, call: ToolInfo) -> None:
        return

    def run_ended(self, run: RunInfo, spent: Spent) -> None:
        return
