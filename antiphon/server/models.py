"""Lists the models of all providers, with a short time limit for each."""

import asyncio
from collections.abc import Collection, Mapping

from antiphon.providers.base import Provider

_PATIENCE = 2.0


class ModelLists:
    """One question to a provider at a time; an answer that comes too late is there for the next who asks."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self._asked: dict[str, asyncio.Task[list[str]]] = {}

    async def listed(self, without: Collection[str] = ()) -> dict[str, list[str]]:
        """The models of each provider that has answered in time."""
        asked = [name for name in self._providers if name not in without]
        for name in asked:
            if name not in self._asked:
                self._asked[name] = asyncio.create_task(_ask(self._providers[name]))
        tasks = {name: self._asked[name] for name in asked}
        if not tasks:
            return {}
        done, _ = await asyncio.wait(tasks.values(), timeout=_PATIENCE)
        found = {name: task.result() for name, task in tasks.items() if task in done}
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
