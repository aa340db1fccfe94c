"""The embeddings of every wire that has them: a fake upstream answers such a request with vectors of its own.

A text becomes `vector_of` it. A body that its wire does not know is a 400.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from openai.types import EmbeddingCreateParams

from tests.providers.typed_dicts import mistakes

Json = dict[str, Any]
Answer = tuple[int, Json]


def vector_of(text: object, dimensions: int | None = None) -> list[float]:
    """Numbers that 32 bits hold."""
    said = text if isinstance(text, str) else json.dumps(text)
    return [len(said) / 2, -0.5, *[0.25] * ((dimensions or 3) - 2)]


def _openai(body: Json) -> Json:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [vector_of(text, body.get("dimensions")) for text in texts]
    data = [{"object": "embedding", "index": n, "embedding": one} for n, one in enumerate(vectors)]
    # Some servers give them in another order.
    return {
        "object": "list",
        "data": data[::-1],
        "model": "m",
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }


def _ollama(body: Json) -> Json:
    vectors = [vector_of(text, body.get("dimensions")) for text in body["input"]]
    return {"model": body["model"], "embeddings": vectors, "prompt_eval_count": 4}


def _gemini(body: Json) -> Json:
    asked = [
        (one["content"]["parts"][0]["text"], one.get("outputDimensionality")) for one in body["requests"]
    ]
    return {"embeddings": [{"values": vector_of(*one)} for one in asked]}


def _vertex(body: Json) -> Json:
    size = body.get("parameters", {}).get("outputDimensionality")
    counted = {"token_count": 2.0, "truncated": False}
    return {
        "predictions": [
            {"embeddings": {"values": vector_of(one["content"], size), "statistics": counted}}
            for one in body["instances"]
        ]
    }


def _bedrock(body: Json) -> Json:
    if "inputText" in body:
        return {"embedding": vector_of(body["inputText"], body.get("dimensions")), "inputTextTokenCount": 2}
    vectors = [vector_of(text, body.get("output_dimension")) for text in body["texts"]]
    return {"embeddings": {"float": vectors}, "id": "x", "response_type": "embeddings_by_type"}


_WIRES: list[tuple[re.Pattern[str], Callable[[Json], Json], set[str]]] = [
    (re.compile(r"(/v1|/openai/(v1|deployments/[^/]+))/embeddings"), _openai, set()),
    (re.compile("/api/embed"), _ollama, {"model", "input", "dimensions", "options", "keep_alive"}),
    (re.compile(".*:batchEmbedContents"), _gemini, {"requests"}),
    (re.compile(".*:predict"), _vertex, {"instances", "parameters"}),
    (
        re.compile("/model/[^/]+/invoke"),
        _bedrock,
        {"inputText", "dimensions", "texts", "input_type", "embedding_types", "output_dimension"},
    ),
]


def embedded(path: str, body: Json) -> Answer | None:
    """The answer to a request for embeddings; None if it is none."""
    for pattern, answer, known in _WIRES:
        if pattern.fullmatch(path):
            wrong = mistakes(body, EmbeddingCreateParams) if not known else sorted(body.keys() - known)
            return (400, {"error": {"message": f"wrong: {wrong}"}}) if wrong else (200, answer(body))
    return None
