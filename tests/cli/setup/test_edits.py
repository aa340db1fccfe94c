"""Whatever a file has, a set-up leaves the rest as it is, and undoing it is the identity."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.setup import json_text
from antiphon.cli.setup.edits import (
    Conflict,
    EditableFile,
    JsonDocument,
    Setting,
    TomlDocument,
    take_out,
    write,
)
from antiphon.cli.setup.json_text import BrokenFile, NamedMember
from antiphon.config.positions import TomlScan

NOTE = "# ours"
PROVIDER = {
    "name": "Antiphon",
    "base_url": "http://127.0.0.1:8080/v1",
    "auth": {"command": "a", "args": ["b"]},
}
TOML_SETTINGS = [
    Setting(("model",), "demo"),
    Setting(("model_provider",), "antiphon"),
    Setting(("model_providers", "antiphon"), PROVIDER, is_own=True),
    Setting(("analytics", "enabled"), False),
]
JSON_SETTINGS = [
    Setting(("model",), "antiphon/demo"),
    Setting(("env", "BASE_URL"), "http://127.0.0.1:8080"),
    Setting(("env", "WINDOW"), "64000"),
    Setting(("provider", "antiphon"), {"options": {"baseURL": "x"}, "models": {}}, is_own=True),
]

names = st.sampled_from(["model", "env", "provider", "analytics", "theme", "a b", "ключ", 'qu"ote', "x.y"])
scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8),
)
comments = st.sampled_from(["", " # a [note] = 'x'", "\t#"])
spaces = st.sampled_from(
    ["", " ", "  ", "\n", "\n  ", "\t", " // note, with: {brackets}\n", '/* [ , " */', "\n\n"]
)


@st.composite
def json_values(draw: st.DrawFn, depth: int = 3) -> str:
    """JSON with comments, blanks and trailing commas wherever they may stand."""
    kind: str = draw(st.sampled_from(["scalar", "object", "list"])) if depth else "scalar"
    if kind == "scalar":
        return json.dumps(draw(scalars), ensure_ascii=draw(st.booleans()))
    parts: list[str] = []
    for name in draw(st.lists(names, max_size=4, unique=True)):
        value = draw(json_values(depth - 1))
        key = f"{json.dumps(name)}{draw(spaces)}:{draw(spaces)}" if kind == "object" else ""
        parts.append(f"{draw(spaces)}{key}{value}{draw(spaces)}")
    body = ",".join(parts) + ("," + draw(spaces) if draw(st.booleans()) and parts else draw(spaces))
    return f"{{{body}}}" if kind == "object" else f"[{body}]"


@st.composite
def json_files(draw: st.DrawFn) -> str:
    parts: list[str] = []
    for name in draw(st.lists(names, max_size=5, unique=True)):
        deep = name in ("env", "provider")
        value = draw(json_values().filter(lambda text: text.startswith("{")) if deep else json_values())
        parts.append(f"{draw(spaces)}{json.dumps(name)}{draw(spaces)}:{draw(spaces)}{value}{draw(spaces)}")
    body = ",".join(parts) + ("," if draw(st.booleans()) and parts else "") + draw(spaces)
    return draw(st.sampled_from([f"{draw(spaces)}{{{body}}}{draw(spaces)}", "", "\n"]))


@st.composite
def toml_lines(draw: st.DrawFn, taken: frozenset[str] = frozenset()) -> list[str]:
    lines = []
    for name in draw(st.lists(names.filter(lambda name: name not in taken), max_size=3, unique=True)):
        value = draw(
            st.one_of(
                scalars.map(lambda value: json.dumps(value, ensure_ascii=False)),
                st.sampled_from(
                    [
                        "[\n  1, # one\n  2,\n]",
                        '"""\n[table]\nmodel = 1 # no\n"""',
                        "'''a'b\n'''",
                        "{ a = [1, 2] }",
                    ]
                ),
            )
        )
        lines.append(f"{json.dumps(name)}{draw(st.sampled_from(['=', ' = ']))}{value}{draw(comments)}")
    return lines


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.sampled_from(["", "# head", "#[old]"]), max_size=2))
    top = frozenset({"env", "provider", "analytics", "theme"})
    lines += draw(toml_lines(top))
    tables = ["analytics", "env", "theme", "model_providers.other", "'a b'.c", "provider"]
    for table in draw(st.lists(st.sampled_from(tables), max_size=4, unique=True)):
        lines += draw(st.lists(st.sampled_from(["", "# about it"]), max_size=2))
        lines += [f"[{table}]{draw(comments)}", *draw(toml_lines())]
    lines += draw(st.lists(st.sampled_from(["", "# the end", "[[list]]", "  # deeper"]), max_size=2))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = "\n".join(lines).replace("\n", newline)
    return text + draw(st.sampled_from(["", newline]))


# The comments that the texts of these tests have.
NOTES = ("// note", '/* [ , " */', "# a [note]", "# head", "#[old]", "# about it", "# the end", "# deeper")


def _kept(old: Any, new: Any) -> bool:
    """Is everything of the old value in the new one, but for what settings replace?"""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and (key in REPLACED or _kept(old[key], new[key])) for key in old)
    return bool(old == new)


REPLACED = {"model", "enabled", "BASE_URL", "WINDOW"}


def _check(document: EditableFile, text: str, settings: list[Setting]) -> None:
    try:
        before = document.parse(text)
    except BrokenFile:
        return
    try:
        new, changes = write(document, text, settings)
    except (Conflict, BrokenFile):
        return
    after = document.parse(new)
    assert _kept(before, after)
    assert write(document, new, settings) == (new, [])
    back, left = take_out(document, new, changes)
    assert left == []
    assert document.parse(back) == before
    for note in NOTES:
        assert back.count(note) == text.count(note)


@pytest.mark.parametrize(
    "text",
    [
        "{ // note\n}",
        "{ // note, with: {brackets}\n}",
        '{"a": 1, // note\n "b": 2}',
        '{"model": "x" // note\n}',
        '{"model":{"model":false/* [ , " *//* [ , " */},}',
    ],
)
def test_a_comment_at_the_end_of_a_line_does_not_swallow_what_follows(text: str) -> None:
    _check(JsonDocument(), text, JSON_SETTINGS)


@given(json_files())
def test_settings_in_json_with_comments(text: str) -> None:
    _check(JsonDocument(), text, JSON_SETTINGS)


@given(toml_files())
def test_settings_in_toml(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    _check(TomlDocument(NOTE), text, TOML_SETTINGS)


@given(toml_files())
def test_statements_of_toml_are_all_that_is_said(text: str) -> None:
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    for one in TomlScan(text).statements:
        if not one.is_table and not any(key == "list" for key in one.path):
            at: Any = whole
            for key in one.path:
                at = at[key]
            assert tomllib.loads(f"x = {text[one.value_start : one.value_end]}")["x"] == at


@given(json_values())
def test_json_with_comments_is_read_as_it_is_without(text: str) -> None:
    value = json_text.parse(text)
    assert json_text.parse(json.dumps(value, indent=3)) == value


def test_a_member_goes_to_the_end_and_leaves_comments_where_they_are() -> None:
    text = '{\n  // first\n  "a": 1, // one\n  "b": {} // two\n}\n'
    new, changes = write(JsonDocument(), text, [Setting(("c",), {"d": [1]}), Setting(("b", "x"), "y")])
    assert new == (
        '{\n  // first\n  "a": 1, // one\n  "b": {\n    "x": "y"\n  }, // two\n'
        '  "c": {\n    "d": [\n      1\n    ]\n  }\n}\n'
    )
    assert take_out(JsonDocument(), new, changes) == (text, [])


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ('{\n  "a": 1, // one\n}\n', '{\n  "a": 1, // one\n  "b": 2,\n}\n'),
        ('{"a": 1,}', '{"a": 1, "b": 2,}'),
        ('{"a": 1, /* , */ }', '{"a": 1, /* , */ "b": 2, }'),
        ('{"a": 1 /* , */ }', '{"a": 1, /* , */ "b": 2 }'),
    ],
)
def test_a_last_member_has_a_comma_where_the_last_one_had_one(text: str, new: str) -> None:
    written, changes = write(JsonDocument(), text, [Setting(("b",), 2)])
    assert written == new
    assert take_out(JsonDocument(), new, changes) == (text, [])


def test_a_setting_that_is_kept_replaces_nothing() -> None:
    wanted = [Setting(("$schema",), "ours", is_kept=True)]
    theirs = '{"$schema": "theirs"}'
    assert write(JsonDocument(), theirs, wanted) == (theirs, [])
    new, changes = write(JsonDocument(), "{}", wanted)
    assert json.loads(new) == {"$schema": "ours"}
    assert len(changes) == 1


def test_a_list_of_named_objects() -> None:
    text = '[\n\t{"name": "Other"}\n]'
    document = JsonDocument("[]")
    ours = Setting((NamedMember("Antiphon"),), {"name": "Antiphon", "models": []}, is_own=True)
    new, changes = write(document, text, [ours])
    assert new == '[\n\t{"name": "Other"},\n\t{\n\t\t"name": "Antiphon",\n\t\t"models": []\n\t}\n]'
    assert take_out(document, new, changes) == (text, [])
    assert write(document, "", [ours])[0].startswith("[\n  {")


def test_the_lines_of_toml() -> None:
    text = '# mine\nmodel = "old" # why\n\n# tools\n[mcp_servers.x]\ncommand = "y"'
    new, changes = write(TomlDocument(NOTE), text, TOML_SETTINGS)
    assert new == (
        '# mine\nmodel = "demo" # why\n# ours\nmodel_provider = "antiphon"\n\n# tools\n[mcp_servers.x]\n'
        'command = "y"\n\n# ours\n[model_providers.antiphon]\nname = "Antiphon"\n'
        'base_url = "http://127.0.0.1:8080/v1"\nauth = {command = "a", args = ["b"]}\n'
        "\n# ours\n[analytics]\nenabled = false\n"
    )
    changed = new.replace("[mcp_servers.x]", "[mcp_servers.renamed]")
    back, left = take_out(TomlDocument(NOTE), changed, changes)
    assert (back, left) == (text.replace("[mcp_servers.x]", "[mcp_servers.renamed]") + "\n", [])


def test_what_somebody_changed_since_stays() -> None:
    new, changes = write(TomlDocument(NOTE), 'model = "old"\n', TOML_SETTINGS)
    back, left = take_out(TomlDocument(NOTE), new.replace('"demo"', '"theirs"'), changes)
    assert (back, left) == ('model = "theirs"\n', ["model"])


@pytest.mark.parametrize(
    "text", ['model_providers = { antiphon = { name = "x" } }', "[model_providers.antiphon]\n"]
)
def test_a_provider_of_the_same_name_is_not_ours(text: str) -> None:
    with pytest.raises(Conflict, match=r"model_providers\.antiphon"):
        write(TomlDocument(NOTE), text, TOML_SETTINGS)


@pytest.mark.parametrize(
    "text", ["model_providers = {}", "analytics = { enabled = true }", "model = 1\nmodel = 2", "a ="]
)
def test_what_cannot_be_changed_safely_is_left(text: str) -> None:
    with pytest.raises(BrokenFile):
        write(TomlDocument(NOTE), text, TOML_SETTINGS)


@pytest.mark.parametrize(
    "text", ["{", '{"a" 1}', '{"a": tru}', "{} {}", '{"env": 1}', "[]", "{'a': 1}", '{"a": "\n"}']
)
def test_json_that_is_broken_or_of_another_shape(text: str) -> None:
    with pytest.raises(BrokenFile):
        write(JsonDocument(), text, JSON_SETTINGS)
