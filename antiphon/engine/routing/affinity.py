"""Which target answered a chain last: it holds the chain's prompt cache, and its sealed reasoning.

A table of fixed size: each key is a digest of tenant, route, kind and name, so that nothing of a tenant
stands in it, and the entry that was used longest ago makes room for a new one. Two routes have nothing in
common: a client that asks a large and a small model under one `prompt_cache_key` has two chains. Two
processes that write the same entry at once may lose one of the two, and then a chain moves once.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from antiphon.config import Target
from antiphon.spec.request import Request

_GROUPS = 4096
_WAYS = 4
_KEY, _SEEN, _TARGET, _TOKENS = range(4)
_ENTRY = 4
BYTES = _GROUPS * _WAYS * _ENTRY * 8

HELD = 3600.0
"""For so many seconds a provider's prompt cache is taken to hold what it was sent."""

_Kind = Literal["response", "conversation", "prompt_cache_key", "socket"]


class Held(NamedTuple):
    """The target that a chain is on, and how many tokens of the chain its cache holds."""

    target: Target
    tokens: int


def key_of(tenant: str, route: str, kind: _Kind, name: str) -> int:
    digest = blake2b(f"{tenant}\0{route}\0{kind}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big") or 1


def chain_keys(request: Request, tenant: str, route: str, socket: str = "") -> list[int]:
    """What the request goes on with, the closest first; `socket` names the WebSocket that it came over."""
    if not (request.previous_response_id or request.conversation or request.prompt_cache_key or socket):
        return []
    named: list[tuple[_Kind, str | None]] = [
        ("response", request.previous_response_id),
        ("conversation", request.conversation),
        ("prompt_cache_key", request.prompt_cache_key),
        ("socket", socket),
    ]
    return [key_of(tenant, route, kind, name) for kind, name in named if name]


def response_keys(tenant: str, route: str, id: str) -> list[int]:
    """Under what a response is found that a later request goes on with."""
    return [key_of(tenant, route, "response", id)]


class Affinity:
    """The table, over the memory that it is given."""

    __slots__ = ("_cells", "_numbers", "_targets")

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells
        self._targets: dict[int, Target] = {}
        self._numbers: dict[Target, int] = {}

    def name(self, number: int, target: Target) -> None:
        """Let this number stand for the target, in the tables of all processes. Others are not kept."""
        self._targets[number] = target
        self._numbers[target] = number

    def find(self, keys: Sequence[int], now: float) -> Held | None:
        """What the first of these keys that is known leads to."""
        cells = self._cells
        for key in keys:
            for at in self._entries(key):
                if cells[at + _KEY] == key and (target := self._targets.get(cells[at + _TARGET])) is not None:
                    tokens = cells[at + _TOKENS] if now - cells[at + _SEEN] < HELD else 0
                    return Held(target, tokens)
        return None

    def keep(self, keys: Sequence[int], target: Target, tokens: int, now: float) -> None:
        """These keys are on this target now, whose cache holds so many tokens of them."""
        cells, number = self._cells, self._numbers.get(target)
        if number is None:
            return
        for key in keys:
            # In one pass, because every response has a key that is new.
            at, oldest = -1, 1 << 64
            for entry in self._entries(key):
                if cells[entry + _KEY] == key:
                    at = entry
                    break
                if (seen := cells[entry + _SEEN]) < oldest:
                    at, oldest = entry, seen
            cells[at + _TARGET], cells[at + _TOKENS] = number, max(tokens, 0)
            cells[at + _SEEN], cells[at + _KEY] = max(int(now), 0), key

    def _entries(self, key: int) -> range:
        first = key % _GROUPS * _WAYS * _ENTRY
        return range(first, first + _WAYS * _ENTRY, _ENTRY)
