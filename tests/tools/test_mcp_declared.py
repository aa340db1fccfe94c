"""What a request says of an MCP server: which tools, which of them are asked about, and what is refused."""

from typing import Any

import pytest

from antiphon.spec.codec import Opaque
from antiphon.spec.errors import SpecError
from antiphon.tools.mcp.addresses import is_literal, is_within
from antiphon.tools.mcp.declared import DeclaredServer, read

READS, WRITES = ("look", True), ("change", False)


def declared(**fields: Any) -> DeclaredServer:
    return read(Opaque.make(type="mcp", server_label="w", **fields), "tools[0]")


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (None, {"look", "change"}),
        ([], set()),
        (["look"], {"look"}),
        ({"tool_names": ["change"]}, {"change"}),
        ({"read_only": True}, {"look"}),
        ({"read_only": False}, {"change"}),
        ({"read_only": True, "tool_names": ["change"]}, set()),
        ({}, set()),
    ],
)
def test_allowed_tools(given: Any, allowed: set[str]) -> None:
    server = declared(allowed_tools=given)
    assert {name for name, reads in (READS, WRITES) if server.allows(name, reads)} == allowed


@pytest.mark.parametrize(
    ("given", "default", "asked"),
    [
        (None, "always", {"look", "change"}),
        (None, "never", set()),
        ("always", "never", {"look", "change"}),
        ("never", "always", set()),
        ({"never": {"tool_names": ["look"]}}, "always", {"change"}),
        ({"never": {"read_only": True}}, "always", {"change"}),
        ({"always": {"tool_names": ["change"]}}, "always", {"change"}),
        (
            {"always": {"tool_names": ["look"]}, "never": {"tool_names": ["look"]}},
            "never",
            {"look", "change"},
        ),
        ({"never": ["look"]}, "always", {"change"}),
        ({}, "always", {"look", "change"}),
    ],
)
def test_require_approval(given: Any, default: str, asked: set[str]) -> None:
    server = declared(require_approval=given)
    assert {name for name, reads in (READS, WRITES) if server.needs_approval(name, reads, default)} == asked


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"server_label": "a b"}, "tools[0].server_label"),
        ({"require_approval": "sometimes"}, "tools[0].require_approval"),
        ({"headers": {"Host": "x"}}, "tools[0].headers"),
        ({"headers": {"X": "a\r\nB: c"}}, "tools[0].headers"),
        ({"authorization": "a\nb"}, "tools[0].authorization"),
        ({"allowed_tools": [1]}, "tools[0].allowed_tools[0]"),
    ],
)
def test_a_wrong_declaration_names_its_place(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(SpecError) as refused:
        read(Opaque.make(**{"type": "mcp", "server_label": "w", **fields}), "tools[0]")
    assert refused.value.payload.param == param


def test_a_declaration_shows_no_credential() -> None:
    assert "t0ken" not in repr(declared(authorization="t0ken", headers={"X-Key": "t0ken"}))


@pytest.mark.parametrize(
    ("url", "allowed", "expected"),
    [
        ("https://h/a", "https://h/a", True),
        ("https://h/a/b?x=1", "https://h/a", True),
        ("https://h:443/a", "https://h/a", True),
        ("https://H./a", "https://h/a", True),
        ("https://h/anything", "https://h", True),
        ("https://h/ab", "https://h/a", False),
        ("https://h/a/../c", "https://h/a", False),
        ("https://h/a/%2e%2e/c", "https://h/a", False),
        ("https://h/a%2f..%2fc", "https://h/a", False),
        ("http://h/a", "https://h/a", False),
        ("https://h:444/a", "https://h/a", False),
        ("https://h.evil/a", "https://h/a", False),
        ("https://user@h/a", "https://h/a", False),
        ("https://h:port/a", "https://h/a", False),
    ],
)
def test_addresses_are_compared_by_whole_segments(url: str, allowed: str, expected: bool) -> None:
    assert is_within(url, allowed) is expected


def test_an_address_by_its_number_is_meant() -> None:
    assert is_literal("http://127.0.0.1:1/x")
    assert is_literal("http://localhost/x")
    assert not is_literal("http://example.com/x")
