"""Tools: the schema that a function or a class becomes, its arguments from JSON, its result to an output."""

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from antiphon.client.tools import (
    BadArguments,
    PythonTool,
    Tool,
    Toolbox,
    ToolError,
    as_output,
    snake_case,
    tool,
)
from antiphon.client.tools.parameter_schema import SchemaError
from antiphon.spec.content import InputImage, InputText


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


@dataclass
class Place:
    city: str
    country: str = "FR"


class Range(TypedDict):
    start: int
    end: int


class Point(msgspec.Struct):
    x: float
    label: str | None = None


class Inner(pydantic.BaseModel):
    size: int = 1


class Order(pydantic.BaseModel):
    name: str
    inner: Inner


@dataclass
class Tree:
    value: int
    children: "list[Tree]"


def properties(one: Tool) -> dict[str, Any]:
    return dict(one.get_schema()["properties"])


def test_types_defaults_and_descriptions_become_the_schema() -> None:
    @tool(strict=False)
    def get_weather(
        city: Annotated[str, "the city, in English"],
        unit: Literal["celsius", "fahrenheit"] = "celsius",
        days: int | None = None,
    ) -> str:
        """Tell the weather."""
        return city + unit + str(days)

    assert get_weather.to_function_tool_param() == {
        "type": "function",
        "name": "get_weather",
        "description": "Tell the weather.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"description": "the city, in English", "type": "string"},
                "unit": {"enum": ["celsius", "fahrenheit"], "default": "celsius", "type": "string"},
                "days": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            },
            "required": ["city"],
        },
    }
    assert get_weather("Paris") == "PariscelsiusNone"


def test_a_strict_schema_requires_everything_and_lets_the_optional_be_null() -> None:
    @tool
    def search(query: str, limit: int = 5, place: Place | None = None, unit: Unit = Unit.CELSIUS) -> str:
        return query

    schema = search.get_schema()
    assert search.strict
    assert schema["required"] == ["query", "limit", "place", "unit"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["limit"] == {"type": ["integer", "null"]}
    assert schema["properties"]["unit"]["anyOf"][1] == {"type": "null"}
    place = schema["properties"]["place"]["anyOf"][0]
    assert place["required"] == ["city", "country"]
    assert place["additionalProperties"] is False
    assert "required" not in schema["properties"]["query"]
    assert search.to_function_tool_param()["strict"] is True
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("kind", [dict[str, int], Any, dict], ids=["map", "any", "dict"])
def test_what_cannot_be_strict_is_not_unless_it_is_asked_for(kind: Any) -> None:
    def store(values: Any) -> str:
        return "stored"

    store.__annotations__["values"] = kind
    assert not PythonTool(store).strict
    with pytest.raises(SchemaError, match="store cannot be strict: values"):
        PythonTool(store, strict=True)


@pytest.mark.parametrize(
    "docstring",
    [
        "Add.\n\nArgs:\n    a: the first\n        number\n    b (int): the second\n\nReturns:\n    x: y",
        "Add.\n\nParameters\n----------\na : int\n    the first\n    number\nb : int\n    the second\n"
        "\nReturns\n-------\nint\n",
        "Add.\n\n:param a: the first\n    number\n:param int b: the second\n:returns: the sum",
    ],
    ids=["google", "numpy", "rest"],
)
def test_docstrings_describe_the_tool_and_its_parameters(docstring: str) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    add.__doc__ = docstring
    made = PythonTool(add)
    assert made.description == "Add."
    assert properties(made)["a"]["description"] == "the first number"
    assert properties(made)["b"]["description"] == "the second"


async def test_arguments_become_python_values() -> None:
    seen: list[object] = []

    @tool
    def take(
        place: Place, span: Range, point: Point, order: Order, unit: Unit, names: list[str], tree: Tree
    ) -> None:
        seen.extend((place, span, point, order, unit, names, tree))

    assert take.strict
    Draft202012Validator.check_schema(take.get_schema())
    arguments = {
        "place": {"city": "Paris", "country": None},
        "span": {"start": 1, "end": 2},
        "point": {"x": 1, "label": None},
        "order": {"name": "o", "inner": {"size": None}},
        "unit": "celsius",
        "names": ["a"],
        "tree": {"value": 1, "children": [{"value": 2, "children": []}]},
    }
    Draft202012Validator(take.get_schema()).validate(arguments)
    assert await take.call(json.dumps(arguments)) == "null"
    assert seen == [
        Place("Paris"),
        {"start": 1, "end": 2},
        Point(1.0),
        Order(name="o", inner=Inner(size=1)),
        Unit.CELSIUS,
        ["a"],
        Tree(1, [Tree(2, [])]),
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "city"),
        ('{"city": 3}', r"\$\.city"),
        ('{"city": "x", "town": "y"}', "unknown argument 'town'; expected city"),
        ('{"order": {"name": 3}, "city": "x"}', "valid string"),
    ],
)
async def test_bad_arguments_are_told_with_their_place(arguments: str, told: str) -> None:
    @tool
    def look(city: str, order: Order | None = None) -> str:
        return city

    with pytest.raises(BadArguments, match=told):
        await look.call(arguments)


async def test_sync_functions_run_in_a_thread_and_async_ones_are_awaited() -> None:
    @tool
    def blocking() -> str:
        return threading.current_thread().name

    @tool
    async def awaited() -> str:
        return threading.current_thread().name

    assert await blocking.call("") == "antiphon-tool"
    assert await awaited.call("{}") == threading.current_thread().name


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("over"), SystemExit(3)])
async def test_whatever_a_function_raises_in_its_thread_is_an_exception_here(
    error: BaseException,
) -> None:
    @tool
    def broken() -> str:
        raise error

    with pytest.raises(Exception, match=str(error)):
        await broken.call("{}")


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("words", "words"),
        (None, "null"),
        ({"b": 1, "a": Unit.CELSIUS}, '{"a":"celsius","b":1}'),
        (Place("Rome", "IT"), '{"city":"Rome","country":"IT"}'),
        (Inner(), '{"size":1}'),
        (3 + 4j, '"(3+4j)"'),
        (InputText("hi"), [InputText("hi")]),
        ([InputText("a"), InputImage("data:,")], [InputText("a"), InputImage("data:,")]),
        ([{"type": "input_text", "text": "a"}], [InputText("a")]),
        ('[{"type": "input_text", "text": "a"}]', [InputText("a")]),
        ([{"type": "input_text", "txt": "a"}], '[{"txt":"a","type":"input_text"}]'),
        ([], "[]"),
        ({2024: {"b": 1}, 2025: None}, '{"2024":{"b":1},"2025":null}'),
        (b"\x00\xff", '"AP8="'),
    ],
)
def test_results_become_outputs(value: object, output: object) -> None:
    assert as_output(value) == output


class WriteFileTool(Tool):
    """Write text to a file."""

    parameters: ClassVar[dict[str, Any]] = {
        "path": {"type": "string", "description": "where", "required": True},
        "content": {"type": "string", "required": True},
        "mode": {"type": "string", "enum": ["write", "append"]},
    }

    def execute(self, path: str, content: str, mode: str = "write") -> str:
        return f"{mode} {len(content)} to {path}"


def test_a_class_is_a_tool_with_required_at_the_top_and_never_inside_a_property() -> None:
    param = WriteFileTool().to_function_tool_param()
    assert list(param) == ["type", "name", "description", "parameters"]
    assert (param["name"], param["description"]) == ("write_file", "Write text to a file.")
    assert param["parameters"] == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where"},
            "content": {"type": "string"},
            "mode": {"type": "string", "enum": ["write", "append"]},
        },
        "required": ["path", "content"],
    }


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"path": "a"}', "'content' is missing"),
        ('{"path": "a", "content": 3}', "'content' must be of type string"),
        ('{"path": "a", "content": "b", "mode": "delete"}', "must be one of 'write', 'append'"),
        ('{"path": "a", "content": "b", "extra": 1}', "unknown argument 'extra'"),
    ],
)
async def test_the_arguments_of_a_class_are_checked(arguments: str, told: str) -> None:
    with pytest.raises(BadArguments, match=told):
        await WriteFileTool().call(arguments)


async def test_a_class_runs_with_its_optional_arguments_left_out() -> None:
    assert await WriteFileTool().call('{"path": "a", "content": "b"}') == "write 1 to a"


async def test_a_strict_class_takes_null_for_what_is_optional() -> None:
    class Strict(WriteFileTool):
        strict = True

    schema = Strict().get_schema()
    assert schema["required"] == ["path", "content", "mode"]
    assert await Strict().call('{"path": "a", "content": "b", "mode": null}') == "write 1 to a"


async def test_a_class_without_execute_says_so() -> None:
    class Idle(Tool):
        pass

    with pytest.raises(ToolError, match="idle does nothing"):
        await Idle().call("{}")


@pytest.mark.parametrize(
    ("name", "snake"),
    [("WriteFile", "write_file"), ("HTTPGet", "http_get"), ("Search", "search"), ("Get2Files", "get2_files")],
)
def test_names_come_from_classes(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def test_a_toolbox_takes_tools_classes_and_functions_and_refuses_two_of_a_name() -> None:
    def plain(a: int) -> int:
        return a

    box = Toolbox([WriteFileTool, plain, tool(name="other")(plain)])
    assert box.names() == ["write_file", "plain", "other"]
    assert len(box) == 3
    with pytest.raises(ValueError, match="two tools named 'plain'"):
        box.add(plain)
    with pytest.raises(ValueError, match="no name for a tool"):
        tool(name="not ok")(plain)


@pytest.mark.parametrize(
    ("one", "why"),
    [("x", "'x' is no tool"), (3, "3 is no tool"), (partial(snake_case, "A"), "no name for a tool")],
)
def test_what_is_no_tool_is_told(one: Any, why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        Toolbox([one])


def test_a_method_becomes_a_tool_when_it_is_bound() -> None:
    class Shop:
        def price(self, item: str) -> int:
            return len(item)

    with pytest.raises(SchemaError, match=r"bound method: tool\(it.price\)"):
        tool(Shop.price)
    bound = tool(Shop().price)
    assert bound.get_schema()["required"] == ["item"]
    assert bound("tea") == 3


def test_a_type_that_nobody_knows_is_told() -> None:
    def odd(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(SchemaError, match="odd: name 'Nowhere' is not defined"):
        PythonTool(odd)


@pytest.mark.parametrize("signature", ["*args", "**kwargs", "a, /"])
def test_parameters_that_no_model_can_name_are_refused(signature: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def odd({signature}): ...", scope)
    with pytest.raises(SchemaError, match=r"odd: .* cannot be filled by a model"):
        PythonTool(scope["odd"])


@given(
    st.dictionaries(
        st.sampled_from(["query", "limit", "place", "unit", "other"]),
        st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.just({"city": "P"}) | st.just("celsius"),
    )
)
def test_arguments_are_read_exactly_when_the_schema_allows_them(arguments: dict[str, Any]) -> None:
    @tool
    def search(query: str, limit: int = 5, place: Place | None = None, unit: Unit = Unit.CELSIUS) -> str:
        return query

    filled = dict.fromkeys(properties(search)) | arguments
    fits = Draft202012Validator(search.get_schema()).is_valid(filled) or (
        arguments.get("place") == {"city": "P"}
        and Draft202012Validator(search.get_schema()).is_valid({**filled, "place": None})
    )
    try:
        read = search.read(arguments)
    except BadArguments:
        assert not fits
    else:
        assert fits
        assert search(**read) == arguments["query"]


def test_pydantic_is_not_imported_unless_it_is_used() -> None:
    code = (
        "import sys; from antiphon.client.tools import tool\n"
        "@tool\ndef f(a: int, b: list[str]) -> str: return ''\n"
        "f.get_schema(); print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
