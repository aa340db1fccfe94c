"""Embeddings of Bedrock: the models of each vendor want a body of their own, and answer in their own way."""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct


class _ByType(Struct, forbid_unknown_fields=True):
    float: list[Raw]


class InvokeAnswer(Struct, rename="camel"):
    """Titan gives one vector, with its tokens; Cohere a list of them, or one under the name of its type."""

    embedding: Raw = Raw()
    embeddings: list[Raw] | _ByType | None = None
    input_text_token_count: int = 0

    def vectors(self) -> list[Raw]:
        if self.embedding:
            return [self.embedding]
        found = self.embeddings
        return found.float if isinstance(found, _ByType) else found or []


def is_cohere(model: str) -> bool:
    return "cohere." in model


def most(model: str) -> int:
    """How many texts one request can have."""
    return 96 if is_cohere(model) else 1


def invoke_body(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    if is_cohere(model):
        body: dict[str, Any] = {"texts": texts, "input_type": "search_document", "embedding_types": ["float"]}
        return body if dimensions is None else {**body, "output_dimension": dimensions}
    body = {"inputText": texts[0]}
    return body if dimensions is None else {**body, "dimensions": dimensions}
