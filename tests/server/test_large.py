"""Large requests: what is done for each item is done in a thread of its own, in calls that are short."""

import threading
from typing import Any

import pytest

from antiphon.engine import context, engine, job
from antiphon.providers import chat, exchange
from antiphon.spec import decode, struct_reader
from antiphon.spec.limits import MAX_VALUES
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve

LOOP, APART = "antiphon-server", "antiphon-large"
MANY = [{"type": "message", "role": "user", "content": f"This is item {n}."} for n in range(6000)]


class Seen:
    """In which threads each piece of work was done, and how much was given to the decoder at once."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.threads: dict[str, set[str]] = {}
        self.longest = 0
        self._patch = patch
        self._watch(decode, "_checked")
        self._watch(decode, "_plain_request")
        self._watch(context, "identified")
        self._watch(context, "decode_stored_items")
        self._watch(chat, "prepare")
        self._watch(exchange, "encode")
        self._watch(engine, "encode_all")
        self._watch(job, "encode_all")
        self._watch(struct_reader, "_known_item")

    def _watch(self, place: Any, name: str) -> None:
        real = getattr(place, name)

        def noted(*given: Any, **options: Any) -> Any:
            self.threads.setdefault(name, set()).add(threading.current_thread().name.partition("_")[0])
            if name in ("_known_item", "_plain_request"):
                self.longest = max(self.longest, len(bytes(given[0])))
            found = real(*given, **options)
            if name == "encode":
                self.longest = max(self.longest, len(found))
            return found

        self._patch.setattr(place, name, noted)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def test_a_large_request_is_worked_on_apart_and_item_by_item(serve: Serve, voice: Voice, seen: Seen) -> None:
    client = serve(voice.toml).client()
    made = client.create(input=MANY)
    assert [message["content"] for message in voice.last["messages"]] == [one["content"] for one in MANY]
    assert set().union(*seen.threads.values()) == {APART}
    assert seen.threads.keys() >= {"_checked", "identified", "prepare", "encode", "encode_all", "_known_item"}
    assert 0 < seen.longest < 1000
    seen.threads.clear()
    client.create(input="And now?", previous_response_id=made["id"])
    assert len(voice.last["messages"]) == len(MANY) + 2
    for name in ("identified", "decode_stored_items", "prepare", "encode", "encode_all"):
        assert seen.threads[name] == {APART}, name


def test_a_plain_question_with_thousands_of_tools_is_worked_on_apart(
    serve: Serve, voice: Voice, seen: Seen
) -> None:
    tools = [{"type": "function", "name": f"tool_{n}", "parameters": {"type": "object"}} for n in range(5000)]
    serve(voice.toml).client().create(input="Which?", tools=tools)
    assert len(voice.last["tools"]) == len(tools)
    for name in ("_checked", "prepare", "encode", "encode_all"):
        assert seen.threads[name] == {APART}, name


def test_a_small_request_stays_on_the_event_loop(serve: Serve, voice: Voice, seen: Seen) -> None:
    serve(voice.toml).client().create(input=MANY[:10])
    assert set().union(*seen.threads.values()) == {LOOP}


def test_a_large_request_in_the_background_is_worked_on_apart(serve: Serve, voice: Voice, seen: Seen) -> None:
    client = serve(voice.toml).client()
    made = client.create(input=MANY, background=True)
    assert made["status"] == "queued"
    for name in ("_checked", "identified", "encode_all"):
        assert seen.threads[name] == {APART}, name


@pytest.mark.parametrize(
    "wrong",
    [{"type": "message", "role": "user"}, {"type": "function_call_output", "call_id": "c", "output": ""}],
)
def test_a_mistake_in_a_large_request_is_told_as_in_a_small_one(
    serve: Serve, voice: Voice, wrong: dict[str, Any]
) -> None:
    client = serve(voice.toml).client()
    found = [
        client.refused(400, "POST", "/v1/responses", json={"input": [*before, wrong]})
        for before in (MANY[:5], MANY)
    ]
    assert found[0]["message"] == found[1]["message"]
    assert found[1]["param"] == found[0]["param"].replace("[5]", "[6000]")


def test_more_values_than_a_request_may_have_are_refused_before_any_is_read(
    serve: Serve, voice: Voice, seen: Seen
) -> None:
    body = {"input": [{"role": "user", "content": "hi"}] * (MAX_VALUES // 4)}
    error = serve(voice.toml).client().refused(400, "POST", "/v1/responses", json=body)
    assert error["code"] == "too_many_values"
    assert seen.threads == {"_checked": {APART}}


def test_a_turn_tells_a_limited_number_of_receipts(serve: Serve, voice: Voice) -> None:
    client = serve(voice.toml, SERVER__RECEIPTS="true").client()
    made = client.create(input=[*MANY[:1], *({"type": "vendor:note", "n": n} for n in range(1000))])
    assert len(made["antiphon:receipts"]) == 257
    assert made["antiphon:receipts"][-1]["reason"] == "there is more of this kind: the first 256 are listed"
