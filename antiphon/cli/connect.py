"""`antiphon config check --connect`: every provider is asked for its models, all at once."""

import asyncio
from pathlib import Path
from typing import Final, NamedTuple

from antiphon.config import Config, ConfigErrors
from antiphon.providers.base import Environment, UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import create_provider

_PATIENCE: Final = 10.0


class _Answer(NamedTuple):
    provider: str
    says: str
    failed: bool = False


async def ask_all(config: Config) -> list[_Answer]:
    """One answer for each provider, within ten seconds."""
    http = UpstreamClient()
    environment = Environment(http=http, timeouts=config.timeouts, local=config.local, folder=Path())
    try:
        return await asyncio.gather(*(_ask(config, name, environment) for name in config.providers))
    finally:
        await http.close()


async def _ask(config: Config, name: str, environment: Environment) -> _Answer:
    settings = config.providers[name]
    if settings.disabled:
        return _Answer(name, f"disabled: {settings.disabled}")
    try:
        provider = create_provider(settings, environment)
        try:
            async with asyncio.timeout(_PATIENCE):
                models = await provider.models()
        finally:
            await provider.close()
    except ConfigErrors as errors:
        return _Answer(name, f"failed: {errors}", failed=True)
    except UpstreamError as error:
        return _Answer(name, f"failed: {error}", failed=True)
    except TimeoutError:
        return _Answer(name, f"failed: no answer within {_PATIENCE:g} seconds", failed=True)
    count = len(models)
    return _Answer(name, "1 model" if count == 1 else f"{count} models" if count else "lists no models")
