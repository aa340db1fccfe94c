"""The client without an event loop: the same behaviour, and what only threads and signals can do to it."""

import asyncio
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.client import Client, ResponseFailed, StatusError, UsageError
from antiphon.client.sync.loop_thread import Portal
from tests.client.scripted_server import PATIENT
from tests.server.servers import DEADLINE, Serving, configure, until
from tests.server.upstream import Call, Upstream

FAILING = 'x\n```script\n[{"text": "so far"}, {"error": {"message": "it broke"}}]\n```'


def test_a_response_and_its_stream(sync_client: Client) -> None:
    assert sync_client.responses.create("hello").output_text == "hello"
    with sync_client.responses.stream('x\n```script\n[{"text": "one two", "chunk": 4}]\n```') as stream:
        assert list(stream.text_deltas()) == ["one ", "two"]
        assert stream.final().output_text == "one two"
        assert stream.response.status == "completed"
        assert stream.request_id


def test_errors_come_out_as_they_are(sync_client: Client) -> None:
    with pytest.raises(StatusError):
        sync_client.responses.create("x", model="nobody")
    with sync_client.responses.stream(FAILING) as stream, pytest.raises(ResponseFailed):
        stream.final()
    with pytest.raises(UsageError, match="with client"):
        next(sync_client.responses.stream("x"))


def test_a_session(sync_client: Client) -> None:
    with sync_client.session(model="demo", store=False) as session:
        first = session.create("one")
        with session.stream("two") as stream:
            assert stream.final().previous_response_id == first.id
        assert (session.transport, len(session.items)) == ("websocket", 4)
        assert session.response_id == stream.response.id


async def test_it_works_inside_a_running_event_loop(sync_client: Client) -> None:
    assert asyncio.get_running_loop().is_running()
    assert sync_client.responses.create("hello").output_text == "hello"


def test_many_threads_share_one_client(sync_client: Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        words = [f"word {n}" for n in range(24)]
        assert [one.output_text for one in pool.map(sync_client.responses.create, words)] == words


def test_leaving_a_stream_early_ends_the_work(tmp_path: Path) -> None:
    with (
        Upstream() as upstream,
        Serving(configure(tmp_path, upstream.toml)) as gateway,
        Client(f"{gateway.url}/v1", timeouts=PATIENT, trust_env=False) as client,
    ):

        def answer() -> Call:
            call = upstream.next()
            call.say("one")
            return call

        with ThreadPoolExecutor(1) as pool:
            answering = pool.submit(answer)
            with client.responses.stream("x") as stream:
                assert next(stream.text_deltas()) == "one"
        assert answering.result().was_closed()


def test_an_interrupt_ends_the_call_and_the_work(tmp_path: Path) -> None:
    """Ctrl-C, as a real signal in the middle of a call."""
    with (
        Upstream() as upstream,
        Serving(configure(tmp_path, upstream.toml)) as gateway,
        Client(f"{gateway.url}/v1", timeouts=PATIENT, trust_env=False) as client,
    ):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)

        def interrupt() -> None:
            upstream.calls.put(upstream.next())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                client.responses.create("x")
        finally:
            signal.signal(signal.SIGINT, before)
            thread.join(DEADLINE)
        assert upstream.next().was_closed()


def test_a_closed_client_says_so(gateway: Serving) -> None:
    client = Client(f"{gateway.url}/v1", trust_env=False)
    client.responses.create("x")
    client.close()
    client.close()
    with pytest.raises(UsageError, match="closed"):
        client.responses.create("x")


def test_closing_ends_what_another_thread_waits_for(tmp_path: Path) -> None:
    with Upstream() as upstream, Serving(configure(tmp_path, upstream.toml)) as gateway:
        client = Client(f"{gateway.url}/v1", timeouts=PATIENT, trust_env=False)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.responses.create, "x")
            call = upstream.next()
            client.close()
            with pytest.raises(Exception, match=r"closed|broke"):
                waiting.result(DEADLINE)
            assert call.was_closed()


def test_no_call_is_handed_to_a_loop_that_has_ended() -> None:
    """One thread closes while others call: each of them hears of it, and none waits for ever."""

    async def nothing() -> None: ...

    for _ in range(20):
        portal = Portal(nothing)
        portal.call(nothing())

        def calls(portal: Portal = portal) -> str:
            try:
                while True:
                    portal.call(nothing())
            except UsageError as error:
                return str(error)

        with ThreadPoolExecutor(4) as pool:
            calling = [pool.submit(calls) for _ in range(4)]
            portal.close()
            assert all("closed" in one.result(DEADLINE) for one in calling)


async def test_a_portal_that_is_closed_does_not_look_like_a_cancellation() -> None:
    async def nothing() -> None: ...

    async def forever() -> None:
        await asyncio.Event().wait()

    portal = Portal(nothing)
    waiting = asyncio.ensure_future(portal.run(forever()))
    await portal.run(nothing())
    await asyncio.to_thread(portal.close)
    with pytest.raises(UsageError, match="closed while it was being used"):
        await waiting


def test_a_forgotten_client_leaves_no_thread(gateway: Serving) -> None:
    def ask() -> None:
        Client(f"{gateway.url}/v1", trust_env=False).responses.create("x")

    before = set(threading.enumerate())
    ask()
    gc.collect()
    until(lambda: not [one for one in set(threading.enumerate()) - before if one.name == "antiphon-client"])


def test_a_program_that_closes_nothing_ends_without_a_word(gateway: Serving) -> None:
    code = (
        f"import antiphon; client = antiphon.Client('{gateway.url}/v1', trust_env=False)\n"
        "print(client.responses.create('x').output_text)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=DEADLINE
    )
    assert (done.stdout, done.stderr, done.returncode) == ("x\n", "", 0)


def _in_a_child(client: Client, said: "multiprocessing.Queue[str]") -> None:
    try:
        client.responses.create("x")
    except UsageError as error:
        said.put(str(error))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_client_that_crossed_a_fork_says_so_instead_of_hanging(sync_client: Client) -> None:
    sync_client.responses.create("x")
    forking = multiprocessing.get_context("fork")
    said: multiprocessing.Queue[str] = forking.Queue()
    child = forking.Process(target=_in_a_child, args=(sync_client, said))
    child.start()
    assert "after the fork" in said.get(timeout=DEADLINE)
    child.join(DEADLINE)


def test_the_thread_does_not_wait_for_itself() -> None:
    async def nothing() -> None: ...

    portal = Portal(nothing)

    async def inner() -> None:
        portal.call(nothing())

    with pytest.raises(UsageError, match="its own thread"):
        portal.call(inner())
    portal.close()
