"""Clients that vanish or that hardly read: the upstream is let go, and nothing is kept for nobody."""

import json
import logging
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon.server.streaming import Stream
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve, Spawn
from tests.server.endings import Departing, Inside, Outcome, dial
from tests.server.flood import Flood, SlowSocket, SlowStream
from tests.server.servers import DEADLINE, Spawned, until
from tests.server.upstream import Call, Upstream

ONE_SECOND = 1.0
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True)
def nothing_alarming(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """That clients go away is no error to the server; the test's own client may think what it likes."""
    yield
    alarms = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert [record for record in alarms if record.name != "websockets.client"] == []


@pytest.fixture
def voice(upstream: Upstream) -> Iterator[Voice]:
    with Voice(upstream) as voice:
        yield voice


# --- the client goes away ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
@pytest.mark.parametrize("said", [True, False], ids=["in the middle", "before the first word"])
def test_a_client_that_goes_away_cancels_the_upstream(
    serve: Serve, upstream: Upstream, stream: bool, said: bool
) -> None:
    server = serve(upstream.toml)
    inside = Inside(server)
    client = Departing(server, input="hi", stream=stream)
    call = upstream.next()
    if said:
        call.say("Half", " an")
    if said and stream:
        client.read_until(b" an")
    client.vanish()
    assert call.was_closed(ONE_SECOND)
    inside.until_nothing_is_left()


def test_a_client_that_goes_away_after_created_but_before_the_first_word(
    serve: Serve, upstream: Upstream
) -> None:
    server = serve(upstream.toml, SERVER__CREATED_AFTER="0.05")
    inside = Inside(server)
    client = Departing(server, input="hi", stream=True)
    call = upstream.next()
    client.read_until(b"response.in_progress")
    client.vanish()
    assert call.was_closed(ONE_SECOND)
    inside.until_nothing_is_left()


def test_what_was_said_to_a_client_that_went_away_is_kept(
    serve: Serve, upstream: Upstream, voice: Voice
) -> None:
    server = serve(upstream.toml)
    voice.says = lambda call: call.say("Half")
    with server.client().listen("/v1/responses", input="hi", stream=True) as stream:
        created = stream.until("response.output_text.delta")[0]["response"]
    client = server.client()
    found = until(lambda: _found(client.get(f"/v1/responses/{created['id']}")))
    assert (found["status"], found["incomplete_details"]) == ("incomplete", {"reason": "cancelled"})
    assert Outcome(200, response=found).text == "Half"


def _found(answer: Any) -> dict[str, Any]:
    return answer.json() if answer.status_code == 200 else {}


def test_departures_leave_no_traceback_in_the_log(spawn: Spawn, upstream: Upstream, voice: Voice) -> None:
    """Clients vanish while the server is writing, over both transports."""
    server = spawn(upstream.toml)
    over = threading.Event()

    def chatter(call: Call) -> None:
        over.clear()
        try:
            while True:
                call.say("word " * 100)
        finally:
            over.set()

    voice.says = chatter
    for abruptly in [True, False] * 5:
        client = Departing(server, input="hi", stream=True)
        client.read_until(b"output_text.delta")
        client.vanish()
        assert over.wait(DEADLINE)
        with dial(server, close_timeout=0.1) as connection:
            connection.send(json.dumps({"type": "response.create", "input": "hi"}))
            while "output_text.delta" not in str(connection.recv(DEADLINE)):
                pass
            if abruptly:
                connection.socket.shutdown(socket.SHUT_RDWR)
        assert over.wait(DEADLINE)
    assert server.client().get("/healthz").status_code == 200
    assert server.stop() == 0
    log = server.log()
    assert not re.search("Traceback|never retrieved|ERROR", log), log


# --- the client is slow -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [SlowStream, SlowSocket])
def test_a_client_that_does_not_read_and_then_goes_away(
    spawn: Spawn, upstream: Upstream, reader: type[SlowStream | SlowSocket]
) -> None:
    """The server waits for the client to take something when the connection ends."""
    server = spawn(upstream.toml)
    for _ in range(2):
        with closing(reader(server)) as client:
            call = upstream.next()
            Flood(call).until_stuck()
            client.vanish()
            assert call.was_closed(ONE_SECOND)
    assert server.stop() == 0
    assert not re.search("Traceback|never retrieved|ERROR", server.log()), server.log()


@pytest.mark.parametrize("reader", [SlowStream, SlowSocket])
def test_a_slow_reader_costs_no_memory(
    spawn: Spawn, upstream: Upstream, reader: type[SlowStream | SlowSocket]
) -> None:
    """The source offers a thousand times more than the client takes, and nobody holds the difference."""
    server = spawn(upstream.toml, SERVER__AUDIT="false")
    with closing(reader(server)) as client:
        flood = Flood(upstream.next())
        flood.until_stuck()
        before = highest = resident(server)
        offered = read = 0
        while offered < 100 << 20:
            read += client.take()
            flood.offer(read * 1000 - offered)
            offered = read * 1000
            highest = max(highest, resident(server))
        assert flood.taken < 32 << 20
        assert highest - before < 4 << 20, f"{highest - before:,} bytes more"
        finishing = threading.Thread(target=flood.finish)
        finishing.start()
        assert b'"type":"response.completed"' in client.rest()
        finishing.join(DEADLINE)


def resident(server: Spawned) -> int:
    """The memory of the server process, in bytes."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * PAGE


def test_a_client_that_does_not_read_at_all_costs_one_comment(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the last comment has not been taken, no other is written."""
    ticks = threading.Semaphore(0)
    check = Stream.check

    def counted(stream: Stream, now: float) -> float:
        due = check(stream, now)
        ticks.release()
        return due

    monkeypatch.setattr(Stream, "check", counted)
    server = serve(upstream.toml, SERVER__KEEPALIVE="0.01")
    inside = Inside(server)
    client = Departing(server, buffer=4096, input="hi", stream=True)
    call = upstream.next()
    Flood(call).until_stuck()
    for _ in range(50):
        assert ticks.acquire(timeout=DEADLINE)
    assert inside.more_tasks() <= 4
    client.vanish()
    assert call.was_closed(ONE_SECOND)
    inside.until_nothing_is_left()
