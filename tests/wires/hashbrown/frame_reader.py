"""Hashbrown's frames as a client reads them."""

from typing import Any

from antiphon.wires.hashbrown.frame_reader import FrameSplitter, HashbrownReader

Frame = dict[str, Any]


def unframed(data: bytes) -> list[Frame]:
    """The frames in these bytes, which hold nothing but whole ones."""
    splitter = FrameSplitter()
    found = splitter.feed(data)
    assert splitter.pending == 0, f"{splitter.pending} leftover bytes"
    return found


def folded(data: bytes) -> HashbrownReader:
    """A whole answer as the client's half reads it; nothing in it may break the contract."""
    reader = HashbrownReader()
    reader.feed(data)
    reader.close()
    assert reader.problems == []
    return reader


def frame_types(frames: list[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


def message(frames: list[Frame]) -> dict[str, Any]:
    """The assistant's message as the released client puts it together from chunks."""
    made: dict[str, Any] = {}
    for frame in frames:
        if frame["type"] != "generation-chunk":
            continue
        delta = frame["chunk"]["choices"][0]["delta"]
        if delta.get("role") == "assistant" and not made:
            made = {"role": "assistant", "content": "", "toolCalls": []}
        if not made:
            continue  # before the role, the client listens to nothing
        made["content"] += delta.get("content") or ""
        for call in delta.get("toolCalls", []):
            known = next((one for one in made["toolCalls"] if one["index"] == call["index"]), None)
            if known is None:
                made["toolCalls"].append(call)
            else:
                known["function"]["arguments"] += call["function"]["arguments"]
    return made
