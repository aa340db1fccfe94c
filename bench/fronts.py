"""The front ends that a bridge serves: where and how each asks, and whether it was told everything."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Heard = tuple[list[str], bool]
"""The words of an answer, one by one, and whether it ended as it should."""


@dataclass(frozen=True, slots=True)
class Front:
    """`ask` makes a request of a model's name and a text; `hear` reads the stream that answers it."""

    path: str
    ask: Callable[[str, str], Json]
    hear: Callable[[bytes], Heard]
    text: Callable[[Json], str] | None = None
    """The text of a whole answer, where the protocol has such answers too."""

    def problem(self, body: bytes, words: Sequence[str]) -> str:
        """Why this is not the whole of an answer with these words; nothing if it is."""
        try:
            heard, ended = self.hear(body)
        except (ValueError, LookupError) as error:
            return f"the stream cannot be read: {error!r}"
        if heard != list(words):
            return f"{len(heard)} deltas of {len(words)}, or other words"
        return "" if ended else "the stream has no end"

    def problem_of_whole(self, body: bytes, text: str) -> str:
        """The same for an answer that is no stream."""
        assert self.text is not None
        return "" if self.text(json.loads(body)) == text else "the text is not whole"


def _parts(model: str, text: str) -> Json:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"trigger": "submit-message", "model": model, "messages": [message]}


def _messages(model: str, text: str) -> Json:
    return {"model": model, "messages": [{"role": "user", "content": text}]}


def _kept(model: str, text: str) -> Json:
    """Stored, which this host does not ask for by itself: the others store something too."""
    return {"model": model, "messages": [{"role": 1, "content": text}], "modelOptions": {"store": True}}


def _limited(model: str, text: str) -> Json:
    return {**_messages(model, text), "max_tokens": 100_000, "stream": True}


def _blocks(body: bytes) -> Heard:
    events = [json.loads(event.partition(b"data: ")[2]) for event in _pieces(body, b"\n\n")]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    words = [delta["text"] for delta in deltas if delta["type"] == "text_delta"]
    return words, events[-1]["type"] == "message_stop" and events[-2]["delta"]["stop_reason"] == "end_turn"


def _stored(model: str, text: str) -> Json:
    """A stream, stored for the same reason."""
    return {**_messages(model, text), "stream": True, "store": True}


def _ui_stream(body: bytes) -> Heard:
    *events, done = _pieces(body, b"\n\n")
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in events]
    words = [chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta"]
    return words, done == b"data: [DONE]" and chunks[-1]["type"] == "finish"


def _chunks(body: bytes) -> Heard:
    *events, done = _pieces(body, b"\n\n")
    choices = [json.loads(event.removeprefix(b"data: "))["choices"][0] for event in events]
    words = [choice["delta"]["content"] for choice in choices if choice["delta"].get("content")]
    return words, done == b"data: [DONE]" and choices[-1]["finish_reason"] == "stop"


def _data_stream(body: bytes) -> Heard:
    parts = [(line[:2], json.loads(line[2:])) for line in _pieces(body, b"\n")]
    code, last = parts[-1]
    words = [value for code, value in parts if code == b"0:"]
    return words, code == b"d:" and last["finishReason"] == "stop"


def _lines(body: bytes) -> Heard:
    lines = [json.loads(line) for line in _pieces(body, b"\n") if line]
    words = [line["value"] for line in lines if line["type"] == "text"]
    return words, lines[-1]["type"] == "finish" and lines[-1]["reason"] == "stop"


def _pieces(body: bytes, end: bytes) -> list[bytes]:
    *pieces, rest = body.split(end)
    if rest:
        raise ValueError("the last piece is cut off")
    return pieces


def _generation(body: bytes) -> Heard:
    frames = _frames(body)
    deltas = [frame["chunk"]["choices"][0]["delta"] for frame in frames if "chunk" in frame]
    words = [delta["content"] for delta in deltas if delta.get("content")]
    return words, _is_saved(frames, "generation-finish")


def _events(body: bytes) -> Heard:
    frames = _frames(body)
    words = [frame["delta"] for frame in frames if frame["type"] == "response.output_text.delta"]
    return words, _is_saved(frames, "response.completed")


def _frames(body: bytes) -> list[Json]:
    found = []
    at = 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        if end > len(body):
            raise ValueError("the last frame is cut off")
        found.append(json.loads(body[at + 4 : end]))
        at = end
    return found


def _is_saved(frames: list[Json], end: str) -> bool:
    """The answer ended, and then its thread was saved."""
    return [frame["type"] for frame in frames[-3:]] == [end, "thread-save-start", "thread-save-success"]


FRONTS: Mapping[str, Front] = {
    "AI SDK 5-7, UI stream": Front("/api/v1/chat?protocol=ui", _parts, _ui_stream),
    "AI SDK 4, data stream v1": Front("/api/v1/chat?protocol=data-v1", _messages, _data_stream),
    "Hashbrown, generation": Front("/api/hashbrown?dialect=generation", _messages, _generation),
    "Hashbrown, open-responses": Front("/api/hashbrown?dialect=open-responses", _messages, _events),
    "VS Code": Front("/api/vscode/chat", _kept, _lines),
    "Messages API": Front("/v1/messages", _limited, _blocks, lambda body: body["content"][0]["text"]),
    "chat completions": Front(
        "/v1/chat/completions", _stored, _chunks, lambda body: body["choices"][0]["message"]["content"]
    ),
}
"""By the names that the part `bridges` has for them."""
