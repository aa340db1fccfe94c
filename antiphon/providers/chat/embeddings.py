"""The wire of `/embeddings`, which OpenAI began; vectors are asked for as numbers, which every server has."""

from typing import Any

from msgspec import Raw, Struct

from antiphon.providers.base import EmbeddingTask


class _Vector(Struct):
    embedding: Raw
    index: int = 0


class _Counts(Struct):
    prompt_tokens: int = 0


class EmbeddingsAnswer(Struct):
    data: list[_Vector]
    usage: _Counts | None = None

    def vectors(self) -> list[Raw]:
        return [one.embedding for one in sorted(self.data, key=lambda one: one.index)]

    def tokens(self) -> int:
        return self.usage.prompt_tokens if self.usage else 0


def embeddings_body(task: EmbeddingTask) -> dict[str, Any]:
    body: dict[str, Any] = {"model": task.model, "input": task.input}
    if task.dimensions is not None:
        body["dimensions"] = task.dimensions
    if task.user is not None:
        body["user"] = task.user
    return body
