"""How far the hosted loop has come with a response: what another process needs to go on with it.

A call is written here before it is run, and what came of it before its item ends. So the next process knows
which calls may have been run, also of tools whose items the client does not see.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Raw, Struct

from antiphon.engine.hosted.history import ModelTurnId
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item
from antiphon.spec.response import Usage
from antiphon.stream.deltas import FinishReason


class ProgressLog(Protocol):
    """Writes the log of a background response."""

    def progress_changed(self) -> None:
        """Write the progress together with the events that are put next."""

    async def commit(self) -> None:
        """Wait until everything that was put so far is written, and the progress with it."""


class StartedCall(Struct, array_like=True):
    """A hosted call that may have been run."""

    call_id: str
    name: str
    """The function, as the model knows it."""
    arguments: str
    item: str = ""
    """The id of its item; empty where the client does not see it."""
    about: Any = None
    """Of a call that the client has allowed: what it carries."""
    ended: bool = False
    output: Raw = Raw(b"[]")
    """What the model is told of it, once it has ended; nothing where the client has to answer first."""
    shown: Raw = Raw(b"[]")
    """Its item at the end."""

    def made(self) -> FunctionCall:
        return FunctionCall(call_id=self.call_id, name=self.name, arguments=self.arguments)

    def end(self, output: FunctionCallOutput | None, shown: Opaque) -> None:
        self.ended = True
        self.output = raw_items([] if output is None else [output])
        self.shown = raw_items([shown])

    def result(self) -> Item | None:
        return next(iter(_items(self.output)), None)

    def final(self) -> Item | None:
        return next(iter(_items(self.shown)), None)


class StartedCalls(Struct, array_like=True):
    """The hosted calls of one model turn, from before they are run until the model is asked again."""

    turn: ModelTurnId
    said: Raw
    """All that the model said in the turn, its calls among it."""
    calls: list[StartedCall]
    finish: FinishReason | None
    """How the model ended its turn; None for calls that were allowed before it was asked."""
    is_waiting: bool = False
    """Has the client something to answer?"""

    def items(self) -> list[Item]:
        return _items(self.said)


class HostedProgress(Struct, omit_defaults=True):
    """What was said and run up to the model turn that is under way."""

    added: Raw = Raw(b"[]")
    """What the model is given after the context: its earlier turns, and the results of their calls."""
    turns: int = 0
    calls: int = 0
    usage: Usage | None = None
    output_tokens: int = 0
    """What the model has written so far, estimated where it did not say how much that was."""
    shown: int = 0
    """How many items the response had when the turn began."""
    is_begun: bool = False
    """Have calls been taken up that the client has allowed since the last response?"""
    started: StartedCalls | None = None

    def earlier(self) -> list[Item]:
        return _items(self.added)


def raw_items(items: Sequence[Item]) -> Raw:
    """Items as a JSON array."""
    return Raw(b"[" + b",".join(map(encode, items)) + b"]")


def _items(raw: Raw) -> list[Item]:
    return decode_stored_items(bytes(raw))
