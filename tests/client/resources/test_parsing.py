"""Answers as values of a type: what is asked for, what comes back, and the three ways it can fail."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from antiphon.client import AsyncClient, Client, Incomplete, Mismatch, ParseFailed, Refused, UsageError
from antiphon.client.resources.parsing import text_param
from tests.client.scripted_server import Player, whole


class Place(msgspec.Struct):
    city: str
    country: str | None = None


class Trip(msgspec.Struct):
    """Where to, and for how long."""

    to: Place
    stops: list[Place]
    days: int = 1


@dataclass
class Point:
    x: int
    y: int


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(gt=0)


class Node(msgspec.Struct):
    children: list["Node"]


class Prices(msgspec.Struct):
    by_name: dict[str, float]


def asking(value: object) -> str:
    """A request that the scripted model answers with this value."""
    script = json.dumps([{"text": value if isinstance(value, str) else json.dumps(value)}])
    return f"Answer.\n```script\n{script}\n```"


def schema_of(into: type[Any]) -> dict[str, Any]:
    format = text_param(into, None)["format"]
    assert isinstance(format, dict)
    return format


PARIS = {"city": "Paris", "country": None}


@pytest.mark.parametrize(
    ("into", "given", "expected"),
    [
        (Place, PARIS, Place("Paris")),
        (Trip, {"to": PARIS, "stops": [PARIS], "days": 2}, Trip(Place("Paris"), [Place("Paris")], 2)),
        (Point, {"x": 1, "y": 2}, Point(1, 2)),
        (Person, {"name": "Ada", "age": 36}, Person(name="Ada", age=36)),
        (Node, {"children": [{"children": []}]}, Node([Node([])])),
        (Prices, {"by_name": {"tea": 2.5}}, Prices({"tea": 2.5})),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_a_value_comes_back(
    client: AsyncClient, into: type[Any], given: object, expected: object
) -> None:
    found = await client.responses.parse(asking(given), into=into)
    assert found.output == expected
    assert found.response.status == "completed"


def test_every_property_is_named_and_required() -> None:
    format = schema_of(Trip)
    assert (format["name"], format["strict"], format["type"]) == ("Trip", True, "json_schema")
    schema = format["schema"]
    assert schema["required"] == ["to", "stops", "days"]
    assert schema["additionalProperties"] is False
    assert "default" not in json.dumps(schema)
    inner = schema["properties"]["stops"]["items"]
    inner = schema["$defs"][inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
    assert inner["additionalProperties"] is False
    assert inner["required"] == ["city", "country"]


def test_a_type_with_keys_of_any_name_is_not_strict() -> None:
    assert schema_of(Prices)["strict"] is False
    assert schema_of(Person)["strict"] is True
    assert schema_of(Node)["strict"] is True


async def test_an_optional_field_that_the_model_leaves_null_keeps_its_default(client: AsyncClient) -> None:
    found = await client.responses.parse(asking({"to": PARIS, "stops": [], "days": None}), into=Trip)
    assert found.output == Trip(Place("Paris"), [], 1)


async def test_what_else_is_in_text_stays() -> None:
    async with Player(whole('{"x":1,"y":2}')) as server, server.client() as client:
        await client.responses.parse("x", into=Point, text={"verbosity": "low"})
    assert server.body["text"]["verbosity"] == "low"
    assert server.body["text"]["format"]["name"] == "Point"


async def test_a_refusal(client: AsyncClient) -> None:
    with pytest.raises(Refused) as caught:
        await client.responses.parse('x\n```script\n[{"refusal": "I will not."}]\n```', into=Point)
    assert caught.value.refusal == "I will not."


async def test_an_answer_that_was_cut_short(client: AsyncClient) -> None:
    script = 'x\n```script\n[{"text": "{\\"x\\": 1"}, {"finish": "length"}]\n```'
    with pytest.raises(Incomplete) as caught:
        await client.responses.parse(script, into=Point)
    assert caught.value.reason == "max_output_tokens"
    assert caught.value.response.output_text == '{"x": 1'


@pytest.mark.parametrize("into", [Point, Place, Person])
@pytest.mark.parametrize("text", ['{"name": 5}', "no JSON", "[]", ""])
async def test_an_answer_that_does_not_fit(into: type[Any], text: str) -> None:
    async with Player(whole(text)) as server, server.client() as client:
        with pytest.raises(Mismatch) as caught:
            await client.responses.parse("x", into=into)
    assert caught.value.text == text
    assert isinstance(caught.value, ParseFailed)


@pytest.mark.parametrize("into", [int, list[int], object])
async def test_what_is_no_object_is_told_before_anything_is_sent(into: type[Any]) -> None:
    async with Player(whole("1")) as server, server.client() as client:
        with pytest.raises(UsageError):
            await client.responses.parse("x", into=into)
    assert server.requests == []


def test_the_synchronous_client_parses_too(sync_client: Client) -> None:
    assert sync_client.responses.parse(asking({"x": 1, "y": 2}), into=Point).output == Point(1, 2)


def test_pydantic_is_not_imported_for_others() -> None:
    code = (
        "import sys, msgspec\nfrom antiphon.client.resources.parsing import text_param\n"
        "class A(msgspec.Struct):\n    x: int\n"
        "text_param(A, None)\nassert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
