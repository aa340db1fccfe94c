"""Embeddings between a door and a provider: what is to become vectors, and the vectors."""

from collections.abc import Sequence

from msgspec import Raw, Struct


class EmbeddingTask(Struct, frozen=True):
    """Texts, or lists of tokens, that are to become vectors."""

    model: str
    input: Sequence[str] | Sequence[Sequence[int]]
    dimensions: int | None = None
    user: str | None = None

    __repr__ = object.__repr__  # which shows no text


class Embedded(Struct, frozen=True):
    """The vectors, each a JSON list of numbers, in the order of the texts."""

    vectors: list[Raw]
    input_tokens: int = 0
