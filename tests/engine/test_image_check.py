"""Pictures in data URLs: what is base64 passes, what is not is refused where it stands."""

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engine.context import check_pictures
from antiphon.spec.content import InputImage, InputText
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Message


def _picture(data: str) -> Message:
    return Message(
        role="user", content=[InputText("What is this?"), InputImage(f"data:image/png;base64,{data}")]
    )


@given(
    st.binary(min_size=1), st.sampled_from([base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
)
def test_bytes_in_base64_pass_however_they_are_written(raw: bytes, write: Callable[[bytes], bytes]) -> None:
    check_pictures([_picture(write(raw).decode()), _picture(write(raw).decode().rstrip("=\n"))])


@pytest.mark.parametrize("data", ["@@@@", "", "iVBORw0KGgo\x00", "iVBORw0KGgé", "iVBO{}", "\ud800AAA"])
def test_a_picture_that_is_no_base64_is_refused(data: str) -> None:
    with pytest.raises(SpecError) as caught:
        check_pictures([Message(role="user", content="Hi"), _picture(data)])
    assert caught.value.payload.code == "invalid_image"
    assert caught.value.payload.param == "input[1].content[1].image_url"


def test_other_addresses_are_not_looked_into() -> None:
    for url in (None, "https://example.org/@@@@", "data:image/svg+xml,%3Csvg%3E", "s3://bucket/@"):
        check_pictures([Message(role="user", content=[InputImage(url)])])
