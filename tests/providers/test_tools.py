"""The tools of a turn as functions, and their names there and back."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.tools import flatten
from antiphon.wires.tools.names import DeclaredTool, ToolNames, flat_name
from tests.providers.compose import make_turn

FIT = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def names(*tools: dict[str, Any]) -> ToolNames:
    return flatten(make_turn({"input": "x", "tools": list(tools)}), "chat")


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **fields}


def namespace(name: str, *tools: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": description, "tools": list(tools)}


def test_functions_keep_their_names_and_order() -> None:
    made = names(function("b"), namespace("ns", function("c")), function("a"))
    assert [one.name for one in made.functions] == ["b", "ns__c", "a"]


def test_a_namespace_is_flattened_and_restored() -> None:
    made = names(namespace("mcp__git", function("log", description="Show it."), description="Git."))
    [tool] = made.functions
    assert (tool.name, tool.description) == ("mcp__git__log", "Show it.\n\nGit.")
    assert made.origin("mcp__git__log") == DeclaredTool("log", "mcp__git")
    assert made.upstream(DeclaredTool("log", "mcp__git")) == "mcp__git__log"
    assert made.find("log") == made.find("log", "mcp__git") == "mcp__git__log"
    assert made.find("log", "other") is None


def test_a_name_that_is_taken_gets_another_and_the_plain_function_keeps_it() -> None:
    made = names(namespace("a", function("b")), function("a__b"), {"type": "custom", "name": "a__b"})
    flattened, plain, custom = made.functions
    assert plain.name == "a__b"
    assert len({flattened.name, plain.name, custom.name}) == 3
    assert [made.origin(one.name) for one in made.functions] == [
        DeclaredTool("b", "a"),
        DeclaredTool("a__b"),
        DeclaredTool("a__b", None, "custom"),
    ]


def test_custom_tools_carry_their_grammar() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /a+/"}
    [tool] = names({"type": "custom", "name": "run", "description": "Runs.", "format": form}).functions
    assert tool.description == "Runs.\n\nThe input must follow this lark grammar:\nstart: /a+/"
    assert tool.parameters["required"] == ["input"]


def test_a_custom_tool_in_a_namespace() -> None:
    made = names(namespace("box", {"type": "custom", "name": "draw", "defer_loading": True}))
    assert made.origin(made.functions[0].name) == DeclaredTool("draw", "box", "custom")


def test_tools_that_cannot_be_functions_leave_a_receipt() -> None:
    tools = [{"type": "web_search"}, namespace("ns", {"type": "computer"}, function("f")), function("g")]
    turn = make_turn({"input": "x", "tools": tools})
    assert [one.name for one in flatten(turn, "chat").functions] == ["ns__f", "g"]
    assert [receipt.param for receipt in turn.receipts] == ["tools[0]", "tools[1].tools[0]"]


def test_a_function_without_parameters_gets_an_empty_object() -> None:
    assert names(function("f")).functions[0].parameters == {"type": "object", "properties": {}}


def test_unknown_names_stay_as_they_are() -> None:
    assert ToolNames().origin("anything") == DeclaredTool("anything")


@given(st.text(min_size=1), st.none() | st.text(min_size=1, max_size=80))
def test_every_name_is_fit_for_every_upstream(name: str, space: str | None) -> None:
    assert FIT.fullmatch(flat_name(DeclaredTool(name, space)))


@given(
    st.sets(
        st.tuples(st.text(min_size=1, max_size=70), st.none() | st.text(min_size=1, max_size=70)), max_size=8
    )
)
def test_names_lead_back(origins: set[tuple[str, str | None]]) -> None:
    tools = [
        {"type": "custom", "name": name}
        if space is None
        else namespace(space, {"type": "custom", "name": name})
        for name, space in sorted(origins, key=repr)
    ]
    made = names(*tools)
    assert len({tool.name for tool in made.functions}) == len(origins)
    for tool in made.functions:
        assert made.origin(tool.name) == tool.origin
        assert made.upstream(tool.origin) == tool.name


def test_a_tool_that_another_of_its_name_replaces_leaves_a_receipt() -> None:
    early, late = function("a", description="Early."), function("a", description="Late.")
    turn = make_turn({"input": "x", "tools": [early, function("b"), late, function("b")]})
    made = flatten(turn, "chat")
    assert [(one.name, one.description) for one in made.functions] == [("a", "Late."), ("b", None)]
    assert [(one.param, one.reason) for one in turn.receipts] == [
        ("tools[0]", "another tool of the name 'a', in tools[2], takes its place")
    ]
