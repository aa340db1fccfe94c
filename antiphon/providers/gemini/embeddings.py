"""Embeddings of Gemini: `batchEmbedContents` at its own API, `predict` on Google Cloud."""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct

MOST = 100
"""Texts in one request, at Gemini's own API."""


class _Values(Struct):
    values: Raw


class _Counted(Struct, rename="camel"):
    prompt_token_count: int = 0


class EmbedAnswer(Struct, rename="camel"):
    embeddings: list[_Values]
    usage_metadata: _Counted | None = None

    def vectors(self) -> list[Raw]:
        return [one.values for one in self.embeddings]

    def tokens(self) -> int:
        return self.usage_metadata.prompt_token_count if self.usage_metadata else 0


class _Statistics(Struct):
    token_count: float = 0


class _Predicted(Struct):
    values: Raw
    statistics: _Statistics | None = None


class _Prediction(Struct):
    embeddings: _Predicted


class PredictAnswer(Struct):
    predictions: list[_Prediction]

    def vectors(self) -> list[Raw]:
        return [one.embeddings.values for one in self.predictions]

    def tokens(self) -> int:
        counted = [one.embeddings.statistics for one in self.predictions]
        return int(sum(one.token_count for one in counted if one is not None))


def embed_body(path: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    """`path` is the model's; each text is a request of its own within the batch."""
    more = {} if dimensions is None else {"outputDimensionality": dimensions}
    return {
        "requests": [{"model": path, "content": {"parts": [{"text": text}]}, **more} for text in texts],
    }


def predict_body(texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    more = {} if dimensions is None else {"parameters": {"outputDimensionality": dimensions}}
    return {"instances": [{"content": text} for text in texts], **more}
