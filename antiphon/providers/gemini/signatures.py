"""Thought signatures: how a reasoning item holds one, and how it returns to the part it came with."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from antiphon.spec.codec import UNREADABLE

VENDOR = "google:"
"""How the types of items begin that only Google knows."""

SEARCH = "web_search_call"
"""The item that says what Google has searched for."""

# What Google documents for a call that its model did not make itself, or whose signature is lost.
NO_PROOF = "skip_thought_signature_validator"


class PartSignature(Struct, omit_defaults=True, frozen=True):
    """A signature, the part that it stands on, and the thought just before that part.

    `on` is the call, the text or the other part that follows, the text before it, or the thought itself.
    """

    signature: str
    on: Literal["call", "next", "part", "last", "thought"]
    thought: str = ""
    name: str = ""
    text: str = ""
    part: dict[str, Any] | None = None
    """What a tool of Google's own was given or gave: there again even where its item was not shown."""

    def to_blob(self) -> str:
        return msgspec.json.encode(self).decode()


def from_blob(blob: str | None) -> PartSignature | None:
    if not blob:
        return None
    try:
        return msgspec.json.decode(blob, type=PartSignature)
    except UNREADABLE:
        return None


class ModelParts:
    """The parts of one model turn, each with the signature that it came with."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self._waiting: PartSignature | None = None
        self.lost = 0
        """How many signatures have no part to stand on any more."""

    def proof(self, proof: PartSignature) -> None:
        self._drop_waiting()
        if proof.thought or proof.on == "thought":
            self.parts.append({"text": proof.thought, "thought": True})
        match proof.on:
            case "thought":
                self.parts[-1]["thoughtSignature"] = proof.signature
            case "last":
                self._sign_last(proof)
            case "call" | "next" | "part":
                self._waiting = proof

    def text(self, text: str) -> None:
        waiting = self._waiting
        if waiting is not None and waiting.on == "next" and text.startswith(waiting.text):
            self._waiting = None
            self.parts.append({"text": waiting.text, "thoughtSignature": waiting.signature})
            text = text[len(waiting.text) :]
        self._drop_waiting()
        if text:
            self.parts.append({"text": text})

    def call(self, call: dict[str, Any]) -> None:
        part: dict[str, Any] = {"functionCall": call}
        waiting = self._waiting
        if waiting is not None and waiting.on == "call" and waiting.name == call["name"]:
            part["thoughtSignature"] = waiting.signature
            self._waiting = None
        self._drop_waiting()
        self.parts.append(part)

    def other(self, part: dict[str, Any]) -> None:
        """A part that only Google knows, as it came."""
        waiting = self._waiting
        if waiting is not None and waiting.on == "part" and waiting.name in part:
            part = _add_signature(part, waiting.signature)
            self._waiting = None
        self._drop_waiting()
        self.parts.append(part)

    def end(self) -> list[dict[str, Any]]:
        self._drop_waiting()
        return self.parts

    def _sign_last(self, proof: PartSignature) -> None:
        signed = {"text": proof.text, "thoughtSignature": proof.signature}
        if proof.text:
            last = self.parts[-1] if self.parts else {}
            said = last.get("text", "")
            if last.keys() != {"text"} or not said.endswith(proof.text):
                self.lost += 1
                return
            self.parts.pop()
            if rest := said[: -len(proof.text)]:
                self.parts.append({"text": rest})
        self.parts.append(signed)

    def _drop_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.part is not None:
            self.parts.append(_add_signature(waiting.part, waiting.signature))
        elif waiting is not None:
            self.lost += 1


def _add_signature(part: dict[str, Any], signature: str) -> dict[str, Any]:
    return {**part, "thoughtSignature": signature} if signature else part
