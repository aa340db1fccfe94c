"""Looks models up for `antiphon models show`: their providers are asked for their lists, all at once."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from antiphon.catalogue import Catalogue, ModelInfo
from antiphon.config import Config, Target
from antiphon.providers.base import Environment, Provider, UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import create_provider

_PATIENCE: Final = 5.0


def look_up(config: Config, targets: Sequence[Target]) -> dict[Target, ModelInfo]:
    return asyncio.run(_look_up(config, targets))


async def _look_up(config: Config, targets: Sequence[Target]) -> dict[Target, ModelInfo]:
    http = UpstreamClient()
    environment = Environment(http=http, timeouts=config.timeouts, local=config.local, folder=Path())
    used = {target.provider for target in targets}
    providers = {
        name: create_provider(settings, environment)
        for name, settings in config.providers.items()
        if name in used and not settings.disabled
    }
    try:
        await asyncio.gather(*(_ask(provider) for provider in providers.values()))
        catalogue = Catalogue(config, providers)
        await catalogue.load()
        return {target: catalogue.lookup(*target) for target in targets}
    finally:
        for provider in providers.values():
            await provider.close()
        await http.close()


async def _ask(provider: Provider) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await provider.models()
        return
    except UpstreamError as error:
        why = str(error)
    except TimeoutError:
        why = f"no answer within {_PATIENCE:g} seconds"
    print(f"antiphon: the list of {provider.name} did not come: {why}", file=sys.stderr)
