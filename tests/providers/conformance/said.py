"""What a model says, in words that every wire can tell: the scripts of the conformance set.

A fake of one wire renders a `Script` its own way. What a wire has no way to say stands in its `lacks`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from antiphon.providers.base import Provider
from antiphon.providers.http import UpstreamClient
from tests.providers.conformance.asked import Question
from tests.providers.fake_server import Received


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Thought:
    """Reasoning, with the opaque proof of it where the wire has one."""

    text: str
    signature: str = ""


@dataclass(frozen=True)
class Redacted:
    """Reasoning that only the provider can read."""

    data: str


@dataclass(frozen=True)
class Refused:
    text: str


@dataclass(frozen=True)
class Called:
    """A tool is called, told as a function of a wire that has only functions.

    A fake whose wire knows more looks at what the request declares: the arguments of a custom tool are
    `{"input": …}`, and a tool of a namespace is called `namespace__name`.
    """

    name: str
    arguments: str = "{}"
    id: str | None = "call_1"
    """None when the wire's call carries no id."""


@dataclass(frozen=True)
class Counted:
    """Tokens as the specification counts them: `input` holds those from the cache, `output` the reasoning."""

    input: int = 19
    output: int = 10
    cached: int = 0
    reasoning: int = 0


Ending = Literal["stop", "tool_calls", "length", "content_filter", "stop_sequence", "error", "cut", "none"]
Saying = Text | Thought | Redacted | Refused | Called


@dataclass(frozen=True)
class Script:
    """One answer. Words and arguments come in pieces of `size` characters.

    `interleaved` mixes the arguments of neighbouring calls; `cut` breaks the connection without an end,
    `error` reports a failure in the middle in the way of the wire, `none` ends without a reason.
    """

    said: tuple[Saying, ...] = ()
    ending: Ending = "stop"
    usage: Counted | None = Counted()
    size: int = 5
    interleaved: bool = False


Mind = Callable[[Question], Script]
"""Answers by itself, where a fake has nothing to play."""


class Fake(Protocol):
    """A fake upstream of one wire: a `FakeServer` that can be told what to say and asked what it heard."""

    requests: list[Received]
    slice: int
    mind: Mind | None

    @property
    def base_url(self) -> str:
        """What a user would configure."""

    @property
    def lacks(self) -> Mapping[str, str]:
        """Names of scenarios that this wire cannot play, each with the reason."""

    async def __aenter__(self) -> "Fake": ...

    async def __aexit__(self, *exc: object) -> None: ...

    def plays(self, *scripts: Script) -> None:
        """The answers to the next requests, streamed or whole as each request asks."""

    def provider(self, http: UpstreamClient) -> Provider:
        """Our adapter for this wire, pointed at this fake."""

    def mistakes(self, received: Received) -> list[str]:
        """What the provider's own official SDK, or its service model, finds wrong with a request."""
