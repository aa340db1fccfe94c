"""What expires, how large it all is, and the export."""

from __future__ import annotations

import json

from antiphon.store import Append, NewResponse, Store, StoredConversation
from tests.store.conformance.values import Open, chain, item, response, running, said


class Retention:
    async def test_what_has_expired_is_pruned(self, store: Store, open_store: Open) -> None:
        root = await chain(store, "keep")
        await store.save(response("old", root, expires_at=100))
        await store.save(response("new", await store.context("acme", "old"), expires_at=300))
        await store.save(running("busy", expires_at=100))
        for n in range(450):
            await store.save(response(f"x{n}", expires_at=100))
        await store.create_conversation(StoredConversation("c1", "acme", b"{}", 1, 100), [item("a")])
        await store.create_conversation(StoredConversation("c2", "acme", b"{}", 1, 100))
        await store.add_items("acme", Append("c2", [item("b")], expires_at=300))
        assert await store.prune(99) == 0
        assert await store.prune(200) == 452
        assert await store.prune(200) == 0
        for reader in (store, await open_store()):
            assert await reader.context("acme", "old") is None
            assert said(await reader.context("acme", "new"))[2:4] == ["old_in", "old_out"]
            assert await reader.get("acme", "busy") is not None
            assert await reader.conversation("acme", "c1") is None
            assert await reader.conversation("acme", "c2") is not None
        size = await store.size()
        assert (size.responses, size.conversations) == (3, 1)

    async def test_the_size_is_counted(self, store: Store) -> None:
        await chain(store, "r1", "r2")
        await store.save(running("bg"))
        await store.append_events("bg", "w1", 0, [b"{}"] * 5)
        await store.delete("acme", "r1")
        size = await store.size()
        assert (size.responses, size.conversations, size.events) == (2, 0, 5)
        assert size.bytes > 1000

    async def test_everything_is_exported(self, store: Store) -> None:
        for n in range(210):
            await store.save(response(f"r{n}", tenant="acme" if n % 2 else "other"))
        pretty = b'{\n  "id": "p"\n}'
        await store.save(NewResponse("p", "acme", "completed", "m", 1, pretty, item("p_in").data))
        await store.create_conversation(
            StoredConversation("c1", "acme", b'{"k":"v"}', 7), [item("a"), item("b")]
        )
        lines = [json.loads(line) async for line in store.export()]
        assert [line["id"] for line in lines] == [*(f"r{n}" for n in range(210)), "p", "c1"]
        assert lines[0] == {
            "type": "response",
            "tenant": "other",
            "id": "r0",
            "status": "completed",
            "model": "tiny",
            "created_at": 1000,
            "expires_at": None,
            "background": False,
            "input": [{"id": "r0_in", "text": "r0_in"}],
            "body": {"id": "r0", "output": [{"id": "r0_out", "text": "r0_out"}], "model": "tiny"},
        }
        assert lines[-1]["items"] == [json.loads(item("a").data), json.loads(item("b").data)]
        assert lines[-1]["metadata"] == {"k": "v"}
        acme = [line async for line in store.export("acme")]
        assert len(acme) == 107
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in acme)
