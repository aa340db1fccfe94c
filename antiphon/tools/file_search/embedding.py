"""Vectors of texts, from the configured embedding model, and the nearest of them."""

import sys
from array import array
from collections.abc import Sequence
from importlib.util import find_spec

import msgspec

from antiphon.config import UnknownModel
from antiphon.providers.base import EmbeddingTask, Embeds, UpstreamError
from antiphon.store import Vectors
from antiphon.tools.base import ToolEnvironment, Upstreams
from antiphon.wires.worker_thread import in_worker_thread

_BATCH = 64


class EmbeddingFailed(Exception):
    """The embedding model gave no vectors; the message says why, without any text."""


class Embedder:
    """The model with this name; a name that cannot be one is a `ValueError`."""

    def __init__(self, model: str, environment: ToolEnvironment) -> None:
        self.model = model
        try:
            target = environment.config.resolve(model)
        except UnknownModel as unknown:
            raise ValueError(str(unknown)) from None
        if find_spec("numpy") is None:
            raise ValueError("vectors are compared with numpy: pip install 'antiphon[vectors]'")
        self._target = target
        provider: object = environment.providers.get(target.provider)
        self._is_disabled = provider is None
        if provider is not None and not isinstance(provider, Embeds):
            raise ValueError(f"the provider {target.provider!r} has no embeddings")

    async def vectors(self, texts: Sequence[str], upstreams: Upstreams) -> list[bytes]:
        """A vector for each text: numbers of four bytes each, little-endian."""
        if self._is_disabled:
            name = self._target.provider
            raise EmbeddingFailed(f"the provider {name!r} of the embedding model is disabled")
        found: list[bytes] = []
        for n in range(0, len(texts), _BATCH):
            task = EmbeddingTask(self._target.upstream_model, list(texts[n : n + _BATCH]))
            try:
                embedded = await upstreams.embed(self._target, task)
            except UpstreamError as error:
                raise EmbeddingFailed(f"the embedding model did not answer ({error.payload.code})") from None
            found += await in_worker_thread(_pack, embedded.vectors)
        if len(found) != len(texts) or len({len(one) for one in found}) > 1:
            raise EmbeddingFailed("the embedding model gave vectors that do not belong together")
        return found


def _pack(vectors: Sequence[msgspec.Raw]) -> list[bytes]:
    packed = []
    for raw in vectors:
        numbers = array("f", msgspec.json.decode(raw, type=list[float]))
        if sys.byteorder != "little":
            numbers.byteswap()
        packed.append(numbers.tobytes())
    return packed


def nearest(asked: bytes, vectors: Vectors, limit: int) -> list[int]:
    """The keys of the nearest vectors by the angle between them, the nearest first."""
    import numpy as np

    if not vectors.keys or len(vectors.data) != len(asked) * len(vectors.keys):
        return []
    table = np.frombuffer(vectors.data, dtype="<f4").reshape(len(vectors.keys), -1)
    query = np.frombuffer(asked, dtype="<f4")
    lengths = np.linalg.norm(table, axis=1) * np.linalg.norm(query)
    likeness = table @ query / np.where(lengths > 0, lengths, 1)
    order = np.argsort(-likeness, kind="stable")[:limit]
    return [vectors.keys[n] for n in order]
