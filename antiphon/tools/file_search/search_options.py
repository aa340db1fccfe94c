"""What a request may say about a search and about chunks, checked."""

from typing import Any

from msgspec import Struct

from antiphon.spec.errors import SpecError, invalid_param
from antiphon.tools.file_search.chunking import Chunking

MOST_RESULTS = 50
RANKERS = ("auto", "none", "default-2024-11-15", "default_2024_08_21")
CHUNK_SIZES = range(100, 4097)
"""In tokens."""
MAX_ATTRIBUTES, MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE = 16, 64, 512
MAX_QUERIES, MAX_QUERY = 8, 4096


class Ranking(Struct, frozen=True):
    score_threshold: float = 0.0
    embedding_weight: float = 1.0
    text_weight: float = 1.0


def wrong(param: str, message: str) -> SpecError:
    return SpecError(invalid_param(param, message).with_code("invalid_value"))


def results_of(given: Any, param: str, usual: int) -> int:
    if given is None:
        return usual
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_RESULTS:
        raise wrong(param, f"expected a number from 1 to {MOST_RESULTS}")
    return given


def ranking_of(given: Any, param: str) -> Ranking:
    if given is None:
        return Ranking()
    fields = _object(given, param)
    if fields.get("ranker") not in (None, *RANKERS):
        raise wrong(f"{param}.ranker", f"expected one of {', '.join(RANKERS)}")
    least = fields.get("score_threshold")
    threshold = 0.0 if least is None else _number(least, f"{param}.score_threshold", most=1)
    if fields.get("hybrid_search") is None:
        return Ranking(threshold)
    where = f"{param}.hybrid_search"
    weights = _object(fields["hybrid_search"], where)
    meaning, text = (
        _number(weights.get(name), f"{where}.{name}") for name in ("embedding_weight", "text_weight")
    )
    if not meaning + text:
        raise wrong(where, "one of the weights has to be more than 0")
    return Ranking(threshold, meaning, text)


def chunking_of(given: Any, param: str) -> Chunking:
    if given is None:
        return Chunking()
    fields = _object(given, param)
    if fields.get("type") == "auto":
        return Chunking()
    if fields.get("type") != "static":
        raise wrong(f"{param}.type", "expected 'auto' or 'static'")
    where = f"{param}.static"
    sizes = _object(fields.get("static"), where)
    size, overlap = (_whole(sizes.get(f"{name}_tokens")) for name in ("max_chunk_size", "chunk_overlap"))
    if size is None or size not in CHUNK_SIZES:
        message = f"expected a number from {CHUNK_SIZES.start} to {CHUNK_SIZES.stop - 1}"
        raise wrong(f"{where}.max_chunk_size_tokens", message)
    if overlap is None or not 0 <= overlap <= size // 2:
        raise wrong(f"{where}.chunk_overlap_tokens", "expected a number from 0 to half of the chunk's size")
    return Chunking(size, overlap)


def attributes_of(given: Any, param: str) -> dict[str, Any]:
    if given is None:
        return {}
    fields = _object(given, param)
    if len(fields) > MAX_ATTRIBUTES:
        raise wrong(param, f"a file has {MAX_ATTRIBUTES} attributes at most")
    for name, value in fields.items():
        if len(name) > MAX_ATTRIBUTE_NAME:
            raise wrong(param, f"the name of an attribute has {MAX_ATTRIBUTE_NAME} characters at most")
        is_short = not isinstance(value, str) or len(value) <= MAX_ATTRIBUTE
        if not isinstance(value, str | int | float | bool) or not is_short:
            message = f"expected a number, a boolean, or a text of {MAX_ATTRIBUTE} characters at most"
            raise wrong(f"{param}.{name}", message)
    return fields


def _whole(given: Any) -> int | None:
    """A whole number, which JSON may also write as `100.0`."""
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given // 1:
        return None
    return int(given)


def _object(given: Any, param: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise wrong(param, "expected an object")
    return given


def _number(given: Any, param: str, most: float = 1e6) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= most:
        raise wrong(param, f"expected a number from 0 to {most:g}")
    return float(given)
