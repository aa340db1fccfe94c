"""Help for reading streams in tests: read them whole, follow them word by word, mangle them."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from antiphon.spec import events as ev
from antiphon.spec.codec import encode
from antiphon.spec.items import type_of
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta
from antiphon.stream.partial_items import KIND_OF, texts_of
from antiphon.stream.reader import Reader

Payload = dict[str, Any]
Run = tuple[list[AnyDelta], AnyDelta, list[AnyDelta]]

_TALKING = ("message", "reasoning", "function_call", "custom_tool_call")


def numbered_ids(maker: str = "") -> Callable[[str], str]:
    """Ids that count; two makers of one test must not meet, as random ids never do."""
    numbers = count(1)
    return lambda prefix: f"{prefix}{maker}{next(numbers)}"


def compose(run: Run) -> tuple[list[Payload], Response]:
    response = Response.new("resp_1", "m", now=1)
    composer = Composer(response, clock=lambda: 2.0, new_id=numbered_ids())
    events = composer.feed([*run[0], run[1], *run[2]])
    return [json.loads(event.to_json()) for event in events], composer.response


def read(payloads: Iterable[Payload], reader: Reader | None = None) -> Reader:
    reader = reader or Reader(new_id=numbered_ids())
    for payload in payloads:
        reader.feed(encode(payload))
    return reader


def follow(payloads: Iterable[Payload]) -> tuple[Reader, dict[str, list[str]]]:
    """Read, and gather the words of each item from the deltas alone, which must all be announced."""
    reader = Reader(new_id=numbered_ids("invented"))
    told: dict[str, dict[tuple[bool, int], str]] = defaultdict(lambda: defaultdict(str))
    items: set[str] = set()
    parts: set[tuple[str, bool, int]] = set()
    for payload in payloads:
        reader.feed(payload)
        for event in reader.events:
            match event:
                case ev.OutputItemAddedEvent(item=item) if item is not None:
                    assert item.id not in items
                    items.add(item.id)
                case ev.ContentPartAddedEvent():
                    parts.add((event.item_id, False, event.content_index))
                case ev.ReasoningSummaryPartAddedEvent():
                    parts.add((event.item_id, True, event.summary_index))
            kind = KIND_OF.get(type(event))
            if kind is not None and type(event) is kind.delta:
                heard: Any = event
                summary, number = kind.name == "summary", getattr(event, kind.numbered, 0)
                assert heard.item_id in items
                assert not kind.numbered or (heard.item_id, summary, number) in parts
                told[heard.item_id][summary, number] += heard.delta
    return reader, {id: [text for _, text in sorted(texts.items()) if text] for id, texts in told.items()}


def words(response: Response) -> dict[str, list[str]]:
    """The words of each item that has any, as `follow` gathers them."""
    found = {
        item.id: [text for _, _, text in texts_of(item) if text]
        for item in response.output
        if type_of(item) in _TALKING
    }
    return {id: texts for id, texts in found.items() if texts}


def texts(reader: Reader) -> list[str]:
    return ["".join(text for _, _, text in texts_of(item)) for item in reader.response.output]


def content(reader: Reader) -> Any:
    """The content of the only item."""
    (item,) = reader.response.output
    return getattr(item, "content", None)


def statuses(response: Response) -> list[str | None]:
    return [getattr(item, "status", None) for item in response.output]


def what(reader: Reader) -> list[str]:
    return [oddity.what for oddity in reader.oddities]


def delta(text: str, **fields: Any) -> Payload:
    return {"type": "response.output_text.delta", "delta": text, **fields}
