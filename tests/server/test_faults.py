"""When things go wrong: whatever breaks, the client is told once and in full, and nothing stays behind."""

import json
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import cast

import pytest

from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.engine.run import Run
from antiphon.providers.base import AnsweringProvider, Capabilities, Provider, Sink, Turn, answer_from
from antiphon.spec.events import AnyEvent
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, TextDelta
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.endings import Asked, Inside, dial, kept, over_json, turn
from tests.server.http_calls import change_events, violations
from tests.server.servers import Serving, until
from tests.server.upstream import END, Call, Upstream, chunk

Says = Callable[[Call], None]


@pytest.fixture(scope="module")
def faulty() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def voice(faulty: Upstream) -> Iterator[Voice]:
    """Says what is wrong with the faulty upstream."""
    with Voice(faulty) as voice:
        yield voice


@pytest.fixture(scope="module")
def server(serve_all: Serve, faulty: Upstream) -> Serving:
    return serve_all(faulty.toml)


# --- the upstream fails -----------------------------------------------------------------------------------


@contextmanager
def nobody() -> Iterator[str]:
    """An address where connections are refused."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}/v1"


@contextmanager
def nobody_home() -> Iterator[str]:
    """An address where connections are neither taken nor refused: the queue of the listener is full."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [(nobody, 502, "upstream_unreachable"), (nobody_home, 504, "timeout")],
)
def test_an_upstream_that_cannot_be_reached(
    serve: Serve,
    upstream: Upstream,
    asked: Asked,
    address: Callable[[], AbstractContextManager[str]],
    status: int,
    code: str,
) -> None:
    with address() as url:
        server = serve(upstream.toml.replace(upstream.url, url), TIMEOUTS__CONNECT="0.2")
        outcome = asked(server, input="hi")
    assert (outcome.status, outcome.code) == (status, code)


def hangs_up(call: Call) -> None:
    call.over.set()


def not_http(call: Call) -> None:
    call.write(b"\x00\xff 220 mail.example.com ESMTP\r\n\r\n")
    call.over.set()


def answers(kind: str, body: bytes, status: int = 200) -> Says:
    def says(call: Call) -> None:
        head = f"HTTP/1.0 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        call.write(head.encode() + body)
        call.over.set()

    return says


@pytest.mark.parametrize(
    ("says", "status", "code"),
    [
        (hangs_up, 502, "upstream_closed"),
        (not_http, 502, "upstream_invalid"),
        (answers("text/html", b"<h1>It works!</h1>"), 502, "upstream_invalid"),
        (answers("application/json", b'{"choices": ['), 502, "upstream_invalid"),
        (answers("application/json", b"[1, 2]"), 502, "upstream_invalid"),
        (answers("application/json", b'{"error": {"message": "no"}}'), 500, "upstream_error"),
        (answers("text/plain", b"boom", 500), 500, "upstream_error"),
        (answers("text/plain", b"busy", 503), 503, "model_overloaded"),
    ],
    ids=["hangs up", "not HTTP", "a page", "half JSON", "a list", "an error", "500", "503"],
)
def test_an_early_failure_is_a_plain_error(
    server: Serving, voice: Voice, asked: Asked, says: Says, status: int, code: str
) -> None:
    voice.says = says
    inside = Inside(server)
    outcome = asked(server, input="hi")
    assert (outcome.status, outcome.code, outcome.response) == (status, code, None)
    inside.until_nothing_is_left()


def silent(call: Call) -> None:
    """Takes the request and says nothing."""


def test_an_upstream_that_never_answers(serve: Serve, faulty: Upstream, voice: Voice, asked: Asked) -> None:
    voice.says = silent
    server = serve(faulty.toml, TIMEOUTS__FIRST_BYTE="0.2", TIMEOUTS__WHOLE="0.2")
    inside = Inside(server)
    outcome = asked(server, input="hi")
    assert (outcome.status, outcome.code, outcome.response) == (504, "timeout", None)
    inside.until_nothing_is_left()


def cut(call: Call) -> None:
    call.say("Half")
    call.over.set()


def cut_in_a_chunk(call: Call) -> None:
    call.say("Half")
    call.write(chunk({"content": " an answer"})[:-20])
    call.over.set()


def error_event(call: Call) -> None:
    call.say("Half")
    call.write(b'data: {"error": {"message": "the model fell over", "code": "broken"}}\n\n')
    call.over.set()


def garbage(call: Call) -> None:
    call.say("Half")
    call.write(b"data: \x00\xff{{{\n\n" + chunk({"content": "never"}) + END)
    call.over.set()


def half_a_character(call: Call) -> None:
    call.say("Half")
    call.write(b'data: {"choices": [{"index": 0, "delta": {"content": "\\ud83d"}}]}\n\n' + END)
    call.over.set()


@pytest.mark.parametrize(
    ("says", "code"),
    [
        (cut, "upstream_closed"),
        (cut_in_a_chunk, "upstream_closed"),
        (error_event, "upstream_error"),
        (garbage, "upstream_invalid"),
        (half_a_character, "upstream_invalid"),
    ],
)
def test_a_late_failure_is_a_failed_response(
    server: Serving, voice: Voice, asked: Asked, says: Says, code: str
) -> None:
    voice.says = says
    breaks_off(server, asked, code)


def breaks_off(server: Serving, asked: Asked, code: str) -> None:
    """Half an answer comes, then the upstream fails in this way."""
    inside = Inside(server)
    outcome = asked(server, input="hi")
    assert outcome.code == code
    if asked is over_json:
        assert (outcome.status, outcome.response) == (500, None)
    else:
        assert kept(server, outcome)["status"] == "failed"
        assert outcome.text == "Half"
    inside.until_nothing_is_left()


def stuck(call: Call) -> None:
    """The head and the words in one piece: a pause between them would be silence too."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    call.write(head + chunk({"content": "Half"}))


def test_an_upstream_that_does_not_go_on(serve: Serve, faulty: Upstream, voice: Voice, asked: Asked) -> None:
    voice.says = stuck
    breaks_off(serve(faulty.toml, TIMEOUTS__IDLE="0.2"), asked, "timeout")


def test_an_upstream_that_says_nothing_but_comments(
    serve: Serve, faulty: Upstream, voice: Voice, asked: Asked
) -> None:
    def drips(call: Call) -> None:
        stuck(call)
        with suppress(OSError):
            while not call.was_closed(0.02):
                call.write(b": still at it\n\n")

    voice.says = drips
    breaks_off(serve(faulty.toml, TIMEOUTS__WHOLE="0.4"), asked, "timeout")


def test_the_end_mark_without_a_reason_is_a_whole_answer(server: Serving, voice: Voice, asked: Asked) -> None:
    def says(call: Call) -> None:
        call.say("Whole")
        call.write(END)
        call.over.set()

    voice.says = says
    outcome = asked(server, input="hi")
    assert kept(server, outcome)["status"] == "completed"
    assert outcome.text == "Whole"


def test_a_reason_without_the_end_mark_is_a_whole_answer(server: Serving, voice: Voice, asked: Asked) -> None:
    def says(call: Call) -> None:
        call.say("Whole")
        call.write(chunk({}, "stop"))
        call.over.set()

    voice.says = says
    assert asked(server, input="hi").text == "Whole"


# --- we fail ----------------------------------------------------------------------------------------------


class Buggy(AnsweringProvider):
    """A provider with a bug, before its first word or after it."""

    name = "buggy"
    capabilities = Capabilities(frozenset())

    def __init__(self, *batches: list[AnyDelta]) -> None:
        self._said = batches

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await answer_from(self._batches(turn), sink)

    async def _batches(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        for batch in self._said:
            yield batch
        raise ZeroDivisionError("a secret of the house")


@pytest.mark.parametrize("batches", [(), ([],), ([], [TextDelta("Half")])])
def test_a_bug_is_told_without_its_details(
    serve: Serve,
    upstream: Upstream,
    asked: Asked,
    caplog: pytest.LogCaptureFixture,
    batches: tuple[list[AnyDelta], ...],
) -> None:
    server = serve(upstream.toml)
    inside = Inside(server)
    cast(dict[str, Provider], server.gateway.engine.providers)["up"] = Buggy(*batches)
    outcome = asked(server, input="hi")
    assert outcome.code == "internal_error"
    assert outcome.status == (200 if batches and asked is not over_json else 500)
    told = json.dumps([outcome.error, outcome.response])
    assert "secret" not in told
    assert "Zero" not in told
    assert "Traceback" not in told
    assert "ZeroDivisionError" in caplog.text
    if outcome.response:
        assert kept(server, outcome)["status"] == "failed"
    inside.until_nothing_is_left()


def test_a_bug_in_what_the_gateway_does_with_the_answer_is_told_too(
    server: Serving, voice: Voice, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice.say("Whole")

    def broken(composer: Composer, delta: AnyDelta) -> None:
        raise ZeroDivisionError("a secret of the house")

    monkeypatch.setattr(Composer, "_message", broken)
    outcome = asked(server, input="hi")
    assert outcome.code == "internal_error"


def test_a_bug_in_storing_is_told_too(
    server: Serving, voice: Voice, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice.say("Whole")

    def broken(engine: Engine, run: Run, caller: RequestContext) -> None:
        raise ZeroDivisionError("a secret of the house")

    monkeypatch.setattr(Engine, "record", broken)
    outcome = asked(server, input="hi")
    assert outcome.code == "internal_error"
    assert outcome.text == ("" if asked is over_json else "Whole")


# --- the audit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("background", [False, True])
def test_the_audit_logs_a_broken_stream(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    upstream.answer = "all is well"
    server = serve(upstream.toml)

    def without_some(events: list[AnyEvent]) -> list[AnyEvent]:
        return [event for event in events if event.type != "response.content_part.done"]

    change_events(monkeypatch, without_some)
    with server.client().listen("/v1/responses", input="hi", stream=True, background=background) as stream:
        stream.until("response.completed")
        assert list(stream) == []
    until(lambda: "[part.done_before_item]" in " ".join(violations()))
    violations().clear()


def test_the_audit_logs_a_broken_turn_of_a_socket(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.answer = "all is well"
    server = serve(upstream.toml)
    change_events(monkeypatch, lambda events: events + events[-1:])
    with dial(server) as connection:
        assert turn(connection, input="hi")[-1]["type"] == "response.completed"
        until(violations)
    violations().clear()
