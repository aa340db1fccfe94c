"""A door: the way into the gateway for the clients of one API.

A new door is a folder of `bridges` with a class of this kind, and a row for it among the server's endpoints.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from antiphon.bridges.encoder import Encoder, Headers
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.spec.codec import encode
from antiphon.spec.errors import ErrorBody, ErrorPayload
from antiphon.spec.request import Request
from antiphon.spec.response import Receipt, Response
from antiphon.stream.deltas import Finish
from antiphon.stream.dialects import Dialect

Ending = Callable[[], Finish | None]
"""Gives the reason that the provider had for ending the answer, once it has ended."""


class ErrorAnswer(NamedTuple):
    body: bytes
    status: int
    headers: Headers = ()


class Door:
    """The paths that the clients of one API use, and what an error looks like to them."""

    error_body: type = ErrorBody
    """The type of the body of an error, for the description of the API."""

    def __init__(self, path: str, dialect: Dialect | None = None) -> None:
        self.path = path
        """Every path that begins with this one belongs to the door, also one that does not exist."""
        self.dialect = dialect
        """The dialect of everything behind the door; None: each client chooses."""

    def serves(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        """Does a request for this path come from a client of this API?"""
        return path.startswith(self.path)

    def error(self, error: ErrorPayload, status: int, context: RequestContext) -> ErrorAnswer:
        return ErrorAnswer(ErrorBody.encode(context.dialect.error(error)), status)


OPEN_RESPONSES_DOOR = Door("/")
"""The door of the specification itself, and of everything that has no other."""


class Asked(Protocol):
    """What a door has read."""

    @property
    def request(self) -> Request: ...

    @property
    def receipts(self) -> Sequence[Receipt]:
        """What could not be kept of the body."""
        ...

    def param(self, ours: str) -> str:
        """The client's name for a parameter of the request."""
        ...


A = TypeVar("A", bound=Asked)


class ResponseDoor(Door, ABC, Generic[A]):
    """A door whose requests a model answers: reads a body into a request, and writes the response."""

    counts_receipts = False
    """Does the terminal response say how many receipts there are, whatever its dialect?"""
    is_idempotent = False
    """Does a request with an `Idempotency-Key` that is sent again get the same answer?"""

    @abstractmethod
    def reader(self, engine: Engine, headers: Mapping[bytes, bytes]) -> Callable[..., A]:
        """A function that reads a body of at most `max_bytes`; it raises a `SpecError` for a mistake.

        Where the body is large it is called in a thread.
        """

    async def prepare(self, asked: A, engine: Engine, tenant: str) -> A:
        """Complete what was read with what is stored."""
        return asked

    def context(self, asked: A, context: RequestContext) -> RequestContext:
        """The context of the run."""
        return context

    def headers(self, request_id: str) -> Headers:
        """Further headers of a whole answer."""
        return ()

    @abstractmethod
    def encoder(self, asked: A, ending: Ending, request_id: str) -> Encoder:
        """Writes the answer as a stream."""

    def encode(self, response: Response, asked: A, ending: Ending) -> bytes:
        """Write the whole answer; a door whose answers are always streams does not override it."""
        return encode(response)

    def list_unrepresented(self, response: Response) -> list[Receipt]:
        """Receipts for the items that the whole answer cannot express."""
        return []
