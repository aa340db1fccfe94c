"""Lists the models of all providers, with a short time limit for each."""

import asyncio
from collections.abc import Mapping

from antiphon.providers.base import Provider

_PATIENCE = 2.0


class ModelLists:
    """One question to a provider at a time; an answer that comes too late is there for the next who asks."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self._asked: dict[str, asyncio.Task[list[str]]] = {}

    async def listed(self) -> dict[str, list[str]]:
        """The models of each provider that has answered in time."""
        for name, provider in self._providers.items():
            if name not in self._asked:
                self._asked[name] = asyncio.create_task(_ask(provider))
        if not self._asked:
            return {}
        done, _ = await asyncio.wait(self._asked.values(), timeout=_PATIENCE)
        found = {name: task.result() for name, task in self._asked.items() if task in done}
        for name in found:
            self._asked.pop(name, None)
        return found

    async def close(self) -> None:
        for task in self._asked.values():
            task.cancel()
        if self._asked:
            await asyncio.wait(self._asked.values())


async def _ask(provider: Provider) -> list[str]:
    try:
        return await provider.models()
    except Exception:  # a provider that cannot list its models can still serve them
        return []
