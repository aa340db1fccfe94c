"""The scenarios for clients: legal and odd streams, and refusals, with the answer that a client must give.

The model that a client names chooses the play. It then says what it understood, as the next request of the
chain: the status and the text, or the outputs of the calls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import UrlCitation
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.request import new_response
from antiphon.spec.response import Response
from antiphon.stream import deltas as d
from antiphon.stream.composer import Composer
from antiphon.stream.framing import frames
from antiphon.stream.sse import DONE, KEEPALIVE

_Cut = Callable[[list[bytes]], list[bytes]]
"""Events, each in its frame, become the pieces that are written one by one."""

WORDS: Final = ("Hello, ", "wörld ", "🎼", " and 世界.")
SAID: Final = "".join(WORDS)


@dataclass(frozen=True, slots=True)
class RefusedScenario:
    """An answer before the stream."""

    status: int
    type: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def body(self) -> bytes:
        error = {"type": self.type, "code": self.type, "message": "the play says no", "param": None}
        return msgspec.json.encode({"error": error})


def _at_once(events: list[bytes]) -> list[bytes]:
    return [b"".join(events)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. A client that handles it keeps `rule`.

    `reply` is the text that it must send back, `calls` the calls that it must answer; `refusals` come first,
    one a request. `held` leaves the connection open after `[DONE]`.
    """

    id: str
    rule: str
    deltas: tuple[d.AnyDelta, ...] = (*map(d.TextDelta, WORDS), d.Finish())
    cut: _Cut = _at_once
    reply: str | None = f"completed|{SAID}"
    calls: tuple[str, ...] = ()
    refusals: tuple[RefusedScenario, ...] = ()
    queued: bool = False
    held: bool = False

    def compose(self, body: bytes) -> tuple[Response, list[bytes]]:
        """A response to this request, and the pieces of its stream."""
        composer = Composer(
            new_response(decode_request(body), model=self.id, now=1_794_000_000),
            clock=lambda: 1_794_000_001.0,
        )
        events = composer.start(queued=self.queued)
        if self.queued:
            events += composer.start()
        events += composer.feed(self.deltas)
        return composer.snapshot(), self.cut([*(frames([event]) for event in events), DONE])

    def whole(self, body: bytes) -> bytes:
        return encode(self.compose(body)[0])


def _each(change: Callable[[bytes], bytes]) -> _Cut:
    return lambda events: [b"".join(change(event) for event in events)]


def _bytes(events: list[bytes]) -> list[bytes]:
    whole = b"".join(events)
    return [whole[n : n + 1] for n in range(len(whole))]


def _inside_characters(events: list[bytes]) -> list[bytes]:
    """Cut in the middle of every character of more than one byte."""
    whole = b"".join(events)
    cuts = [n for n, byte in enumerate(whole) if 0x80 <= byte < 0xC0]
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def _inside_lines(events: list[bytes]) -> list[bytes]:
    """The event line in one piece and the data line in two."""
    pieces: list[bytes] = []
    for event in events:
        head, newline, rest = event.partition(b"\n")
        middle = len(rest) // 2
        pieces += [head + newline, rest[:middle], rest[middle:]]
    return [piece for piece in pieces if piece]


def _on_two_lines(event: bytes) -> bytes:
    return event.replace(b'data: {"', b'data: {\ndata: "', 1)


def _with_comments(events: list[bytes]) -> list[bytes]:
    return [piece for event in events for piece in (KEEPALIVE, event)]


def _with_fields(event: bytes) -> bytes:
    return event.replace(b'data: {"', b'data: {"acme:trace":{"n":[1,null]},"future":"x","', 1)


def _rename_event(event: bytes) -> bytes:
    return event.replace(b"acme:shimmer", b"response.shimmer.delta")


def _with_words(*deltas: d.AnyDelta, before: bool = True) -> tuple[d.AnyDelta, ...]:
    words = [d.TextDelta(word) for word in WORDS]
    return (*deltas, *words, d.Finish()) if before else (*words[:2], *deltas, *words[2:], d.Finish())


def _call(n: int, city: str) -> list[d.CallDelta]:
    return [d.CallDelta(n, name="get_weather", call_id=f"call_{city}"), d.CallDelta(n, '{"location": ')]


_NOTE: dict[str, Any] = {"type": "acme:note", "status": "completed", "data": {"any": ["thing"]}}
_CITATION = UrlCitation(url="https://example.org/bees", title="Bees", start_index=0, end_index=5)
_FAILURE = d.Failure(ErrorPayload("server_error", "the play ends badly", "played"))
_OVER_THERE = RefusedScenario(429, "too_many_requests", (("retry-after", "0"),))

SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.id: scenario
    for scenario in (
        # legal
        Scenario("text", "client.states"),
        Scenario(
            "reasoning",
            "client.items",
            _with_words(d.SummaryDelta("A plan."), d.ReasoningDelta("Step by step.")),
        ),
        Scenario(
            "refusal",
            "client.items",
            (d.RefusalDelta("I would "), d.RefusalDelta("rather not."), d.Finish()),
            reply="completed|I would rather not.",
        ),
        Scenario(
            "phases",
            "client.items",
            (
                d.MessageStart("commentary"),
                d.TextDelta("Looking. "),
                d.MessageStart("final_answer"),
                d.TextDelta("Done."),
                d.Finish(),
            ),
            reply="completed|Looking. Done.",
        ),
        Scenario("annotations", "client.items", _with_words(d.AnnotationDelta(_CITATION), before=False)),
        Scenario("queued", "client.states", queued=True),
        Scenario("no-output", "client.states", (d.Finish(),), reply="completed|"),
        Scenario(
            "incomplete",
            "client.states",
            (d.TextDelta("Once upon"), d.Finish("length")),
            reply="incomplete|Once upon",
        ),
        Scenario("failed", "client.errors", (d.TextDelta("Once upon"), _FAILURE), reply="failed|Once upon"),
        Scenario(
            "long",
            "client.sse",
            (*[d.TextDelta("word ")] * 2000, d.Finish()),
            reply="completed|" + "word " * 2000,
        ),
        Scenario(
            "call",
            "client.loop",
            (*_call(0, "Paris"), d.CallDelta(0, '"Paris"}'), d.Finish("tool_calls")),
            reply=None,
            calls=("call_Paris",),
        ),
        Scenario(
            "parallel-calls",
            "client.parallel",
            (
                *_call(0, "Paris"),
                *_call(1, "Tokyo"),
                d.CallDelta(0, '"Paris"}'),
                d.CallDelta(1, '"Tokyo"}'),
                d.Finish("tool_calls"),
            ),
            reply=None,
            calls=("call_Paris", "call_Tokyo"),
        ),
        # odd
        Scenario(
            "vendor-event",
            "client.unknown",
            _with_words(d.VendorDelta("acme:progress", {"percent": 50}), before=False),
        ),
        Scenario(
            "unknown-event",
            "client.unknown",
            _with_words(d.VendorDelta("acme:shimmer", {"delta": "x"}), before=False),
            _each(_rename_event),
        ),
        Scenario(
            "vendor-item", "client.unknown", _with_words(d.ItemDelta(Opaque.make(id="note_1", **_NOTE)))
        ),
        Scenario("unknown-fields", "client.unknown", cut=_each(_with_fields)),
        Scenario(
            "one-byte-at-a-time",
            "client.sse",
            (d.TextDelta("wörld 🎼"), d.Finish()),
            _bytes,
            "completed|wörld 🎼",
        ),
        Scenario("split-characters", "client.utf8", cut=_inside_characters),
        Scenario("split-lines", "client.sse", cut=_inside_lines),
        Scenario("crlf", "client.sse", cut=_each(lambda event: event.replace(b"\n", b"\r\n"))),
        Scenario("comments", "client.sse", cut=_with_comments),
        Scenario("no-space", "client.sse", cut=_each(lambda event: event.replace(b": {", b":{", 1))),
        Scenario("two-data-lines", "client.sse", cut=_each(_on_two_lines)),
        Scenario("id-and-retry", "client.sse", cut=_each(lambda event: b"id: 7\nretry: 10\n" + event)),
        Scenario("byte-order-mark", "client.sse", cut=lambda events: [b"\xef\xbb\xbf", *events]),
        Scenario("held-open", "client.done", held=True),
        # before the stream
        Scenario("busy", "client.retries", refusals=(_OVER_THERE,)),
        Scenario(
            "wrong", "client.no_retries", refusals=(RefusedScenario(400, "invalid_request"),) * 8, reply=None
        ),
    )
}
