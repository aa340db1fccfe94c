"""The last events of a long answer repeat its text, so they are made and sent slice by slice."""

import pytest

from antiphon.server.http1.direct_exchange import DirectExchange
from antiphon.spec.long_json import SLICE
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import Json, streamed
from tests.server.servers import Serving

WORDS = 'Some "quoted" words,\nand ünïcode. ' * 1000
TEXT = WORDS * 60


@pytest.fixture
def server(serve: Serve, voice: Voice) -> Serving:
    voice.say(*[WORDS] * 60)
    return serve(voice.toml)


def texts_at_end(events: list[Json]) -> list[str]:
    """The text in each event that repeats it."""
    found = {event["type"]: event for event in events if event["type"] != "response.output_text.delta"}
    return [
        found["response.output_text.done"]["text"],
        found["response.content_part.done"]["part"]["text"],
        found["response.output_item.done"]["item"]["content"][0]["text"],
        found["response.completed"]["response"]["output"][0]["content"][0]["text"],
    ]


@pytest.mark.parametrize("dialect", ["open_responses", "openai"])
def test_the_last_events_of_a_long_answer_are_sent_in_slices(
    server: Serving, monkeypatch: pytest.MonkeyPatch, dialect: str
) -> None:
    sent: list[int] = []
    put = DirectExchange.put

    def measured(exchange: DirectExchange, chunk: bytes) -> bool:
        sent.append(len(chunk))
        return put(exchange, chunk)

    monkeypatch.setattr(DirectExchange, "put", measured)
    client = server.client(X_Antiphon_Dialect=dialect)
    events = streamed(client, input="hi")
    assert texts_at_end(events) == [TEXT] * 4
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert sum(sent) > 4 * len(TEXT)
    assert max(sent) < 8 * SLICE < len(TEXT)
    last = events[-1]["response"]
    assert client.get(f"/v1/responses/{last['id']}").json() == last


def test_a_long_answer_that_is_not_streamed_is_stored_whole(server: Serving) -> None:
    client = server.client()
    response = client.create(input="hi")
    assert response["output"][0]["content"][0]["text"] == TEXT
    assert client.get(f"/v1/responses/{response['id']}").json() == response


def test_no_keepalive_comes_between_the_slices_of_an_event(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One within an event would break its line in two."""
    put = DirectExchange.put

    def put_and_probe(exchange: DirectExchange, chunk: bytes) -> bool:
        has_room = put(exchange, chunk)
        if chunk != exchange.sign:
            exchange.probe()
        return has_room

    monkeypatch.setattr(DirectExchange, "put", put_and_probe)
    assert texts_at_end(streamed(server.client(), input="hi")) == [TEXT] * 4
