"""What a program may pass as parameters, and what it is told when it passes something else."""

from typing import Any

import pytest

from antiphon.client.errors import UsageError
from antiphon.client.resources.parameters import items_of, request_body


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("temprature", "unknown parameter temprature; did you mean temperature?"),
        ("seed", "unknown parameter seed; what the specification does not have goes in `extra_body`"),
    ],
)
def test_an_unknown_parameter_is_told_with_the_one_that_was_meant(name: str, said: str) -> None:
    given: Any = {name: 1}
    with pytest.raises(UsageError) as caught:
        request_body("Hello", None, given)
    assert str(caught.value) == said


@pytest.mark.parametrize(("given", "kind"), [(42, "not int"), (b"Hello", "not bytes")])
def test_an_input_that_is_neither_text_nor_items_is_refused(given: Any, kind: str) -> None:
    with pytest.raises(UsageError, match=kind):
        items_of(given)
