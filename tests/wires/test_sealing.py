"""Sealed blobs: only for the same tenant and purpose, and only untouched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.wires.sealing import Seal, SealBroken

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


@given(st.binary(max_size=200), st.text(max_size=20))
def test_what_is_sealed_opens_again(content: bytes, tenant: str) -> None:
    seal = Seal([KEY])
    blob = seal.seal(content, tenant=tenant, purpose="p")
    assert seal.open(blob, tenant=tenant, purpose="p") == content


@given(st.data())
def test_a_changed_blob_never_opens(data: st.DataObject) -> None:
    seal = Seal([KEY])
    blob = seal.seal(b"secret", tenant="a", purpose="p")
    position = data.draw(st.integers(0, len(blob) - 3))
    letter = data.draw(st.characters(codec="ascii").filter(lambda c: c != blob[position]))
    with pytest.raises(SealBroken):
        seal.open(blob[:position] + letter + blob[position + 1 :], tenant="a", purpose="p")


@pytest.mark.parametrize(("tenant", "purpose"), [("b", "p"), ("a", "q"), ("a:p", "")])
def test_a_blob_is_bound_to_tenant_and_purpose(tenant: str, purpose: str) -> None:
    blob = Seal([KEY]).seal(b"x", tenant="a", purpose="p")
    with pytest.raises(SealBroken):
        Seal([KEY]).open(blob, tenant=tenant, purpose=purpose)


def test_an_older_key_still_opens_after_rotation() -> None:
    blob = Seal([OTHER]).seal(b"x", tenant="", purpose="p")
    assert Seal([KEY, OTHER]).open(blob, tenant="", purpose="p") == b"x"
    with pytest.raises(SealBroken, match="key"):
        Seal([KEY]).open(blob, tenant="", purpose="p")


@pytest.mark.parametrize("blob", ["", "garbage", "v1.", "v1.!!!", "v1.AAAA"])
def test_garbage_is_refused(blob: str) -> None:
    with pytest.raises(SealBroken):
        Seal([KEY]).open(blob, tenant="", purpose="p")
