"""Sessions of browsers: found by their digest until they end."""

from __future__ import annotations

from antiphon.store import BrowserSession, Store
from tests.store.conformance.values import Open

ONE = BrowserSession("digest-1", "alice", "key-digest", 100)


class Sessions:
    async def test_a_session_is_found_by_its_digest_until_it_is_deleted(
        self, store: Store, open_store: Open
    ) -> None:
        await store.create_session(ONE)
        for reader in (store, await open_store()):
            assert await reader.session("digest-1") == ONE
            assert await reader.session("digest-2") is None
        assert await store.delete_session("digest-1")
        assert not await store.delete_session("digest-1")
        assert await store.session("digest-1") is None

    async def test_a_session_that_has_expired_is_pruned(self, store: Store) -> None:
        await store.create_session(ONE)
        assert await store.prune(99) == 0
        assert await store.prune(100) == 1
        assert await store.session("digest-1") is None
