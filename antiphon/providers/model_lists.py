"""The list of an upstream's models: their names, and what it says of each.

No two servers use the same fields, and most say little. A fact that cannot be read is unknown.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, get_args

from antiphon.config import Modality, ModelFacts, Prices
from antiphon.providers.base import Provider, UpstreamError
from antiphon.providers.queries import objects

ModelList = dict[str, ModelFacts]
"""Each model's name, and what is said of it."""

_FRESH: Final = 60.0
_LIST_TIMEOUT: Final = 2.0
_MOST_TOKENS: Final = 2**40
_MODALITIES: Final[tuple[Modality, ...]] = get_args(Modality)
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class ModelNames:
    """An upstream's models, or why there are none, asked for at most once a minute."""

    def __init__(self, fetch: Callable[[], Awaitable[ModelList]]) -> None:
        self._fetch = fetch
        self._models: ModelList = {}
        self._failure: UpstreamError | None = None
        self._until = 0.0

    async def names(self) -> list[str]:
        if time.monotonic() >= self._until:
            try:
                self._models, self._failure = await self._fetch(), None
            except UpstreamError as error:
                self._failure = error
            self._until = time.monotonic() + _FRESH
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return list(self._models)

    def facts(self, model: str) -> ModelFacts | None:
        """What the list last said of a model."""
        return self._models.get(model)


def parse_model_list(
    models: object, key: str = "id", read: Callable[[Mapping[str, Any]], ModelFacts] | None = None
) -> ModelList:
    """Read a list of objects, each a model with its name under `key`."""
    reading = read or of_chat
    return {name: reading(one) for one in objects(models) if isinstance(name := one.get(key), str) and name}


def of_chat(one: Mapping[str, Any]) -> ModelFacts:
    """An entry of a list like OpenAI's, as OpenRouter, Groq, Mistral, vLLM, llama.cpp and others have it."""
    best, design, meta = (_table(one, key) for key in ("top_provider", "architecture", "meta"))
    can = _table(one, "capabilities")
    parameters = one.get("supported_parameters")
    parameters = parameters if isinstance(parameters, list) else None
    return ModelFacts(
        context_window=_first(
            one.get("context_length"),
            one.get("context_window"),
            one.get("max_context_length"),
            one.get("max_model_len"),
            meta.get("n_ctx"),
        ),
        output_limit=_first(best.get("max_completion_tokens"), one.get("max_completion_tokens")),
        input_modalities=modalities(design.get("input_modalities")) or _seeing(can.get("vision")),
        tools=_flag(can.get("function_calling"), parameters, "tools"),
        json_schema=_flag(None, parameters, "structured_outputs"),
        reasoning_levels=_efforts(one, parameters),
        prices=_prices(_table(one, "pricing")),
    )


def of_anthropic(one: Mapping[str, Any]) -> ModelFacts:
    can = _table(one, "capabilities")
    seen: set[Modality] | None = None
    if "image_input" in can and "pdf_input" in can:
        seen = {"text"}
        seen |= {"image"} if _is_supported(can, "image_input") else set()
        seen |= {"file"} if _is_supported(can, "pdf_input") else set()
    efforts = _table(can, "effort")
    levels = tuple(name for name in _EFFORTS if _is_supported(efforts, name)) if efforts else None
    return ModelFacts(
        context_window=_first(one.get("max_input_tokens")),
        output_limit=_first(one.get("max_tokens")),
        input_modalities=frozenset(seen) if seen else None,
        json_schema=_is_supported(can, "structured_outputs") if "structured_outputs" in can else None,
        reasoning_levels=levels or None,
    )


def of_gemini(one: Mapping[str, Any]) -> ModelFacts:
    return ModelFacts(
        context_window=_first(one.get("inputTokenLimit")),
        output_limit=_first(one.get("outputTokenLimit")),
        reasoning_levels=() if one.get("thinking") is False else None,
    )


def of_bedrock(one: Mapping[str, Any]) -> ModelFacts:
    """Its list has pictures and speech; documents are read for any model that takes text."""
    said = modalities(one.get("inputModalities"))
    return ModelFacts(input_modalities=said | {"file"} if said else None)


def modalities(said: object) -> frozenset[Modality] | None:
    """What a model takes, in our words; None when the list does not say."""
    if not isinstance(said, list):
        return None
    words = {str(word).lower() for word in said}
    words |= {"audio"} if "speech" in words else set()
    return frozenset(word for word in _MODALITIES if word in words) or None


def _seeing(vision: object) -> frozenset[Modality] | None:
    """A list that only says whether a model sees; it says nothing of files."""
    if not isinstance(vision, bool):
        return None
    return frozenset({"text", "file", "image"}) if vision else frozenset({"text", "file"})


def _flag(said: object, parameters: Sequence[Any] | None, name: str) -> bool | None:
    if isinstance(said, bool):
        return said
    return name in parameters if parameters is not None else None


def _efforts(one: Mapping[str, Any], parameters: Sequence[Any] | None) -> tuple[str, ...] | None:
    """The efforts that the list allows, least first; without the parameter, the model does not reason."""
    allowed = _table(one, "reasoning").get("supported_efforts")
    if isinstance(allowed, list):
        return tuple(name for name in _EFFORTS if name in allowed)
    return () if parameters is not None and "reasoning" not in parameters else None


def _prices(pricing: Mapping[str, Any]) -> Prices | None:
    """USD for one token, as text; less than nothing means that it depends on who answers."""
    given, said = _rate(pricing.get("prompt")), _rate(pricing.get("completion"))
    if given is None or said is None:
        return None
    read, written = _rate(pricing.get("input_cache_read")), _rate(pricing.get("input_cache_write"))
    return Prices(input=given, cached_input=read, cache_write=written, output=said)


def _rate(said: object) -> float | None:
    try:
        rate = float(said) if isinstance(said, str) else -1.0
    except ValueError:
        return None
    return round(rate * 1_000_000, 9) if 0 <= rate <= 1000 else None


def _is_supported(can: Mapping[str, Any], name: str) -> bool:
    return _table(can, name).get("supported") is True


def _first(*said: object) -> int | None:
    """The first that is a number of tokens."""
    numbers = (one for one in said if isinstance(one, int) and not isinstance(one, bool))
    return next((one for one in numbers if 0 < one <= _MOST_TOKENS), None)


def _table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


class ModelLists:
    """The models of all providers, each asked once at a time; a late answer is kept for the next question."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self._asked: dict[str, asyncio.Task[list[str]]] = {}

    async def list_models(self, without: Collection[str] = ()) -> dict[str, list[str]]:
        """The models of each provider that has answered in time."""
        asked = [name for name in self._providers if name not in without]
        for name in asked:
            if name not in self._asked:
                self._asked[name] = asyncio.create_task(_ask_for_models(self._providers[name]))
        tasks = {name: self._asked[name] for name in asked}
        if not tasks:
            return {}
        done, _ = await asyncio.wait(tasks.values(), timeout=_LIST_TIMEOUT)
        found = {name: task.result() for name, task in tasks.items() if task in done}
        for name in found:
            self._asked.pop(name, None)
        return found

    async def close(self) -> None:
        for task in self._asked.values():
            task.cancel()
        if self._asked:
            await asyncio.wait(self._asked.values())


async def _ask_for_models(provider: Provider) -> list[str]:
    try:
        return await provider.models()
    except Exception:  # a provider that cannot list its models can still serve them
        return []
