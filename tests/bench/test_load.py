"""The load generator and the upstream behind it, over real sockets."""

import asyncio
import json
from collections.abc import Iterator
from itertools import islice

import pytest
from websockets.frames import Frame
from websockets.streams import StreamReader

from bench import load
from bench.clients import CLIENTS, TRACED, VARIANTS, Client, requests
from bench.contenders import Contender, folder, upstream
from bench.measure import Work, in_turns, verify
from bench.outcome import Outcome, Request
from bench.processes import Program
from bench.sockets import frame


@pytest.fixture(scope="module")
def behind() -> Iterator[Program]:
    with folder() as where, upstream(where) as program:
        yield program


@pytest.fixture
def chat(behind: Program) -> Contender:
    return Contender("upstream", behind, speaks="chat")


def test_it_counts_answers_events_and_times(chat: Contender) -> None:
    outcome = load.run(load.send(chat.request("each-20", stream=True), count=6, connections=2, limit=10))
    assert (outcome.answers, outcome.failed) == (6, 0)
    assert outcome.events == 6 * (20 + 4)  # the role, the tokens, the reason, the usage and the end
    assert len(outcome.times) == len(outcome.firsts) == 6
    assert max(outcome.firsts) <= max(outcome.times)


def test_a_request_of_megabytes_is_answered(chat: Contender) -> None:
    request = chat.request("each-5", stream=False, text="x" * 5_000_000)
    outcome = load.run(load.send(request, count=2, connections=1, limit=20))
    assert (outcome.answers, outcome.failed) == (2, 0)
    assert json.loads(outcome.body)["usage"]["completion_tokens"] == 5


def test_an_answer_that_is_no_success_is_counted(chat: Contender) -> None:
    outcome = load.run(load.send(chat.request("nothing", stream=False), count=2, connections=1, limit=10))
    assert (outcome.answers, outcome.failed) == (2, 2)


def test_streams_are_held_open_until_they_are_closed(chat: Contender) -> None:
    async def held() -> int:
        outcome = Outcome()
        opened = await load.hold(chat.request("paced-500-20", stream=True), streams=5, outcome=outcome)
        still = sum(not connection.ended.done() for connection in opened)
        for connection in opened:
            connection.close()
        async with asyncio.timeout(10):
            await asyncio.gather(*(connection.ended for connection in opened))
        assert outcome.answers == 0
        return still

    assert load.run(held()) == 5


def test_a_contender_that_leaves_tokens_out_is_not_measured(chat: Contender) -> None:
    work = Work("delta", "each-20", True, 21, {"upstream": 2})
    with pytest.raises(SystemExit, match="tokens are missing: 20"):
        verify(chat, work)


def test_each_does_only_the_work_that_names_it(chat: Contender) -> None:
    works = [
        Work("plain", "each-5", False, 1, {"upstream": 4}),
        Work("slow", "each-5", True, 5, {"upstream": 2}, rounds=1),
        Work("other", "each-5", False, 1, {"somebody else": 4}),
    ]
    spent = in_turns([chat], works, rounds=2)
    assert {name: len(values) for name, values in spent.items()} == {
        ("plain", "upstream"): 2,
        ("slow", "upstream"): 1,
    }
    assert all(value > 0 for values in spent.values() for value in values)


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_a_frame_is_what_the_protocol_says(size: int) -> None:
    reader = StreamReader()
    reader.feed_data(frame(1, b"x" * size))
    parsing = Frame.parse(reader.read_exact, mask=True)
    with pytest.raises(StopIteration) as parsed:
        next(parsing)
    assert parsed.value.value.data == b"x" * size


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_what_a_client_sends_changes_as_it_does_in_reality(client: Client) -> None:
    body = {"model": "m", "input": "Sing.", "stream": True}
    sent = list(islice(requests(client, "/v1/responses", 8080, "sk", body), 2 * VARIANTS))
    assert sent[:VARIANTS] == sent[VARIANTS:]
    heads, bodies = zip(*(request.split(b"\r\n\r\n", 1) for request in sent[:VARIANTS]), strict=True)
    lengths = [int(head.lower().split(b"content-length: ")[1]) for head in heads]
    assert lengths == [len(content) for content in bodies]
    assert len(set(lengths)) > 3
    assert len({head.count(b"\r\n") for head in heads}) == 1
    without_length = {head.rpartition(b"\r\n")[0] for head in heads}
    counts_retries = b"retry-count: 1" in heads[-1]
    assert len(without_length) == (VARIANTS if client is TRACED else 1 + counts_retries)
    for content in bodies:
        asked = json.loads(content)
        assert "Sing." in json.dumps(asked["input"])
        assert asked["stream"] is True


def test_connections_take_the_clients_in_turn() -> None:
    request = Request(8080, "/v1/responses", {"model": "m", "input": "Sing."}, "sk", varies=True)
    firsts = [next(request.on_connection(n)) for n in range(len(CLIENTS) + 1)]
    assert len(set(firsts)) == len(CLIENTS)
    assert firsts[0] == firsts[-1]
