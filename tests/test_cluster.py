"""The example cluster: nginx before two gateways on one PostgreSQL, as `make cluster` starts it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import pytest
from openai import OpenAI
from websockets.sync.client import connect

from antiphon import Client
from examples.cluster.cluster import Cluster
from examples.cluster.processes import find_program
from tests.postgres import needs_postgres
from tests.server.servers import until

ROOT = Path(__file__).parent.parent
WORDS = "".join(f"word {n}, " for n in range(200))
SCRIPT = f"""```script
{json.dumps([{"text": WORDS, "chunk": 10, "delay": 0.02}])}
```"""
TERMINAL = ("response.completed", "response.failed", "response.incomplete")

pytestmark = [
    needs_postgres,
    pytest.mark.skipif(
        find_program("nginx") is None,
        reason="THE CLUSTER IS NOT TESTED: nginx is missing (on Debian: apt install nginx-light)",
    ),
]


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(postgres={"fsync": "off"}) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """With all gateways up."""
    running.restart_dead()
    return running


class Killer:
    """Kills whoever works on a response, twice: at its tenth event, and when the next has said some more.

    With two gateways both are killed, so a client loses its connection at least once.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.killed: list[str] = []
        self._cluster = cluster
        self._next = 10

    def heard(self, count: int, response: str) -> None:
        if count < self._next or len(self.killed) == 2:
            return
        gateway = until(lambda: self._cluster.worker_of(response))
        assert gateway is not None
        self._cluster.restart_dead()
        gateway.process.kill()
        self.killed.append(gateway.name)
        self._next = count + 10


Follow = Callable[[str, Killer], list[int]]


def with_our_client(url: str, killer: Killer) -> list[int]:
    """The numbers of all events; the client comes back by itself."""
    numbers: list[int] = []
    with (
        Client(base_url=f"{url}/v1") as client,
        client.responses.stream(SCRIPT, background=True) as stream,
    ):
        for event in stream:
            numbers.append(event.sequence_number)
            killer.heard(len(numbers), stream.response.id)
    assert stream.response.output_text == WORDS
    return numbers


def with_the_openai_sdk(url: str, killer: Killer) -> list[int]:
    """The numbers of all events; after a cut, the caller asks for those that follow the last one."""
    numbers: list[int] = []
    response, is_over = "", False
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=8) as client:
        stream = client.responses.create(model="slow", input=SCRIPT, background=True, stream=True)
        while not is_over:
            try:
                with stream:
                    for event in stream:
                        numbers.append(event.sequence_number)
                        if event.type == "response.created":
                            response = event.response.id
                        killer.heard(len(numbers), response)
                        if event.type in TERMINAL:
                            is_over = True
                            assert event.type == "response.completed"
            except (httpx.TransportError, openai.APIConnectionError):
                pass
            if not is_over:
                stream = client.responses.retrieve(response, stream=True, starting_after=numbers[-1])
        assert client.responses.retrieve(response).output_text == WORDS
    return numbers


@pytest.mark.parametrize("follow", [with_our_client, with_the_openai_sdk])
def test_a_stream_outlives_the_gateways_that_work_on_it(cluster: Cluster, follow: Follow) -> None:
    killer = Killer(cluster)
    numbers = follow(cluster.url, killer)
    assert numbers == [*range(len(numbers))]
    assert sorted(killer.killed) == ["gateway-1", "gateway-2"]


def test_a_dead_gateway_is_left_out(cluster: Cluster) -> None:
    cluster.gateways[0].process.kill()
    with httpx.Client(base_url=cluster.url, trust_env=False, timeout=60) as http:
        body = {"input": '```script\n[{"text": "Here."}]\n```'}
        # nginx may still leave out the other one, which has just been started again.
        until(lambda: http.post("/v1/responses", json=body).status_code == 200)
        for _ in range(4):
            answer = http.post("/v1/responses", json=body)
            assert answer.status_code == 200, answer.text


def test_a_websocket_passes(cluster: Cluster) -> None:
    with connect(f"{cluster.url.replace('http', 'ws', 1)}/v1/responses", proxy=None) as socket:
        socket.send(json.dumps({"type": "response.create", "input": '```script\n[{"text": "Here."}]\n```'}))
        types: list[str] = []
        while not types or types[-1] not in TERMINAL:
            types.append(json.loads(socket.recv(timeout=60))["type"])
    assert types[-1] == "response.completed"


def test_a_backup_is_restored(cluster: Cluster) -> None:
    """As docs/many-machines.md does it: another cluster answers for what the first has stored."""
    with httpx.Client(base_url=cluster.url, trust_env=False, timeout=60) as http:
        body = {"input": '```script\n[{"text": "Kept."}]\n```'}
        stored = http.post("/v1/responses", json=body).raise_for_status().json()
    page = (ROOT / "docs" / "many-machines.md").read_text(encoding="utf-8")
    (dump,) = re.findall(r"```sh\n(pg_dump .*)\n```", page)
    (restore,) = re.findall(r"```sh\n(pg_restore .*)\n```", page)
    cluster.postgres.run(*_typed(dump, cluster.database_url))
    copy = cluster.postgres.url("restored")
    cluster.postgres.execute("CREATE DATABASE restored")
    cluster.postgres.run(*_typed(restore, copy))
    keys = cluster.environment["ANTIPHON_SEALING__KEYS"]
    with (
        Cluster(
            gateways=1,
            has_proxy=False,
            environment={"ANTIPHON_STORE__URL": copy, "ANTIPHON_SEALING__KEYS": keys},
        ) as other,
        httpx.Client(base_url=other.gateways[0].url, trust_env=False, timeout=60) as http,
    ):
        assert http.get(f"/v1/responses/{stored['id']}").raise_for_status().json() == stored
        body = {"input": '```script\n[{"text": "More."}]\n```', "previous_response_id": stored["id"]}
        assert http.post("/v1/responses", json=body).raise_for_status().json()["status"] == "completed"


def _typed(command: str, url: str) -> list[str]:
    """The words of a command on the page, with the address of a database for its variable."""
    return [word.replace('"$DATABASE_URL"', url) for word in command.split()]


def test_the_launcher_says_what_to_try_and_stops_what_it_started() -> None:
    command = [sys.executable, "-m", "examples.cluster", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as launcher:
        try:
            assert launcher.stdout is not None
            said = ""
            while "Ctrl-C stops everything" not in said:
                line = launcher.stdout.readline()
                assert line, said
                said += line
            pids = [int(pid) for pid in re.findall(r"process (\d+)", said)]
            folder = Path(said.split()[-1])
            assert len(pids) == 4
            assert f"kill -9 {pids[2]}" in said
            (url,) = re.findall(r"goes to nginx: (\S+)", said)
            assert re.findall(r"curl -N '?(\S+)/v1/responses", said) == [url, url]
            assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        finally:
            launcher.send_signal(signal.SIGINT)
        assert launcher.wait(60) == 0
    assert not folder.exists()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
