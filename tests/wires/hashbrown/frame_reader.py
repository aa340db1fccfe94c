"""Hashbrown's frames as a client reads them."""

import json
from typing import Any

Frame = dict[str, Any]


def unframed(data: bytes) -> list[Frame]:
    """The frames in these bytes, which hold nothing but whole ones."""
    found: list[Frame] = []
    while data:
        size = int.from_bytes(data[:4], "big")
        assert len(data) >= 4 + size, f"{len(data)} leftover bytes"
        found.append(json.loads(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


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
