"""Settings that change while gateways run: in force here at once, soon in every other worker and machine.

What was changed lies in the store, under a digest of the settings that the gateways were started with. So a
worker that starts later serves what the others do, and the file overrules the store once it is edited.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from antiphon.config import Config, ConfigErrors, replace_models
from antiphon.store import Store, StoreError

log = logging.getLogger("antiphon.server")

_POLL = 0.5
"""Seconds between two looks where other processes cannot tell this one that something has changed."""
_decode = msgspec.json.Decoder(dict[str, tuple[str, ...]]).decode


class SettingsChanges:
    """Follows what is changed here or elsewhere. `open` it before the first run, `close` it at the end."""

    def __init__(self, config: Config, store: Store, use: Callable[[Config], Awaitable[None]]) -> None:
        """`use` brings a configuration in force in this process."""
        self._first = config
        self._store = store
        self._use = use
        self._base = digest_of(config)
        self._version = 0
        self._looking = asyncio.Lock()  # so that an older version is never brought in force after a newer
        self._following: asyncio.Task[None] | None = None

    async def open(self, *, follows: bool) -> None:
        """`follows` says whether other processes may change something."""
        await self.look()
        if follows:
            self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})

    async def change_models(self, models: Mapping[str, Sequence[str]]) -> None:
        """Have all gateways serve these models; `ConfigErrors` if they lead nowhere."""
        replace_models(self._first, models)
        await self._store.change_settings(self._base, msgspec.json.encode(models))
        await self.look()

    async def look(self) -> None:
        """Bring in force what is newer in the store; what fails is tried again by the next look."""
        async with self._looking:
            found = await self._store.changed_settings(self._base)
            if found is None or found[0] <= self._version:
                return
            version, data = found
            try:
                config = replace_models(self._first, _decode(data))
            except (ConfigErrors, msgspec.DecodeError) as error:
                log.error("the models that another gateway has changed cannot be served here: %s", error)
            else:
                await self._use(config)
            self._version = version

    async def _follow(self) -> None:
        is_failing = False
        with self._store.changes.watch(self._base) as watch:
            while True:
                watch.mark_read()
                try:
                    await self.look()
                    is_failing = False
                except StoreError as error:
                    if not is_failing:
                        log.warning("this gateway does not hear of changed settings: %s", error)
                    is_failing = True
                except Exception:
                    # A gateway of another version may have written something else.
                    if not is_failing:
                        log.exception("this gateway does not hear of changed settings")
                    is_failing = True
                await (watch.wait() if self._store.spans_machines else asyncio.sleep(_POLL))


def digest_of(config: Config) -> str:
    """What the settings are known by that a gateway is started with, as far as they can be changed later."""
    facts = msgspec.json.encode([config.default_model, config.models, config.routes])
    return f"settings_{blake2b(facts, digest_size=12).hexdigest()}"
