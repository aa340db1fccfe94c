"""Asks providers for their models, for `antiphon config check --connect` and `antiphon models show`."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from antiphon.catalogue import Catalogue, ModelInfo
from antiphon.config import Config, ConfigErrors, Target
from antiphon.providers.base import Environment, Provider, UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import create_provider

_CONNECT_TIMEOUT: Final = 10.0
_LIST_TIMEOUT: Final = 5.0


class _Answer(NamedTuple):
    provider: str
    says: str
    failed: bool = False


async def check_providers(config: Config) -> list[_Answer]:
    """Asks every provider, and returns an answer for each within ten seconds."""
    http = UpstreamClient()
    environment = _environment(config, http)
    try:
        return await asyncio.gather(*(_check(config, name, environment) for name in config.providers))
    finally:
        await http.close()


def look_up(config: Config, targets: Sequence[Target]) -> dict[Target, ModelInfo]:
    """Asks the providers of the targets, and returns the known facts about each model."""
    return asyncio.run(_look_up(config, targets))


def _environment(config: Config, http: UpstreamClient) -> Environment:
    return Environment(http=http, timeouts=config.timeouts, local=config.local, folder=Path())


async def _check(config: Config, name: str, environment: Environment) -> _Answer:
    settings = config.providers[name]
    if settings.disabled:
        return _Answer(name, f"disabled: {settings.disabled}")
    try:
        provider = create_provider(settings, environment)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                models = await provider.models()
        finally:
            await provider.close()
    except ConfigErrors as errors:
        return _Answer(name, f"failed: {errors}", failed=True)
    except UpstreamError as error:
        return _Answer(name, f"failed: {error}", failed=True)
    except TimeoutError:
        return _Answer(name, f"failed: no answer within {_CONNECT_TIMEOUT:g} seconds", failed=True)
    count = len(models)
    return _Answer(name, "1 model" if count == 1 else f"{count} models" if count else "lists no models")


async def _look_up(config: Config, targets: Sequence[Target]) -> dict[Target, ModelInfo]:
    http = UpstreamClient()
    environment = _environment(config, http)
    used = {target.provider for target in targets}
    providers = {
        name: create_provider(settings, environment)
        for name, settings in config.providers.items()
        if name in used and not settings.disabled
    }
    try:
        await asyncio.gather(*(_load_models(provider) for provider in providers.values()))
        catalogue = Catalogue(config, providers)
        await catalogue.load()
        return {target: catalogue.lookup(*target) for target in targets}
    finally:
        for provider in providers.values():
            await provider.close()
        await http.close()


async def _load_models(provider: Provider) -> None:
    try:
        async with asyncio.timeout(_LIST_TIMEOUT):
            await provider.models()
        return
    except UpstreamError as error:
        why = str(error)
    except TimeoutError:
        why = f"no answer within {_LIST_TIMEOUT:g} seconds"
    print(f"antiphon: {provider.name} did not list its models: {why}", file=sys.stderr)
