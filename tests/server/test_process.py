"""The server as a process: how it starts, what it says when it cannot, and how it ends."""

import contextlib
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.auto_upstream import Voice
from tests.server.endings import TRANSPORTS, Outcome, dial, over_json, over_sse, turn
from tests.server.flood import Flood, SlowSocket, SlowStream
from tests.server.servers import DEADLINE, Client, environment, until
from tests.server.upstream import Upstream
from tests.wires.hashbrown.frame_reader import unframed

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
SIGNALS = [signal.SIGTERM, signal.SIGINT]
WORKERS = [1, 2]


class Process:
    """`antiphon serve`, started as a user starts it."""

    def __init__(
        self, folder: Path, toml: bytes, workers: int, options: Sequence[str], **settings: str
    ) -> None:
        folder.mkdir()
        (folder / "antiphon.toml").write_bytes(toml)
        self.folder = folder
        self.url = ""
        self._errors = folder / "stderr"
        self._lines: queue.Queue[str] = queue.Queue()
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "antiphon", "serve", "--workers", str(workers), *options],
                cwd=folder,
                env=environment(folder, **settings) | {"PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def banner(self) -> str:
        """The first line that it prints, which has its address."""
        line = self._lines.get(timeout=PATIENCE)
        self.url = line.split(" on ")[1].split("/v1/")[0]
        return line

    def up(self) -> "Process":
        """Wait until it answers."""
        self.banner()
        until(self._answers, PATIENCE)
        return self

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> tuple[int, str, str]:
        """The exit code, and everything that was said on stderr and, since the banner, on stdout."""
        code = self.process.wait(PATIENCE)
        self._reader.join(DEADLINE)
        return code, self._errors.read_text(encoding="utf-8"), "".join(self._lines.queue)

    def workers(self) -> set[int]:
        pid = self.process.pid
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}

    def worker_of(self, answer: httpx.Response) -> int:
        """Which worker gave this answer, whose connection is still open: the one that holds its other end."""
        port = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        (end,) = [f"socket:[{row[9]}]" for row in rows if row[2].endswith(f":{port:04X}") and row[9] != "0"]
        files = {worker: Path(f"/proc/{worker}/fd").iterdir() for worker in self.workers()}
        # Not `readlink`, which raises where the file was closed meanwhile.
        (found,) = [one for one, held in files.items() if any(f.resolve().name == end for f in held)]
        return found

    def accepts(self) -> bool:
        url = httpx.URL(self.url)
        with contextlib.suppress(OSError), socket.create_connection((url.host, url.port or 0), DEADLINE):
            return True
        return False

    def clean_up(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError), Client(self.url) as client:
            return client.get("/healthz").status_code == 200
        return False

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as out:
            for line in out:
                self._lines.put(line)


Start = Callable[..., Process]


def alarms(errors: str) -> list[str]:
    """What is in a log besides the lines of requests that the shutdown ended."""
    expected = re.compile(r"\S+Z WARNING antiphon\.requests: request failed .*code=server_shutdown\b.*")
    return [line for line in errors.splitlines() if not expected.fullmatch(line)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(toml, **settings)`; whatever is left after the test is killed."""
    with contextlib.ExitStack() as started:

        def starts(
            toml: bytes = b"", workers: int = 1, options: Sequence[str] = (), **settings: str
        ) -> Process:
            folder = tmp_path / f"process-{len(os.listdir(tmp_path))}"
            process = Process(folder, toml, workers, options, **settings)
            started.callback(process.clean_up)
            return process

        yield starts


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def is_gone(pid: int) -> bool:
    """Has the process ended, whether or not anyone has asked how?"""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


# --- the start --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
def test_it_starts_and_answers(start: Start, upstream: Upstream, workers: int) -> None:
    upstream.answer = "all is well"
    began = time.monotonic()
    process = start(upstream.toml.encode(), workers).up()
    print(f"{workers} workers: {time.monotonic() - began:.2f} s to the first answered /healthz")
    assert over_json(process, input="hi").text == "alliswell"
    process.signal(signal.SIGTERM)
    code, errors, banner = process.ended()
    assert (code, errors) == (0, "")
    assert "models: model, up/…" in banner
    assert f"curl {process.url}/v1/responses" in banner


def assert_cannot_start(process: Process, code: int, *parts: str) -> None:
    ended, errors, out = process.ended()
    assert (ended, out) == (code, ""), errors
    assert len(errors.splitlines()) == (2 if code == 2 else 1), errors
    for part in parts:
        assert part in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("workers", WORKERS)
def test_a_port_in_use(start: Start, workers: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = start(b"", workers, SERVER__PORT=str(port))
        assert_cannot_start(process, 1, f"antiphon: 127.0.0.1:{port} is already in use; ", "--port")


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    ("toml", "place", "what"),
    [
        (
            b'[providers.x]\ntype = "telepathy"\n',
            "antiphon.toml:2:1: providers.x.type: ",
            "the known types are",
        ),
        (
            b'[providers.x]\ntype = "script"\nfile = "no"\n',
            "antiphon.toml:2:1: providers.x.file: ",
            "No such file",
        ),
        (b"[server\n", "antiphon.toml:1:", "expected"),
        (b"\xff", "antiphon.toml", "UTF-8"),
    ],
    ids=["type", "script", "syntax", "bytes"],
)
def test_a_mistake_in_the_configuration(
    start: Start, workers: int, toml: bytes, place: str, what: str
) -> None:
    process = start(toml, workers)
    assert_cannot_start(process, 2, place, what, "antiphon: 1 mistake in the configuration")


def test_a_configuration_that_cannot_be_read(start: Start, tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    process = start(options=("--config", str(tmp_path / "folder.toml")))
    assert_cannot_start(process, 2, "folder.toml: cannot read the configuration file: ")


def a_file(path: Path) -> None:
    path.touch()


def not_a_database(path: Path) -> None:
    path.mkdir()
    (path / "antiphon.db").write_bytes(b"nothing that SQLite knows" * 100)


def a_broken_key(path: Path) -> None:
    path.mkdir()
    (path / "sealing.keys").write_text("short\n")


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("spoil", [a_file, not_a_database, a_broken_key])
def test_a_data_folder_that_cannot_be_used(
    start: Start, tmp_path: Path, spoil: Callable[[Path], None], workers: int
) -> None:
    folder = tmp_path / "spoilt"
    spoil(folder)
    process = start(b"", workers, STORE__PATH=str(folder))
    assert_cannot_start(process, 1, "antiphon: ", str(folder))


# --- the end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_right_after_the_banner(start: Start, workers: int, number: int) -> None:
    process = start(b"", workers)
    process.banner()
    process.signal(number)
    code, errors, _ = process.ended()
    assert (code, alarms(errors)) == (0, [])


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_anybody_listens_for_it(tmp_path: Path, workers: int, number: int) -> None:
    program = f"""
import os, sys
from antiphon.config import load
from antiphon.providers.registry import TYPES
from antiphon.server import process

bind = process.bind

def told_to_stop(*address):
    os.kill(os.getpid(), {int(number)})
    return bind(*address)

process.bind = told_to_stop
sys.exit(process.run(load(types=TYPES)))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(tmp_path, SERVER__WORKERS=str(workers)) | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_stream_may_finish(
    start: Start, upstream: Upstream, threads: ThreadPoolExecutor, workers: int, number: int
) -> None:
    process = start(upstream.toml.encode(), workers, SERVER__DRAIN="60").up()
    outcome = threads.submit(over_sse, process, input="hi")
    call = upstream.next()
    call.say("Still ")
    process.signal(number)
    until(lambda: not process.accepts())
    assert not outcome.done()
    call.finish("here")
    assert outcome.result(DEADLINE).text == "Still here"
    code, errors, _ = process.ended()
    assert (code, alarms(errors)) == (0, [])


@pytest.mark.parametrize("workers", WORKERS)
def test_what_does_not_finish_is_ended(
    start: Start, upstream: Upstream, threads: ThreadPoolExecutor, workers: int
) -> None:
    """A stream, a plain request, a turn of a socket, and a stream that had not begun yet."""
    process = start(upstream.toml.encode(), workers, SERVER__DRAIN="0.3").up()
    asked: dict[str, Future[Outcome]] = {}
    for name, ask in TRANSPORTS.items():
        asked[name] = threads.submit(ask, process, input="hi")
        upstream.next().say("Half")
    asked["waiting"] = threads.submit(over_sse, process, input="hi")
    upstream.next()
    process.signal(signal.SIGTERM)
    outcomes = {name: outcome.result(DEADLINE) for name, outcome in asked.items()}
    assert {name: outcome.code for name, outcome in outcomes.items()} == dict.fromkeys(
        asked, "server_shutdown"
    )
    assert [outcomes[name].text for name in ("sse", "websocket")] == ["Half", "Half"]
    assert outcomes["waiting"].status == outcomes["json"].status == 503
    code, errors, _ = process.ended()
    assert (code, alarms(errors)) == (0, [])
    again = start(upstream.toml.encode(), STORE__PATH=str(process.folder / "data")).up()
    kept = outcomes["sse"].response
    assert kept is not None
    with Client(again.url) as client:
        assert client.ok("GET", f"/v1/responses/{kept['id']}") == kept


WORDS = [{"role": "user", "content": "hi"}]
ROUTES = {
    "responses": ("/v1/responses", {"input": "hi"}),
    "responses, streamed": ("/v1/responses", {"input": "hi", "stream": True}),
    "chat": ("/api/v1/chat", {"messages": WORDS, "stream": False}),
    "chat, streamed": ("/api/v1/chat", {"messages": WORDS}),
    "hashbrown": ("/api/hashbrown?dialect=open-responses", {"operation": "generate", "messages": WORDS}),
    "vscode": ("/api/vscode/chat", {"messages": [{"role": 1, "content": "hi"}]}),
    "compact": ("/v1/responses/compact", {"model": "model", "input": "hi"}),
}


def test_a_shutdown_is_the_same_error_on_every_route(start: Start, upstream: Upstream) -> None:
    """Before an answer began, and for whole answers in the middle, too."""
    process = start(upstream.toml.encode(), SERVER__DRAIN="0.3").up()

    def ask(path: str, body: object) -> tuple[int, object]:
        with Client(process.url) as client:
            answer = client.post(path, json=body)
        if "hashbrown" in path:  # whose every error is a frame
            (frame,) = unframed(answer.content)
            return 503, frame["error"]["code"]
        return answer.status_code, answer.json()["error"]["code"]

    asked: dict[str, Future[tuple[int, object]]] = {}
    with ThreadPoolExecutor(2 * len(ROUTES)) as threads:
        for name, route in ROUTES.items():
            asked[name] = threads.submit(ask, *route)
            upstream.next()
        for name in ("responses", "chat", "compact"):
            asked[f"{name}, half"] = threads.submit(ask, *ROUTES[name])
            upstream.next().say("Half")
        process.signal(signal.SIGTERM)
    found = {name: answer.result(DEADLINE) for name, answer in asked.items()}
    assert found == dict.fromkeys(asked, (503, "server_shutdown"))
    code, errors, _ = process.ended()
    assert (code, alarms(errors)) == (0, [])


def test_a_socket_takes_no_new_turn_while_the_server_waits(
    start: Start, upstream: Upstream, threads: ThreadPoolExecutor
) -> None:
    process = start(upstream.toml.encode(), SERVER__DRAIN="60").up()
    with dial(process) as connection:
        last = threads.submit(over_sse, process, input="hi")
        call = upstream.next()
        process.signal(signal.SIGTERM)
        until(lambda: not process.accepts())
        (envelope,) = turn(connection, input="hi")
        assert (envelope["status"], envelope["error"]["code"]) == (503, "server_shutdown")
        call.finish("ok")
        assert last.result(DEADLINE).text == "ok"
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(DEADLINE)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001
    code, errors, _ = process.ended()
    assert (code, alarms(errors)) == (0, [])


def test_a_second_ctrl_c_waits_for_nobody(
    start: Start, upstream: Upstream, threads: ThreadPoolExecutor
) -> None:
    process = start(upstream.toml.encode(), SERVER__DRAIN="1 h").up()
    outcome = threads.submit(over_sse, process, input="hi")
    upstream.next().say("Half")
    process.signal(signal.SIGINT)
    until(lambda: not process.accepts())
    process.signal(signal.SIGINT)
    assert outcome.result(DEADLINE).code == "server_shutdown"
    code, errors, _ = process.ended()
    assert (code, alarms(errors)) == (0, [])


def test_clients_that_do_not_read_do_not_hold_up_the_end(start: Start, upstream: Upstream) -> None:
    process = start(upstream.toml.encode(), SERVER__DRAIN="0.1", SERVER__AUDIT="false").up()
    with contextlib.closing(SlowStream(process)), contextlib.closing(SlowSocket(process)):
        for _ in range(2):
            Flood(upstream.next()).until_stuck()
        process.signal(signal.SIGTERM)
        code, errors, _ = process.ended()
    assert code == 0
    assert not re.search("ERROR|Traceback", errors), errors


# --- workers ----------------------------------------------------------------------------------------------


def test_a_killed_worker_is_replaced(start: Start, upstream: Upstream) -> None:
    upstream.answer = "all is well"
    process = start(upstream.toml.encode(), 2).up()
    before = process.workers()
    assert len(before) == 2
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    until(lambda: len(process.workers() - {victim}) == 2)
    assert over_json(process, input="hi").text == "alliswell"
    everyone = before | process.workers()
    process.signal(signal.SIGTERM)
    code, errors, _ = process.ended()
    assert code == 0
    assert errors.endswith(f"Z ERROR antiphon.server: worker {victim} ended with -9; starting another\n")
    assert len(errors.splitlines()) == 1
    assert all(is_gone(pid) for pid in everyone)


def test_workers_do_not_outlive_their_parent(start: Start, upstream: Upstream) -> None:
    process = start(upstream.toml.encode(), 2).up()
    workers = process.workers()
    process.signal(signal.SIGKILL)
    assert process.process.wait(DEADLINE) == -signal.SIGKILL
    until(lambda: all(is_gone(pid) for pid in workers))
    assert not process.accepts()


def test_workers_share_the_state_of_a_route(start: Start, upstream: Upstream) -> None:
    """One failure in each worker opens a breaker that allows two, and both leave the target alone then."""
    toml = f'''
[providers.bad]
type = "chat"
base_url = "{upstream.url}"
[providers.good]
type = "script"
[models]
fast = ["bad/m", "good/m"]
[routes.fast]
failures = 2
cooldown = "1 h"
'''
    with Voice(upstream) as voice, contextlib.ExitStack() as opened:
        voice.refuse(503)
        process = start(toml.encode(), 2).up()
        clients: dict[int, Client] = {}

        def dial() -> bool:
            client = opened.enter_context(Client(process.url))
            clients[process.worker_of(client.get("/healthz"))] = client
            return clients.keys() == process.workers()

        until(dial)
        asked = []
        for n in range(8):
            worker, client = list(clients.items())[n % 2]
            answer = client.post("/v1/responses", json={"model": "fast", "input": "hi"})
            assert process.worker_of(answer) == worker
            assert answer.json()["model"] == "good/m"
            asked.append(upstream.count)
        assert asked == [1, 2, 2, 2, 2, 2, 2, 2]
        told = [client.ok("GET", "/v1/antiphon/routes")["data"][0]["targets"] for client in clients.values()]
    for bad, good in told:
        assert 3500 < bad.pop("reopens_in") <= 3600
        assert (bad["state"], bad["failures"], bad["errors"], bad["requests"]) == ("open", 2, 2, 2)
        assert (good["state"], good["errors"], good["requests"]) == ("closed", 0, 8)
    assert told[0] == told[1]
