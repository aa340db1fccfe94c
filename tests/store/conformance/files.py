"""Files and vector stores: what is uploaded, what is found in it, and that it all belongs to one tenant."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from antiphon.store import FileChunk, IndexedFile, Store, UnknownCursor, UploadedFile, VectorStore
from tests.store.conformance.values import Open

QUOTA = 1000


def file(id: str, tenant: str = "alice", **fields: Any) -> UploadedFile:
    usual: dict[str, Any] = {"purpose": "user_data", "bytes": 10, "digest": f"digest-{id}", "created_at": 1}
    return UploadedFile(id, tenant, f"{id}.txt", **(usual | fields))


def collection(id: str, tenant: str = "alice", **fields: Any) -> VectorStore:
    return VectorStore(id, tenant, f"name of {id}", b"{}", 1, 1, **fields)


def indexed(file: str, **fields: Any) -> IndexedFile:
    return IndexedFile(file, f"{file}.txt", b'{"year":2026}', 5, 800, 400, **fields)


def vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


async def filled(store: Store, tenant: str = "alice", mark: str = "") -> tuple[str, str]:
    """A vector store with one file in it, which has three chunks."""
    name, one = f"vs{mark}", f"f{mark}"
    await store.add_vector_store(collection(name, tenant))
    assert await store.add_file(file(one, tenant), QUOTA)
    texts = ["The cat sat on the mat.", "A dog barked at the cats, all the cats.", "Nothing here."]
    chunks = [FileChunk(text, vector(n, 1)) for n, text in enumerate(texts)]
    assert await store.index_file(tenant, name, indexed(one, usage_bytes=80, embedding="p/m"), chunks)
    return name, one


class Files:
    async def test_a_file_is_its_tenants_alone(self, store: Store, open_store: Open) -> None:
        assert await store.add_file(file("f1", expires_at=50), QUOTA)
        for reader in (store, await open_store()):
            assert await reader.file("alice", "f1") == file("f1", expires_at=50)
            assert await reader.file("bob", "f1") is None
            assert (await reader.files("bob")).files == ()
        assert not await store.delete_file("bob", "f1")
        assert await store.delete_file("alice", "f1")
        assert not await store.delete_file("alice", "f1")
        assert await store.file("alice", "f1") is None

    async def test_files_are_listed_in_pages(self, store: Store) -> None:
        for n in range(5):
            await store.add_file(file(f"f{n}", purpose="vision" if n == 3 else "user_data"), QUOTA)
        page = await store.files("alice", limit=2)
        assert ([one.id for one in page.files], page.more) == (["f4", "f3"], True)
        page = await store.files("alice", limit=3, after="f3")
        assert ([one.id for one in page.files], page.more) == (["f2", "f1", "f0"], False)
        page = await store.files("alice", after="f1", newest_first=False, purpose="user_data")
        assert [one.id for one in page.files] == ["f2", "f4"]
        with pytest.raises(UnknownCursor):
            await store.files("alice", after="nothing")
        with pytest.raises(UnknownCursor):
            await store.files("bob", after="f1")

    async def test_a_quota_is_for_all_files_of_one_tenant(self, store: Store) -> None:
        assert await store.add_file(file("f1", bytes=600), QUOTA)
        assert not await store.add_file(file("f2", bytes=401), QUOTA)
        assert await store.file("alice", "f2") is None
        assert await store.add_file(file("f3", "bob", bytes=1000), QUOTA)
        assert await store.add_file(file("f4", bytes=400), QUOTA)
        await store.delete_file("alice", "f1")
        assert await store.add_file(file("f5", bytes=600), QUOTA)

    async def test_contents_are_used_as_long_as_a_file_has_them(self, store: Store) -> None:
        await store.add_file(file("f1", digest="same"), QUOTA)
        await store.add_file(file("f2", "bob", digest="same"), QUOTA)
        assert await store.used_contents(["same", "other"]) == {"same"}
        await store.delete_file("alice", "f1")
        assert await store.used_contents(["same"]) == {"same"}
        await store.delete_file("bob", "f2")
        assert await store.used_contents(["same"]) == set()

    async def test_files_and_vector_stores_that_have_expired_are_pruned(self, store: Store) -> None:
        await filled(store)
        await store.add_file(file("f9", expires_at=100), QUOTA)
        await store.index_file("alice", "vs", indexed("f9"), [FileChunk("zebra")])
        await store.add_vector_store(collection("old", days=1, expires_at=100))
        assert await store.prune(99) == 0
        assert await store.prune(100) == 2
        assert await store.file("alice", "f9") is None
        assert await store.match_chunks("alice", "vs", ["zebra"], ["f9"], 5) == []
        assert await store.vector_store("alice", "old") is None
        assert (await store.files("alice")).files == (file("f"),)

    async def test_a_vector_store_is_kept_changed_and_deleted(self, store: Store, open_store: Open) -> None:
        await store.add_vector_store(collection("v1"))
        other = await open_store()
        assert await other.vector_store("alice", "v1") == collection("v1")
        assert await other.vector_store("bob", "v1") is None
        changed = VectorStore("v1", "alice", "new", b'{"a":"b"}', 1, 7, 2, 9)
        assert await store.edit_vector_store(changed)
        assert not await store.edit_vector_store(VectorStore("v1", "bob", "new", b"{}", 1, 7))
        assert await store.vector_store("alice", "v1") == changed
        assert await store.touch_vector_store("alice", "v1", 100)
        assert not await store.touch_vector_store("bob", "v1", 200)
        touched = await store.vector_store("alice", "v1")
        assert touched is not None
        assert (touched.last_active_at, touched.expires_at) == (100, 100 + 2 * 86400)
        await store.add_vector_store(collection("v2"))
        assert await store.touch_vector_store("alice", "v2", 100)
        forever = await store.vector_store("alice", "v2")
        assert forever is not None
        assert forever.expires_at is None
        page = await store.vector_stores("alice", limit=1)
        assert ([one.id for one in page.stores], page.more) == (["v2"], True)
        page = await store.vector_stores("alice", after="v2")
        assert ([one.id for one in page.stores], page.more) == (["v1"], False)
        assert not await store.delete_vector_store("bob", "v1")
        assert await store.delete_vector_store("alice", "v1")
        assert not await store.delete_vector_store("alice", "v1")

    async def test_a_file_in_a_vector_store_is_counted(self, store: Store) -> None:
        name, one = await filled(store)
        await store.add_file(file("f2"), QUOTA)
        failed = indexed("f2", error_code="invalid_file", error="It is broken.")
        assert await store.index_file("alice", name, failed, [])
        found = await store.vector_store("alice", name)
        assert found is not None
        assert (found.completed, found.failed, found.usage_bytes) == (1, 1, 80)
        assert await store.indexed_file("alice", name, "f2") == failed
        assert await store.indexed_file("bob", name, "f2") is None
        listed = await store.indexed_files("alice", name, limit=1)
        assert ([each.file for each in listed.files], listed.more) == (["f2"], True)
        listed = await store.indexed_files("alice", name, after="f2")
        assert [each.file for each in listed.files] == [one]
        for status, files in (("completed", [one]), ("failed", ["f2"])):
            page = await store.indexed_files("alice", name, status=status)
            assert [each.file for each in page.files] == files
        with pytest.raises(UnknownCursor):
            await store.indexed_files("alice", name, after="nothing")
        assert await store.file_attributes("alice", name) == {one: ("f.txt", b'{"year":2026}')}
        assert await store.file_attributes("bob", name) == {}

    async def test_a_file_is_indexed_only_where_both_are_the_tenants(self, store: Store) -> None:
        name, one = await filled(store)
        await filled(store, "bob", "b")
        for tenant, where, which in (
            ("bob", name, one),
            ("bob", name, "fb"),
            ("bob", "vsb", one),
            ("alice", "vsb", one),
            ("alice", "nothing", one),
            ("alice", name, "nothing"),
        ):
            assert not await store.index_file(tenant, where, indexed(which), [FileChunk("stolen")])
        assert await store.match_chunks("bob", "vsb", ["stolen"], ["fb", one], 5) == []

    async def test_chunks_are_found_by_their_words(self, store: Store, open_store: Open) -> None:
        name, one = await filled(store)
        for reader in (store, await open_store()):
            found = await reader.match_chunks("alice", name, ["cat"], [one], 5)
            assert [chunk.text[:5] for chunk in found] == ["A dog", "The c"]
            assert {chunk.file for chunk in found} == {one}
            assert len(await reader.match_chunks("alice", name, ["cat"], [one], 1)) == 1
            assert await reader.match_chunks("alice", name, ["cat"], [], 5) == []
            assert await reader.match_chunks("alice", name, [], [one], 5) == []
            assert await reader.match_chunks("bob", name, ["cat"], [one], 5) == []
            keys = [chunk.key for chunk in found]
            assert await reader.chunks("alice", name, keys[::-1]) == found[::-1]
            assert await reader.chunks("bob", name, keys) == []

    @pytest.mark.parametrize("word", ['"', "cat OR", "NEAR(", "text:cat*", "-", "\0", "*", "a AND b", "^"])
    async def test_no_word_is_an_operator(self, store: Store, word: str) -> None:
        name, one = await filled(store)
        await store.match_chunks("alice", name, [word], [one], 5)

    async def test_what_others_wrote_does_not_change_the_order(self, store: Store) -> None:
        """How rare a word is would tell whether another tenant has it."""
        await store.add_vector_store(collection("vs"))
        await store.add_file(file("f"), QUOTA)
        await store.index_file(
            "alice",
            "vs",
            indexed("f"),
            [FileChunk("merger plans"), FileChunk("lunch plans"), FileChunk("lunch tea")],
        )
        before = await store.match_chunks("alice", "vs", ["merger", "lunch"], ["f"], 5)
        await store.add_vector_store(collection("vsb", "bob"))
        await store.add_file(file("fb", "bob"), QUOTA)
        await store.index_file("bob", "vsb", indexed("fb"), [FileChunk("merger") for _ in range(50)])
        assert await store.match_chunks("alice", "vs", ["merger", "lunch"], ["f"], 5) == before

    async def test_vectors_are_those_of_one_model(self, store: Store) -> None:
        name, one = await filled(store)
        found = await store.chunk_vectors("alice", name, "p/m", [one])
        assert found.data == vector(0, 1, 1, 1, 2, 1)
        texts = [chunk.text for chunk in await store.chunks("alice", name, found.keys)]
        assert texts[2] == "Nothing here."
        for tenant, model, files in (
            ("alice", "p/other", [one]),
            ("bob", "p/m", [one]),
            ("alice", "p/m", []),
        ):
            assert (await store.chunk_vectors(tenant, name, model, files)).keys == ()

    async def test_what_is_taken_out_is_not_found(self, store: Store) -> None:
        name, one = await filled(store)
        await store.add_vector_store(collection("second"))
        await store.index_file("alice", "second", indexed(one), [FileChunk("The cat again.")])
        assert not await store.remove_indexed_file("bob", name, one)
        assert await store.remove_indexed_file("alice", name, one)
        assert not await store.remove_indexed_file("alice", name, one)
        assert await store.match_chunks("alice", name, ["cat"], [one], 5) == []
        assert len(await store.match_chunks("alice", "second", ["cat"], [one], 5)) == 1
        await store.delete_file("alice", one)
        assert await store.match_chunks("alice", "second", ["cat"], [one], 5) == []
        assert await store.vector_store("alice", "second") == collection("second")

    async def test_a_file_that_is_indexed_again_replaces_itself(self, store: Store) -> None:
        name, one = await filled(store)
        assert await store.index_file("alice", name, indexed(one), [FileChunk("Only this.")])
        assert await store.match_chunks("alice", name, ["cat"], [one], 5) == []
        assert len(await store.match_chunks("alice", name, ["only"], [one], 5)) == 1
        await store.delete_vector_store("alice", name)
        assert await store.match_chunks("alice", name, ["only"], [one], 5) == []
        assert await store.file("alice", one) is not None
