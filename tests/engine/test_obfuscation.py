"""Noise beside deltas: it hides their length, and nothing else is touched."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from antiphon.engine.obfuscation import BLOCK, obfuscate
from antiphon.spec import events as ev
from antiphon.spec.codec import encode


def delta(text: str) -> ev.OutputTextDeltaEvent:
    event = ev.OutputTextDeltaEvent(7, "msg_1", 0, 0, text)
    obfuscate([event])
    return event


@given(st.text())
def test_delta_and_noise_fill_whole_blocks(text: str) -> None:
    noise = delta(text).obfuscation
    assert isinstance(noise, str)
    assert 1 <= len(noise) <= BLOCK
    assert (len(encode(text)) + len(noise)) % BLOCK == 0


@given(st.text(max_size=4), st.text(max_size=4))
def test_short_words_look_alike_on_the_wire(one: str, other: str) -> None:
    assert len(encode(delta(one))) == len(encode(delta(other)))


def test_the_noise_is_never_the_same() -> None:
    assert len({delta("word").obfuscation for _ in range(100)}) == 100


def test_only_deltas_with_a_place_for_it_get_noise() -> None:
    events: list[ev.AnyEvent] = [
        ev.RefusalDeltaEvent(0, "msg_1", 0, 0, "no"),
        ev.OutputTextDoneEvent(1, "msg_1", 0, 0, "yes"),
        ev.OtherEvent("acme:note", 2, {"delta": "x"}),
        ev.ReasoningDeltaEvent(3, "rs_1", 0, 0, "hm"),
        ev.ReasoningSummaryTextDeltaEvent(4, "rs_1", 0, 0, "hm"),
        ev.FunctionCallArgumentsDeltaEvent(5, "fc_1", 0, "{"),
    ]
    before = [encode(event) if isinstance(event, ev.Event) else event.to_json() for event in events[:3]]
    obfuscate(events)
    assert [e.to_json() for e in events[:3]] == before
    assert all(getattr(event, "obfuscation", UNSET) is not UNSET for event in events[3:])
