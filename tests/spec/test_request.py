"""The parameters of a request are listed in one place; every other list of them agrees with it."""

import re
from collections.abc import Iterator
from pathlib import Path

from antiphon.client.resources.parameters import Parameters, RequestOptions
from antiphon.spec.request import PROVIDER_PARAMETERS, Request, TextParam, WebSocketCreate

PAGE = Path(__file__).parents[2] / "docs" / "parameters.md"


def listed(page: str) -> Iterator[str]:
    """The names in the first column of each table whose first column is `parameter`."""
    for table in re.findall(r"^\| parameter \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE):
        for row in table.splitlines():
            yield from re.findall(r"`([\w:]+)`", row.split("|")[1])


def test_the_page_has_every_parameter_once() -> None:
    assert sorted(listed(PAGE.read_text())) == sorted(WebSocketCreate.__struct_encode_fields__)


def test_the_client_takes_every_parameter_as_an_argument() -> None:
    """`model` and `input` are arguments of the call itself, and `stream` is which method is called."""
    options = RequestOptions.__annotations__.keys()
    assert Parameters.__annotations__.keys() - options == {*Request.__struct_fields__} - {
        "model",
        "input",
        "stream",
    }


def test_what_only_a_provider_can_honour_is_a_parameter() -> None:
    fields = {*Request.__struct_fields__, *(f"text.{name}" for name in TextParam.__struct_fields__)}
    assert set(PROVIDER_PARAMETERS) <= fields
    assert len(set(PROVIDER_PARAMETERS)) == len(PROVIDER_PARAMETERS)
