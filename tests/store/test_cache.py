"""The cache keeps what was used last, up to its size."""

from __future__ import annotations

from antiphon.store.cache import Cache


def test_the_least_recently_used_goes_first() -> None:
    cache: Cache[str] = Cache(100)
    for name in "abc":
        cache.put("t", name, name.upper(), 30)
    assert cache.get("t", "a") == "A"
    cache.put("t", "d", "D", 30)
    assert [cache.get("t", name) for name in "abcd"] == ["A", None, "C", "D"]
    assert cache.bytes == 90


def test_replacing_dropping_and_clearing_keep_the_count() -> None:
    cache: Cache[str] = Cache(100)
    cache.put("t", "a", "A", 60)
    cache.put("t", "a", "B", 20)
    assert (cache.get("t", "a"), cache.bytes, len(cache)) == ("B", 20, 1)
    cache.put("t", "huge", "H", 101)
    assert cache.get("t", "huge") is None
    cache.drop("t", "a")
    cache.drop("t", "a")
    assert (cache.bytes, len(cache)) == (0, 0)
    cache.put("t", "a", "A", 50)
    cache.clear()
    assert (cache.bytes, cache.get("t", "a")) == (0, None)


def test_a_tenant_has_its_own_entries() -> None:
    cache: Cache[str] = Cache(100)
    cache.put("acme", "a", "A", 10)
    assert cache.get("evil", "a") is None
