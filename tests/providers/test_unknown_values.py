"""What a provider says that we do not know must never cost what we do know, on any wire.

Every answer of the conformance set is changed at every place: a field that nobody knows is added to an
object, or a word of an enumeration becomes one of tomorrow. The answer stays the same, or a receipt says
what of it could not be told.
"""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.anthropic.stream import AnthropicStream
from antiphon.providers.azure import AzureStream
from antiphon.providers.bedrock.eventstream import EventStreamReader
from antiphon.providers.bedrock.stream import BedrockStream
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.exchange import Parser
from antiphon.providers.gemini.stream import GeminiStream
from antiphon.providers.ollama.stream import OllamaStream
from antiphon.providers.responses.stream import ResponsesStream
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta
from antiphon.stream.dialects import OPEN_RESPONSES
from antiphon.wires.notes import Note
from tests.providers.anthropic import wire as anthropic_wire
from tests.providers.bedrock import fake as fake_bedrock
from tests.providers.bedrock.eventstream_wire import encode, event
from tests.providers.chat import scripts
from tests.providers.compose import plain
from tests.providers.conformance.said import Called, Counted, Redacted, Refused, Saying, Script, Text, Thought
from tests.providers.fake_server import Piece
from tests.providers.gemini import fake as fake_gemini
from tests.providers.ollama import fake as fake_ollama
from tests.providers.responses import wire as responses_wire

Edit = Callable[[Any], Any]
UNKNOWN = "a_word_of_tomorrow"
# Fields whose values are words of an enumeration, and those of them that say why an answer ended.
ENDS = frozenset({"finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason", "reason"})
WORDS = ENDS | {"type", "role", "object", "status", "service_tier", "phase"}
# Objects that are the client's, or the model's own words: a field more is a word more.
FREE = frozenset({"input", "args", "arguments", "metadata", "tools"})


@dataclass(frozen=True)
class Wire:
    """How an answer is written, with its JSON changed, and what reads it."""

    stream: Callable[[Edit], bytes]
    whole: Callable[[Edit], bytes]
    parser: Callable[[Note], Parser]


def bytes_of(pieces: Iterator[Piece]) -> bytes:
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


def lines(raw: bytes, edit: Edit) -> bytes:
    """A stream whose JSON stands on lines, after `data:` or alone."""
    made = []
    for line in raw.split(b"\n"):
        head, data = (b"data: ", line[5:]) if line.startswith(b"data:") else (b"", line)
        is_json = data.strip().startswith(b"{")
        made.append(head + json.dumps(edit(json.loads(data))).encode() if is_json else line)
    return b"\n".join(made)


def frames(raw: bytes, edit: Edit) -> bytes:
    return b"".join(
        encode(
            {name: (7, value) for name, value in headers.items()},
            json.dumps(edit(json.loads(payload))).encode(),
        )
        for headers, payload in EventStreamReader().feed(raw)
    )


def once(told: Any) -> Callable[[Edit], bytes]:
    return lambda edit: json.dumps(edit(json.loads(told) if isinstance(told, bytes) else told)).encode()


SAID: tuple[Saying, ...] = (
    Thought("Hm, 世界.", "c2lnbmVk"),
    Redacted("cmVkYWN0ZWQ="),
    Text("Grüße 🎼"),
    Called("get_weather", '{"city":"Tōkyō"}', "a"),
)


def script(*without: type) -> Script:
    return Script(tuple(one for one in SAID if not isinstance(one, without)), "tool_calls", Counted(cached=3))


CHAT = script(Redacted)
OPEN = Script((*SAID[:1], Text("Hi"), Refused("No."), SAID[-1]), "tool_calls", Counted(cached=3, reasoning=2))
WIRES: dict[str, Wire] = {
    "chat": Wire(
        lambda edit: lines(bytes_of(iter(scripts.streamed(CHAT, counted=True))), edit),
        once(scripts.whole(CHAT)),
        lambda note: ChatStream(note=note),
    ),
    "azure": Wire(
        lambda edit: lines(bytes_of(iter(scripts.streamed(CHAT, counted=True))), edit),
        once(scripts.whole(CHAT)),
        lambda note: AzureStream(note=note),
    ),
    "anthropic": Wire(
        lambda edit: lines(bytes_of(anthropic_wire.streamed(script())), edit),
        once(anthropic_wire.whole(script())),
        lambda note: AnthropicStream(note=note),
    ),
    "gemini": Wire(
        lambda edit: lines(bytes_of(fake_gemini.streamed(script(Redacted))), edit),
        once(fake_gemini.whole(script(Redacted))),
        lambda note: GeminiStream(note=note),
    ),
    "bedrock": Wire(
        lambda edit: frames(bytes_of(fake_bedrock.streamed(script())), edit),
        once(fake_bedrock.whole(script())),
        lambda note: BedrockStream(note=note),
    ),
    "ollama": Wire(
        lambda edit: lines(bytes_of(fake_ollama.streamed(script(Redacted))), edit),
        once(fake_ollama.whole(script(Redacted))),
        lambda note: OllamaStream(note=note),
    ),
    "responses": Wire(
        lambda edit: b"".join(
            b"data: " + json.dumps(edit(one)).encode() + b"\n\n" for one in responses_wire.events(OPEN, {})
        ),
        once(responses_wire.whole(OPEN, {})),
        lambda note: ResponsesStream(note=note),
    ),
}
CASES = [(name, mode) for name in WIRES for mode in ("stream", "whole")]


def told(wire: Wire, mode: str, edit: Edit, before: bytes = b"") -> tuple[dict[str, Any], set[str]]:
    """What a client gets of the answer, and the receipts. `before` comes first in a stream."""
    notes: set[str] = set()
    parser = wire.parser(lambda param, why: notes.add(why))
    deltas: list[AnyDelta]
    if mode == "whole":
        deltas = parser.whole(wire.whole(edit))
    else:
        deltas = parser.feed(before + wire.stream(edit))
        deltas += [] if parser.over else parser.end()
    composer = Composer(
        Response.new("resp_1", "m", now=1),
        clock=lambda: 2.0,
        new_id=lambda prefix: prefix,
        shows=OPEN_RESPONSES.shows,
        hidden=notes.add,
    )
    composer.feed(deltas)
    made = plain(composer.response)
    if made["usage"]:
        # A server of this protocol may count more than the specification does.
        made["usage"] = {
            key: made["usage"].get(key) for key in ("input_tokens", "output_tokens", "total_tokens")
        }
    return {key: made[key] for key in ("output", "usage", "status", "incomplete_details", "error")}, notes


def content(made: dict[str, Any]) -> set[tuple[str, str]]:
    """Everything that was said, wherever it stands."""
    return {
        (item["type"], json.dumps(item.get(key)))
        for item in made["output"]
        for key in ("content", "summary", "arguments", "encrypted_content")
        if item.get(key)
    }


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every object, to its type even where it has none, and to every word of an enumeration."""
    if isinstance(value, dict):
        yield path
        if "type" not in value:
            yield (*path, "type")
        for key, inner in value.items():
            if key in WORDS and isinstance(inner, str):
                yield (*path, key)
            elif key not in FREE:
                yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from places(inner, (*path, n))


class Change:
    """Changes one place in the whole answer, counted through all its JSON; -1 only counts."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.count = 0
        self.place: tuple[str | int, ...] = ()
        self.was: str | None = None

    def __call__(self, payload: Any) -> Any:
        payload = copy.deepcopy(payload)
        for place in list(places(payload)):
            self.count += 1
            if self.left == 0:
                self._apply(payload, place)
            self.left -= 1
        return payload

    def _apply(self, payload: Any, place: tuple[str | int, ...]) -> None:
        self.place = place
        at = payload
        for key in place[:-1]:
            at = at[key]
        last = place[-1] if place else None
        inner = payload if last is None else at.get(last, "") if isinstance(at, dict) else at[last]
        if isinstance(inner, dict):
            inner[UNKNOWN] = {"new": [1, {"type": UNKNOWN}]}
        else:
            self.was = inner
            at[last] = UNKNOWN


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_what_is_unknown_changes_nothing_else_or_leaves_a_receipt(name: str, mode: str) -> None:
    wire = WIRES[name]
    count = Change(-1)
    meant, notes = told(wire, mode, count)
    assert meant["status"] == "completed"
    assert (notes, count.count > 5) == (set(), True)
    for number in range(count.count):
        change = Change(number)
        made, notes = told(wire, mode, change)
        if change.was is None:
            assert (made, notes) == (meant, set()), f"a new field in {change.place}"
        elif notes:
            continue
        elif (name, change.place) == ("responses", ("type",)):
            # An event that is not known is made up for by those after it, sometimes only by the last.
            assert content(made) == content(meant), f"{change.was!r} became a word of tomorrow"
        elif change.place[-1] not in ENDS:
            assert made == meant, f"{change.was!r} at {change.place} became a word of tomorrow"
        else:
            told_of = made["output"], made["error"]
            assert told_of == (meant["output"], None), f"{change.was!r} at {change.place}"


def as_it_is(payload: Any) -> Any:
    return payload


def first(*path: str | int, new: object) -> Edit:
    """Puts something new before the first element of the list at this place."""

    def edit(payload: Any) -> Any:
        at = payload = copy.deepcopy(payload)
        for key in path:
            at = at[key]
        at.insert(0, new)
        return payload

    return edit


def chat_delta(field: str, value: object) -> bytes:
    """A chunk that says this; thinking is a part of the content."""
    said = (
        {"content": [{"type": "thinking", field: value}]}
        if field == "thinking"
        else {field.split()[0]: value}
    )
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": said}]}).encode() + b"\n\n"


NEW = {UNKNOWN: {"text": "new"}}
NEW_PART = {"type": UNKNOWN, "text_of_tomorrow": "new"}
CITED = {"type": "text", "text": "", "citations": [{"type": 7}]}
OF_CHAT: dict[str, object] = {
    "content": [NEW_PART],
    "thinking": [NEW_PART],
    "reasoning": NEW,
    "annotations": [NEW_PART],
    "images": [NEW_PART],
    "images that are no list": NEW,
    "tool_calls": [{"index": 9, "id": "call_9", **NEW_PART}],
    "audio": {"data": "eA=="},
    "executed_tools": [NEW_PART],
}
NEW_CONTENT: dict[str, tuple[str, str, Edit, bytes]] = {
    **{
        f"{name} {field}": (name, "stream", as_it_is, chat_delta(field, value))
        for name in ("chat", "azure")
        for field, value in OF_CHAT.items()
    },
    "anthropic event": ("anthropic", "stream", as_it_is, anthropic_wire.event(UNKNOWN, content=NEW)),
    "anthropic block": ("anthropic", "whole", first("content", new=NEW_PART), b""),
    "anthropic block without a name": ("anthropic", "whole", first("content", new={"type": "?"}), b""),
    "anthropic citation": ("anthropic", "whole", first("content", new=CITED), b""),
    "gemini part": ("gemini", "stream", as_it_is, fake_gemini.sse(NEW)),
    "gemini part of a whole": ("gemini", "whole", first("candidates", 0, "content", "parts", new=NEW), b""),
    "bedrock event": ("bedrock", "stream", as_it_is, event(UNKNOWN, NEW)),
    "bedrock start": (
        "bedrock",
        "stream",
        as_it_is,
        event("contentBlockStart", {"start": NEW, "contentBlockIndex": 9}),
    ),
    "bedrock piece": ("bedrock", "stream", as_it_is, fake_bedrock.delta(9, **NEW)),
    "bedrock block": ("bedrock", "whole", first("output", "message", "content", new=NEW), b""),
    "bedrock piece of reasoning": (
        "bedrock",
        "stream",
        as_it_is,
        fake_bedrock.delta(9, reasoningContent=NEW),
    ),
    "bedrock reasoning": (
        "bedrock",
        "whole",
        first("output", "message", "content", new={"reasoningContent": NEW}),
        b"",
    ),
    "bedrock words with citations": (
        "bedrock",
        "whole",
        first("output", "message", "content", new={"citationsContent": {"content": [NEW], "citations": []}}),
        b"",
    ),
    "ollama image": ("ollama", "stream", as_it_is, b'{"message": {"images": ["AAAA"]}}\n'),
    "responses item": ("responses", "whole", first("output", new={**NEW_PART, "id": "x_1"}), b""),
}


@pytest.mark.parametrize("kind", NEW_CONTENT)
def test_content_of_an_unknown_kind_leaves_a_receipt(kind: str) -> None:
    name, mode, edit, before = NEW_CONTENT[kind]
    meant, _ = told(WIRES[name], mode, as_it_is)
    made, notes = told(WIRES[name], mode, edit, before)
    assert content(made) == content(meant)
    assert made["status"] == "completed"
    assert len(notes) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)


@given(st.sampled_from(CASES), st.text("xyz_", min_size=6, max_size=9), JSON)
def test_new_fields_everywhere_change_nothing(case: tuple[str, str], field: str, value: Any) -> None:
    name, mode = case

    def everywhere(payload: Any) -> Any:
        payload = copy.deepcopy(payload)
        for place in list(places(payload)):
            at = payload
            for key in place:
                at = at.get(key) if isinstance(at, dict) else at[key]
            if isinstance(at, dict):
                at[field] = value
        return payload

    assert told(WIRES[name], mode, everywhere) == told(WIRES[name], mode, lambda payload: payload)
