"""The body of `POST /v1/embeddings`, and its answer: vectors as numbers, or packed in base64."""

from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from sys import byteorder
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from antiphon.spec.codec import QUOTE, encode, extras, first_byte
from antiphon.spec.decode import decode_body
from antiphon.spec.error_paths import wrong
from antiphon.spec.limits import MAX_BODY, MAX_INTEGER, Text
from antiphon.spec.routing import PARAMETER, RouteHint, hint_of
from antiphon.wires.embeddings import Embedded, EmbeddingTask

_MOST = 2048
# A whole number may also be written as `17.0`.
_Token = Annotated[int, Meta(ge=0, le=MAX_INTEGER)] | Annotated[float, Meta(ge=0, le=MAX_INTEGER)]
_Tokens = Annotated[list[_Token], Meta(min_length=1)]


class EmbeddingBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /v1/embeddings`."""

    model: str | None = None
    """A configured name, or `PROVIDER/model`."""
    input: Text | Annotated[list[Text | _Token | _Tokens], Meta(min_length=1)]
    """A text, a list of texts, a list of tokens, or a list of those."""
    dimensions: Annotated[int, Meta(ge=1, le=MAX_INTEGER)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None


class ReadEmbedding(Struct):
    """What is to be embedded, how the answer packs it, and the unknown fields."""

    task: EmbeddingTask
    is_packed: bool
    unknown: list[str]
    hint: RouteHint | None = None
    """What is said about the task, for a route that chooses by it."""


class EmbeddingUsage(Struct):
    prompt_tokens: int
    total_tokens: int


class EmbeddingObject(Struct):
    embedding: Raw
    index: int
    object: Literal["embedding"] = "embedding"


class EmbeddingList(Struct, kw_only=True):
    """One vector for each text, in their order."""

    object: Literal["list"] = "list"
    data: list[EmbeddingObject]
    model: str
    usage: EmbeddingUsage


def read_embedding(body: bytes, *, max_bytes: int = MAX_BODY) -> ReadEmbedding:
    """The body of `POST /v1/embeddings`; the first mistake in it is a `SpecError`."""
    asked = decode_body(EmbeddingBody, body, max_bytes=max_bytes)
    task = EmbeddingTask(asked.model or "", _texts(asked.input), asked.dimensions, asked.user)
    unknown = sorted(extras(asked).keys() - {PARAMETER})
    return ReadEmbedding(task, asked.encoding_format == "base64", unknown, hint_of(asked))


def _texts(given: str | list[str | float | list[float]]) -> Sequence[str] | Sequence[Sequence[int]]:
    if isinstance(given, str):
        return [given]
    tokens = [one for one in given if isinstance(one, int | float)]
    lists = [one for one in given if isinstance(one, list)]
    texts = [one for one in given if isinstance(one, str)]
    if len(tokens) == len(given):
        return [_tokens(tokens)]
    if len(given) not in (len(lists), len(texts)):
        raise wrong("input", "expected a text, a list of texts, a list of tokens, or a list of those")
    if len(given) > _MOST:
        raise wrong("input", f"expected at most {_MOST:,} texts, got {len(given):,}")
    return texts or [_tokens(one) for one in lists]


def _tokens(given: list[float]) -> list[int]:
    if broken := next((one for one in given if one != int(one)), None):
        raise wrong("input", f"expected an integer, got {broken}")
    return [int(one) for one in given]


def encode_embeddings(found: Embedded, model: str, *, is_packed: bool) -> bytes:
    pack = _pack if is_packed else _unpack
    data = [EmbeddingObject(pack(vector), n) for n, vector in enumerate(found.vectors)]
    usage = EmbeddingUsage(found.input_tokens, found.input_tokens)
    return encode(EmbeddingList(data=data, model=model, usage=usage))


def _pack(vector: Raw) -> Raw:
    """As 32-bit floats in base64, the first byte of each the least."""
    if first_byte(vector) == QUOTE:
        return vector
    numbers = array("f", msgspec.json.decode(vector, type=list[float]))
    if byteorder == "big":
        numbers.byteswap()
    return Raw(b'"%b"' % b64encode(numbers.tobytes()))


def _unpack(vector: Raw) -> Raw:
    """As numbers, also where the upstream has packed them unasked."""
    if first_byte(vector) != QUOTE:
        return vector
    numbers = array("f")
    numbers.frombytes(b64decode(msgspec.json.decode(vector, type=str)))
    if byteorder == "big":
        numbers.byteswap()
    return Raw(encode(numbers.tolist()))
