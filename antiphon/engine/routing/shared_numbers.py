"""Numbers that live in memory which several processes may share, with names."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, overload

if TYPE_CHECKING:
    Cells = memoryview[float] | list[float]
else:
    Cells = memoryview | list
"""A row of numbers: a part of a mapped file, or, where nobody shares them, a list, which is faster."""

Changing = Callable[[], AbstractContextManager[None]]
"""Gives what is held while several numbers change together."""


class HasCells(Protocol):
    cells: Cells


class CellAttribute:
    """An attribute that is kept in the cell of this number."""

    __slots__ = ("_index",)

    def __init__(self, index: int) -> None:
        self._index = index

    @overload
    def __get__(self, owner: None, kind: type) -> "CellAttribute": ...
    @overload
    def __get__(self, owner: HasCells, kind: type) -> float: ...
    def __get__(self, owner: HasCells | None, kind: type) -> "float | CellAttribute":
        return self if owner is None else owner.cells[self._index]

    def __set__(self, owner: HasCells, value: float) -> None:
        owner.cells[self._index] = value
