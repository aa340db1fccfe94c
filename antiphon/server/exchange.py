"""One HTTP request and its answer, whatever carries them: what the routes work with."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.structs import replace

from antiphon.bridges.encoder import Headers
from antiphon.bridges.error_paths import ParamNaming
from antiphon.engine.failures import Problem
from antiphon.engine.idempotency import HEADER
from antiphon.engine.request_context import RequestContext
from antiphon.engine.run_state import RunState
from antiphon.server.body_memory import SMALL, STALLED, BodyMemory, MemoryShare, decoded_size
from antiphon.server.content_encoding import Packing, Unpacking, packing_of
from antiphon.spec.errors import SpecError, invalid_request
from antiphon.spec.ids import new_id
from antiphon.spec.limits import LARGE
from antiphon.wires.pieces import Pieces, check_json_type, decode_pieces, too_large
from antiphon.wires.run_listener import RunKind
from antiphon.wires.worker_thread import in_worker_thread

if TYPE_CHECKING:
    from antiphon.server.gateway import Gateway

T = TypeVar("T")
Handler = Callable[["Gateway", "Exchange"], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON = b"application/json"
IDEMPOTENCY_KEY = HEADER.lower().encode()
NO_RETRY: Header = (b"x-should-retry", b"false")
"""Clients of OpenAI and Anthropic send a 409 and a 503 again unless they are told not to."""
LINGER_TIMEOUT = 2.0
"""Seconds that a client may take to read a refusal in the middle of what it sends."""
_STEP = 8 * 1024 * 1024
"""So much of a packed body is unpacked before others have their turn."""
SKIPPED = 256 * 1024 * 1024
"""As much as a client may send of a request that has its answer."""

_UNKNOWN = RequestContext()
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


def request_id(headers: Mapping[bytes, bytes]) -> str:
    """The caller's own id, or a new one."""
    return given_id(headers) or new_id("req_")


class Head(Struct, eq=False):
    """The head of a request, and what was derived from it. Names are in lower case."""

    method: str
    path: str
    query_string: bytes
    headers: Mapping[bytes, bytes]
    is_old: bool = False
    """Does the client know no chunks?"""
    request_id: str = ""
    """The caller's own, or none."""
    params: Mapping[str, str] = {}
    """What the route found in the path."""
    extra_headers: Headers = ()
    """What every answer to it says too."""
    refusal: SpecError | None = None
    """Why it is refused whatever it asks for."""

    __repr__ = object.__repr__  # which shows no key

    @property
    def route(self) -> str:
        """What it asks for, in the log; the query string is left out."""
        return f"{self.method} {self.path}"


class Exchange(ABC):
    """One request, on its way from its head to the end of its answer."""

    __slots__ = (
        "context",
        "head",
        "held",
        "is_complete",
        "is_gone",
        "is_watched",
        "memory",
        "param",
        "problem",
        "received",
        "request_id",
        "run",
        "sign",
        "status",
        "task",
    )

    memory: BodyMemory
    """What all bodies share; set when the application takes the exchange."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.request_id = head.request_id or new_id("req_")
        self.context = _UNKNOWN
        """Set once the gate has let the request in. The answer is in its dialect, and names it."""
        self.run: RunState | None = None
        """What the request has a model do, once it is known."""
        self.task: asyncio.Task[None] | None = None
        """What handles it."""
        self.received: bytes | Pieces = b""
        """As much of the body as has come and was not taken yet."""
        self.held: MemoryShare | None = None
        """What a body that did not come at once holds, until the answer is given."""
        self.is_complete = False
        """Has all of the request come?"""
        self.status = 0
        """Of the answer, once it has begun."""
        self.sign = b""
        """What may be put into a stream at any time, to show that it is alive."""
        self.param: ParamNaming | None = None
        """Gives the name that the client has for a parameter, once a door has read the request."""
        self.problem: Problem | None = None
        """Why the response failed whose stream is the answer, if it did."""
        self.is_gone = False
        """Has the client left?"""
        self.is_watched = False
        """Is the work cancelled when the client leaves?"""

    @property
    def has_begun(self) -> bool:
        """Has an answer begun? Then no other can be given."""
        return self.status != 0

    @property
    def target(self) -> str:
        """The `PROVIDER/model` that is asked by now, if the client has named a route."""
        run = self.run
        return "" if run is None or run.turn is None else run.turn.target

    def new_run(
        self, gateway: "Gateway", kind: RunKind = "response", context: RequestContext | None = None
    ) -> RunState:
        """A run of this request, whose target the head of the answer and the log name."""
        self.run = run = gateway.engine.new_run(context or self.context, kind)
        return run

    @property
    def params(self) -> Mapping[str, str]:
        """What the route found in the path."""
        return self.head.params

    def header(self, name: bytes) -> str | None:
        value = self.head.headers.get(name)
        return None if value is None else str(value, "latin-1")

    def query(self, name: str) -> str | None:
        values = parse_qs(str(self.head.query_string, "latin-1")).get(name)
        return values[-1] if values else None

    async def decode_body(self, decode: Callable[..., T], limit: int) -> T:
        """Read the JSON body, unpack it and decode it, a large one in a thread.

        It is refused by its content type or encoding, or for its length.
        """
        given = self.head.headers.get(b"content-type", JSON)
        if given != JSON:
            check_json_type(given)
        encoding = self.head.headers.get(b"content-encoding")
        packing = None if encoding is None else packing_of(encoding)
        if not self.is_complete:
            await self._receive_body(limit)
        body, self.received = self.received, b""
        if packing is not None and body:
            body = await self._unpack_body(body, packing, limit)
        if (size := len(body)) > limit:
            raise too_large(limit)
        if not size:
            raise SpecError(
                invalid_request("the request has no body; send a JSON object").with_code("no_body")
            )
        if size <= LARGE and isinstance(body, bytes):
            if size > SMALL:
                self._hold_decoded(decoded_size((body,)))
            return decode(body, max_bytes=limit)
        if size > LARGE:
            self.context = replace(self.context, is_large=True)
        pieces = (body,) if isinstance(body, bytes) else body.each()
        self._hold_decoded(await in_worker_thread(decoded_size, pieces))
        return await decode_pieces(decode, body, limit)

    async def _receive_body(self, limit: int) -> None:
        """Wait for the rest of the body; 408 if it stalls and others need its room."""
        held = self.held = MemoryShare(self.memory, self.context.tenant)
        try:
            async with asyncio.timeout(None) as patience:
                held.coming(lambda: patience.reschedule(0))
                await self.read(limit)
        except TimeoutError:
            if not held.has_stalled:
                raise
            message = (
                f"hardly any of the body arrived for {STALLED:g} seconds, and other requests need the room"
            )
            raise SpecError(invalid_request(message).with_code("body_stalled"), 408) from None
        finally:
            held.coming(None)

    async def _unpack_body(self, packed: bytes | Pieces, packing: Packing, limit: int) -> Pieces:
        """The body; a large one is unpacked in the worker thread, so that they do not grow together."""
        taken = len(packed)
        body = Unpacking(packing, Pieces(packed) if isinstance(packed, bytes) else packed)
        is_whole = body.unpack_until(LARGE)
        while not is_whole and len(body.found) <= limit:
            most = min(len(body.found) + _STEP, limit)
            self.hold(taken + most)  # before it is there
            is_whole = await in_worker_thread(body.unpack_until, most)
        self.hold(len(body.found))
        return body.found

    def hold(self, size: int, expected: int = 0) -> None:
        """So much of the body is here, and this much will be; raises if there is no room for it."""
        self._share().hold(size, expected)

    def _hold_decoded(self, size: int) -> None:
        self._share().hold_decoded(size)

    def _share(self) -> MemoryShare:
        if self.held is None:
            self.held = MemoryShare(self.memory, self.context.tenant)
        return self.held

    def hold_until(self, task: asyncio.Task[None]) -> None:
        """What the body takes is held by this task, whatever becomes of the client."""
        if (held := self.held) is not None:
            self.held = None
            task.add_done_callback(lambda _: held.hold(0))

    def answer(
        self, body: bytes, status: int = 200, content_type: bytes | None = JSON, headers: Headers = ()
    ) -> Coroutine[Any, Any, None]:
        self.status = status
        if extra := self.head.extra_headers:
            headers = (*headers, *extra)
        return self.send(status, headers, content_type, body)

    def empty(self, status: int = 204, headers: Headers = ()) -> Coroutine[Any, Any, None]:
        return self.answer(b"", status, None, headers)

    def open_stream(self, content_type: bytes, headers: Headers = ()) -> None:
        """Send the head of a streamed answer; `headers` override the defaults."""
        usual = {b"content-type": content_type, b"cache-control": b"no-cache", b"x-accel-buffering": b"no"}
        self.status = 200
        self.open(200, (*(usual | dict(headers)).items(), *self.head.extra_headers))

    def watch(self) -> None:
        """From here on, the work is cancelled as soon as the client is gone."""
        self.is_watched = True
        if self.is_gone and self.task is not None:
            self.task.cancel()

    def client_gone(self) -> None:
        """Note that the client has gone, and cancel the work that is watched, once."""
        if self.is_gone:
            return
        self.is_gone = True
        if self.is_watched and self.task is not None:
            self.task.cancel()

    def was_cancelled_by_client(self) -> bool:
        """Was the work cancelled because the client left? Then the task can finish what is left to do."""
        if not (self.is_watched and self.is_gone and self.task is not None):
            return False
        self.task.uncancel()
        return True

    # --- what carries it ----------------------------------------------------------------------------------

    @abstractmethod
    async def read(self, limit: int) -> None:
        """Wait until all of the body is here; one that passes the limit is refused as soon as that shows."""

    @abstractmethod
    async def read_more(self) -> bytes:
        """What has come of the body since the last call; nothing at its end. Waits until there is some.

        Until the next call the client is read no further.
        """

    @abstractmethod
    def over(self) -> None:
        """Give up what carries the exchange: its answer is complete, or the client has gone."""

    @abstractmethod
    async def send(self, status: int, headers: Headers, content_type: bytes | None, body: bytes) -> None:
        """A whole answer, with its request id, dialect and target, and its length if it has a type."""

    @abstractmethod
    def open(self, status: int, headers: Headers) -> None:
        """Send the head of an answer of unknown length, with its request id, dialect and target."""

    @abstractmethod
    def put(self, chunk: bytes) -> bool:
        """More of an answer. False: it was taken, but put no more before `ready` has returned."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Has the client taken enough of what was put?"""

    @abstractmethod
    async def ready(self) -> None:
        """Wait until there is room for more."""

    @abstractmethod
    async def finish(self, chunk: bytes = b"") -> None:
        """The last of an answer, and its end."""


def as_length(given: bytes) -> int:
    return int(given) if given.isdigit() else 0


def given_id(headers: Mapping[bytes, bytes]) -> str:
    """The caller's own id for the request, if it can be written back, or nothing."""
    given = headers.get(b"x-request-id", b"")
    return given.decode("ascii") if given and _REQUEST_ID.fullmatch(given) else ""


def two_keys_error() -> SpecError:
    """The refusal of a request with two idempotency keys, of which either could be meant."""
    message = f"a request has one {HEADER} header, and this one has several"
    return SpecError(invalid_request(message).with_code("invalid_http").with_param(HEADER))


def two_hosts_error() -> SpecError:
    """The refusal of a request with two hosts: a proxy in front may have looked at the other one."""
    return SpecError(
        invalid_request(
            "a request names one host; this one names several, in its first line or in Host headers"
        ).with_code("invalid_http")
    )
