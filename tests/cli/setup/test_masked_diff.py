"""No secret of a file is in the diff that is shown of it, whatever its layout."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.setup.client_files import ClientFile, Edited
from antiphon.cli.setup.edits import EditableFile, JsonDocument, Setting, TomlDocument, write
from tests.cli.setup.test_edits import JSON_SETTINGS, NOTE, TOML_SETTINGS, spaces

SECRET = "SECRETVALUE"
NAMES = ["apiKey", "ANTHROPIC_AUTH_TOKEN", "X_API_KEY", "client_secret", "password", "Authorization", "token"]


def shown(document: EditableFile, text: str, settings: list[Setting], key: str = "") -> str:
    after, changes = write(document, text, settings)
    return ClientFile("x", Path("file"), document).diff(Edited(text, text, after, changes), key)


@st.composite
def secrets(draw: st.DrawFn) -> str:
    """A string of JSON with the secret in it, beside what a string may have."""
    around = st.text('ab"\\\n\u2028é :=,{}[]/*#', max_size=5)
    return json.dumps(draw(around) + SECRET + draw(around), ensure_ascii=draw(st.booleans()))


@st.composite
def members(draw: st.DrawFn, depth: int = 3) -> str:
    """The members of an object, some of them secret, in any layout."""
    parts = []
    for name in draw(
        st.lists(st.sampled_from([*NAMES, "env", "provider", "x", "y"]), max_size=4, unique=True)
    ):
        if name in NAMES:
            value = draw(
                st.one_of(secrets(), st.lists(secrets(), max_size=2).map(",".join).map("[{}]".format))
            )
        elif depth or name in ("env", "provider"):
            value = f"{{{draw(members(depth - 1) if depth else spaces)}}}"
        else:
            value = "1"
        parts.append(f"{draw(spaces)}{json.dumps(name)}{draw(spaces)}:{draw(spaces)}{value}{draw(spaces)}")
    return ",".join(parts) + ("," if draw(st.booleans()) and parts else "") + draw(spaces)


@given(members())
def test_no_secret_of_a_json_file_is_shown(text: str) -> None:
    diff = shown(JsonDocument(), f"{{{text}}}", JSON_SETTINGS)
    assert SECRET not in diff
    assert "http://127.0.0.1:8080" in diff


@given(
    st.lists(st.sampled_from(NAMES), unique=True, max_size=4),
    st.data(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_no_secret_of_a_toml_file_is_shown(names: list[str], data: st.DataObject, newline: str) -> None:
    layouts = ["{} = '{}'", "{} = ['a', '{}'] # note", "{} = '''{}'''", "x.{} = {{ y = '{}' }}", "#{}='{}'"]
    lines = [data.draw(st.sampled_from(layouts)).format(name, SECRET) for name in names]
    lines.insert(data.draw(st.integers(0, len(lines))), "[env]")
    diff = shown(TomlDocument(NOTE), newline.join(lines), TOML_SETTINGS)
    assert SECRET not in diff
    assert '+model = "demo"' in diff


def test_a_secret_is_masked_on_both_sides_of_a_changed_line() -> None:
    text = '{"apiKey": "short", "model": "a"}'
    assert shown(JsonDocument(), text, [Setting(("model",), "b")]) == (
        '--- file\n+++ file\n@@ -1 +1 @@\n-{"apiKey": "***", "model": "a"}\n+{"apiKey": "***", "model": "b"}'
    )


def test_a_secret_that_is_replaced_by_another_is_a_change() -> None:
    text = '{\n  "token": "old"\n}\n'
    diff = shown(JsonDocument(), text, [Setting(("token",), "the-new-key")], key="the-new-key")
    assert diff.splitlines()[3:] == [" {", '-  "token": "***"', '+  "token": "***"', " }"]


@pytest.mark.parametrize(
    ("value", "is_shown"),
    [("{env:OTHER_KEY}", True), ("64000", False), ("", True)],
)
def test_what_only_names_a_secret_is_shown(value: str, is_shown: bool) -> None:
    text = json.dumps({"apiKey": value, "maxTokens": "123"})
    diff = shown(JsonDocument(), text, [Setting(("model",), "b")])
    assert (json.dumps(value) in diff, '"123"' in diff) == (is_shown, True)


def test_what_the_program_writes_is_shown() -> None:
    diff = shown(JsonDocument(), "{}", [Setting(("apiKeyHelper",), "antiphon token")])
    assert '"apiKeyHelper": "antiphon token"' in diff
