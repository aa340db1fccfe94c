"""The history of hosted calls: how the gateway keeps one in its item, and shows it to a model later.

The item of a hosted call shows what its kind shows to a client, which may be less than the model was given.
So the gateway seals the call and its result into a field of the item. Whether the item comes back from the
store or from the client, any provider can be given the very call and result again.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from antiphon.providers.base import Capabilities
from antiphon.spec.codec import UNREADABLE, Opaque, encode
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.items import CustomToolCall, FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.spec.tools import Tool
from antiphon.tools.base import MARK, HostedTool
from antiphon.tools.citations import KeptSource
from antiphon.wires.sealing import Seal, SealBroken

_PURPOSE = "hosted call"
_CREDENTIALS = frozenset({"authorization", "headers"})
_CLIENTS = (FunctionCall, CustomToolCall)
_LARGEST = 64 * 1024 * 1024


class ModelTurnId(Struct, array_like=True, frozen=True):
    """The turn of the model that a call was made in: later the model sees all calls of one turn at once."""

    id: str
    has_client_calls: bool
    """Did it call functions of the client too? Then whatever it said after this call is of the same turn."""


class _Kept(Struct, array_like=True):
    name: str
    call_id: str
    arguments: str
    output: msgspec.Raw
    turn: ModelTurnId
    sources: list[KeptSource] = []
    """What the marks in the output stand for."""


class _Recalled(NamedTuple):
    """A hosted item as calls, outputs and whatever else it tells a model."""

    said: Sequence[Item]
    outputs: Sequence[Item]
    turn: ModelTurnId | None
    """None where the item does not say."""


class HostedHistory:
    """Seals calls into items, and turns items back into calls."""

    def __init__(self, tools: Mapping[str, HostedTool], seal: Seal) -> None:
        self._seal = seal
        self._tools = {type: tool for tool in tools.values() for type in tool.items}

    def seal_call(
        self,
        call: FunctionCall,
        output: FunctionCallOutput,
        turn: ModelTurnId,
        tenant: str,
        sources: Sequence[KeptSource] = (),
    ) -> str:
        """A call with its output, for the field of its item."""
        raw = msgspec.Raw(encode(output))
        kept = _Kept(call.name, call.call_id, call.arguments, raw, turn, [*sources])
        return self._seal.seal(zlib.compress(msgspec.json.encode(kept), 1), tenant=tenant, purpose=_PURPOSE)

    def show_calls(self, items: list[Item], takes: Capabilities, tenant: str) -> list[Item]:
        """The items with every hosted call as a function call and its output, where this provider needs it.

        What a provider has run itself is left to it as it came.
        """
        if Opaque not in set(map(type, items)):
            return items
        recalled = [
            self._recall(item, items, takes, tenant) if isinstance(item, Opaque) else None for item in items
        ]
        turns = [found and (found.turn or _guess_turn(items, n)) for n, found in enumerate(recalled)]
        last = {turn.id: n for n, turn in enumerate(turns) if turn is not None}
        told: list[Item] = []
        outputs: list[Item] = []  # of the calls of `current`, whose other calls may follow
        current: ModelTurnId | None = None
        for n, (item, found, turn) in enumerate(zip(items, recalled, turns, strict=True)):
            if current is not None:
                is_said = (
                    turn is None and _is_said(item) and (current.has_client_calls or n < last[current.id])
                )
                if not is_said and turn != current:
                    told += outputs
                    outputs, current = [], None
            if found is None:
                told.append(item)
            else:
                told += found.said
                outputs += found.outputs
                current = turn
        return told + outputs

    def _recall(
        self, item: Opaque, items: Sequence[Item], takes: Capabilities, tenant: str
    ) -> _Recalled | None:
        tool = self._tools.get(item.type)
        if tool is None:
            return None
        mark = item.fields.get(MARK)
        if isinstance(mark, str) and mark and (found := self._read_kept(mark, tenant)) is not None:
            return found
        plain = {type for type in tool.types if ":" not in type}  # a vendor's own tool has items of its own
        is_providers = takes.foreign_tools or not takes.hosted_tools.isdisjoint(plain)
        if is_providers and not tool.is_own(item, items):
            return None
        recalled = tool.recall(item, items)
        return None if recalled is None else _split_by_turn(recalled, None)

    def sources(self, items: Sequence[Item], tenant: str) -> list[KeptSource]:
        """What the marks in the outputs of these items stand for."""
        marks = [item.fields.get(MARK) for item in items if isinstance(item, Opaque)]
        found = [self._unseal(mark, tenant) for mark in marks if isinstance(mark, str) and mark]
        return [source for kept in found if kept is not None for source in kept.sources]

    def _unseal(self, mark: str, tenant: str) -> _Kept | None:
        try:
            raw = self._seal.open(mark, tenant=tenant, purpose=_PURPOSE)
            return msgspec.json.decode(_inflate(raw), type=_Kept)
        except (SealBroken, zlib.error, *UNREADABLE):
            return None

    def _read_kept(self, mark: str, tenant: str) -> _Recalled | None:
        if (kept := self._unseal(mark, tenant)) is None:
            return None
        call = FunctionCall(call_id=kept.call_id, name=kept.name, arguments=kept.arguments)
        return _split_by_turn([call, *decode_stored_items(b"[" + bytes(kept.output) + b"]")], kept.turn)


def _split_by_turn(items: Sequence[Item], turn: ModelTurnId | None) -> _Recalled:
    outputs = [item for item in items if isinstance(item, FunctionCallOutput)]
    return _Recalled([item for item in items if not isinstance(item, FunctionCallOutput)], outputs, turn)


def _guess_turn(items: Sequence[Item], n: int) -> ModelTurnId:
    """The turn of a call that does not tell it: one of its own, or that of the client's calls beside it."""
    is_beside = any(isinstance(item, _CLIENTS) for item in (*items[max(n - 1, 0) : n], *items[n + 1 : n + 2]))
    return ModelTurnId("" if is_beside else str(n), is_beside)


def _is_said(item: Item) -> bool:
    """Can it be a part of what a model says in one turn?"""
    return isinstance(item, (*_CLIENTS, Reasoning)) or (
        isinstance(item, Message) and item.role == "assistant"
    )


def _inflate(raw: bytes) -> bytes:
    return zlib.decompressobj().decompress(raw, _LARGEST)


def without_credentials(tool: Tool) -> Tool:
    """A declared tool as a response repeats it: without the credentials that open it."""
    if type(tool) is not Opaque or _CREDENTIALS.isdisjoint(tool.fields):
        return tool
    return Opaque.make(**{name: value for name, value in tool.fields.items() if name not in _CREDENTIALS})
