"""The parameters of a request are listed in one place; every other list of them agrees with it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.client.resources.parameters import Parameters, RequestOptions
from antiphon.server.api.openapi import PARAMETERS
from antiphon.spec.content import InputText
from antiphon.spec.items import FunctionCallOutput, Item, Message
from antiphon.spec.request import PROVIDER_PARAMETERS, Request, TextParam, WebSocketCreate
from scripts import reference

PAGE = Path(__file__).parents[2] / "docs" / "parameters.md"


def listed(page: str) -> Iterator[str]:
    """The names in the first column of each table whose first column is `parameter`."""
    for table in re.findall(r"^\| parameter \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE):
        for row in table.splitlines():
            yield from re.findall(r"`([\w:]+)`", row.split("|")[1])


def test_the_page_has_every_parameter_once() -> None:
    assert sorted(listed(PAGE.read_text())) == sorted(WebSocketCreate.__struct_encode_fields__)


def test_the_client_takes_every_parameter_as_an_argument() -> None:
    """`model` and `input` are arguments of the call itself, and `stream` is which method is called.

    An idempotency key is an argument too, and goes as a header.
    """
    options = {*RequestOptions.__annotations__, "idempotency_key"}
    assert Parameters.__annotations__.keys() - options == {*Request.__struct_fields__} - {
        "model",
        "input",
        "stream",
    }


def test_what_only_a_provider_can_honour_is_a_parameter() -> None:
    fields = {*Request.__struct_fields__, *(f"text.{name}" for name in TextParam.__struct_fields__)}
    assert set(PROVIDER_PARAMETERS) <= fields
    assert len(set(PROVIDER_PARAMETERS)) == len(PROVIDER_PARAMETERS)


def test_every_parameter_says_what_it_does_in_the_words_of_the_description() -> None:
    surface = reference.surface()
    for address in ("antiphon.Request", "antiphon.Parameters"):
        said = {member.name: member.doc for member in surface[address].members if member.kind == "keyword"}
        assert [name for name, doc in said.items() if not doc] == []
        assert {name: doc for name, doc in said.items() if name in PARAMETERS}.items() <= PARAMETERS.items()
    assert PARAMETERS.keys() == {*Request.__struct_encode_fields__}


@pytest.mark.parametrize(
    ("input", "text"),
    [
        (None, ""),
        ("Hello", "Hello"),
        ([], ""),
        ([Message(role="assistant", content="Hi")], ""),
        (
            [
                Message(role="user", content="First"),
                Message(role="user", content=[InputText("Sec"), InputText("ond")]),
                Message(role="assistant", content="Well"),
                FunctionCallOutput(call_id="call_1", output="18"),
            ],
            "Second",
        ),
    ],
)
def test_the_last_words_of_the_user(input: str | list[Item] | None, text: str) -> None:
    assert Request(input=input).last_user_text() == text
