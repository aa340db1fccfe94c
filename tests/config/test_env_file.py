"""Files of variables: which lines are read, what they fill in, and what stays as it was."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import Config, ConfigErrors, fill_environment, load
from tests.config.conftest import KNOWN

NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
TEXT = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\u2028\u2029"), max_size=20
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".env"


def loaded(file: Path, text: str, **environ: str) -> Config:
    file.write_text(text, encoding="utf-8")
    home = {"HOME": str(file.parent / "home"), **environ}
    return load(environ=fill_environment(file, home), types=KNOWN)


def mistakes(file: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        loaded(file, text, **environ)
    return str(caught.value).replace(str(file), ".env").split("\n")


def test_what_a_line_can_be(file: Path) -> None:
    file.write_text(
        "# a comment\n"
        "\n"
        "PLAIN=value\n"
        "export EXPORTED=value\n"
        "  SPACED = a value  # and a comment\n"
        "HASH=a#b\n"
        "SINGLE='a # \\n $PLAIN'\n"
        'DOUBLE="a # \\"b\\"\\n$PLAIN" # comment\n'
        "EMPTY=\n"
        "COMMENT= # nothing\n"
        "EQUALS=a=b\r\n"
        "PLAIN=last\n",
        encoding="utf-8",
    )
    assert fill_environment(file, {}) == {
        "PLAIN": "last",
        "EXPORTED": "value",
        "SPACED": "a value",
        "HASH": "a#b",
        "SINGLE": "a # \\n $PLAIN",
        "DOUBLE": 'a # "b"\n$PLAIN',
        "EMPTY": "",
        "COMMENT": "",
        "EQUALS": "a=b",
    }


@given(st.dictionaries(NAME, TEXT), st.dictionaries(NAME, TEXT))
def test_only_what_is_missing_is_filled_in(
    tmp_path_factory: pytest.TempPathFactory, written: dict[str, str], there: dict[str, str]
) -> None:
    file = tmp_path_factory.getbasetemp() / "some.env"
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in written.items()}
    file.write_text("".join(f'{name}="{value}"\n' for name, value in quoted.items()), encoding="utf-8")
    kept = dict(there)
    found = fill_environment(file, there)
    assert found == {**written, **there}
    assert there == kept


def test_a_setting_and_a_secret_come_from_the_file(file: Path) -> None:
    (file.parent / "antiphon.toml").write_text(
        '[providers.groq]\ntype = "chat"\nbase_url = "https://example.com/v1"\napi_key_env = "GROQ_API_KEY"\n'
    )
    config = loaded(file, "ANTIPHON_SERVER__PORT=9000\nGROQ_API_KEY=gsk-1\nOTHER=x\n")
    assert config.server.port == 9000
    key = config.providers["groq"].api_key
    assert key is not None
    assert key.reveal() == "gsk-1"
    assert config.variables == ("ANTIPHON_SERVER__PORT",)


@pytest.mark.parametrize("value", ["9001", ""])
def test_a_variable_that_is_set_stays(file: Path, value: str) -> None:
    """Also one that is set to nothing, which is how a user says: not this one."""
    config = loaded(file, "ANTIPHON_SERVER__PORT=9000\n", ANTIPHON_SERVER__PORT=value)
    assert config.server.port == (int(value) if value else 8080)


def test_the_process_itself_is_not_changed(file: Path) -> None:
    before = dict(os.environ)
    file.write_text("ANTIPHON_SERVER__PORT=9000\nSOMETHING=else\n")
    assert load(environ=fill_environment(file), types=KNOWN).server.port == 9000
    assert dict(os.environ) == before


def test_a_line_of_another_form_is_a_mistake_that_does_not_show_it(file: Path) -> None:
    found = mistakes(file, 'A=1\nsk-secret\nB=\'open\nC="x" y\n1D=2\n')
    advice = "expected NAME=value, where a value with blanks or # stands in quotes"
    assert found == [f".env:{line}: {advice}" for line in (2, 3, 4, 5)]


def test_a_wrong_value_is_told_with_its_line(file: Path) -> None:
    (found,) = mistakes(file, "# settings\nANTIPHON_SERVER__PORT=many\n")
    assert found.startswith(".env:2: server.port: expected a port number")
    (found,) = mistakes(file, "", ANTIPHON_SERVER__PORT="many")
    assert found.startswith("environment variable ANTIPHON_SERVER__PORT: server.port: expected")


def test_a_file_that_cannot_be_read(file: Path) -> None:
    with pytest.raises(ConfigErrors, match="cannot read the file of variables: No such file"):
        fill_environment(file)
    file.write_bytes(b"A=\xff\n")
    with pytest.raises(ConfigErrors, match="not valid UTF-8"):
        fill_environment(file)


@pytest.mark.parametrize(
    ("text", "environ", "protocol"),
    [
        ("", {}, "ui"),
        ("VERTICE_USE_OPEN_RESPONSES=True\n", {}, "open-responses"),
        ("VERTICE_USE_OPEN_RESPONSES=false\n", {}, "data-v1"),
        ("VERTICE_USE_OPEN_RESPONSES=true\nANTIPHON_CHAT__PROTOCOL=data-v1\n", {}, "data-v1"),
        ("VERTICE_USE_OPEN_RESPONSES=true\n", {"ANTIPHON_CHAT__PROTOCOL": "ui"}, "ui"),
        ("VERTICE_USE_OPEN_RESPONSES=true\n", {"VERTICE_USE_OPEN_RESPONSES": "false"}, "ui"),
    ],
)
def test_the_flag_of_the_chat_route_is_its_protocol(
    file: Path, text: str, environ: dict[str, str], protocol: str
) -> None:
    assert loaded(file, text, **environ).chat.protocol == protocol


# --- variables that a provider's type reads ---------------------------------------------------------------

VERTEX = '[providers.v]\ntype = "vertex"\n'
GOOGLE = {"GOOGLE_CLOUD_PROJECT": "of-the-environment", "VERTEX_AI_LOCATION": "europe-west4"}


def vertex(file: Path, keys: str, **environ: str) -> tuple[object, object]:
    (file.parent / "antiphon.toml").write_text(VERTEX + keys)
    settings = loaded(file, "", **environ).providers["v"]
    return getattr(settings, "project", None), getattr(settings, "location", None)


def test_a_vertex_provider_takes_project_and_location_from_the_environment(file: Path) -> None:
    assert vertex(file, "", **GOOGLE) == ("of-the-environment", "europe-west4")
    assert vertex(file, 'project = "mine"\n', **GOOGLE) == ("mine", "europe-west4")
    assert vertex(file, 'location = "us"\n', **GOOGLE) == ("of-the-environment", "us")
    assert vertex(file, "") == (None, "global")
    assert vertex(file, "", GOOGLE_CLOUD_PROJECT="") == (None, "global")
    assert vertex(file, "", **GOOGLE, ANTIPHON_PROVIDERS__V__PROJECT="ours") == ("ours", "europe-west4")


def test_with_an_api_key_there_is_no_project(file: Path) -> None:
    assert vertex(file, 'api_key = "k"\n', **GOOGLE) == (None, "global")


def test_both_may_stand_in_the_file_and_are_named_as_sources(file: Path) -> None:
    (file.parent / "antiphon.toml").write_text(VERTEX)
    config = loaded(file, "".join(f"{name}={value}\n" for name, value in GOOGLE.items()))
    assert getattr(config.providers["v"], "project", None) == "of-the-environment"
    assert config.variables == tuple(GOOGLE)
    (found,) = mistakes(file, "GOOGLE_CLOUD_PROJECT='a\tb'\n")
    assert found.startswith(".env:1: providers.v.project: expected a text")


def test_other_types_do_not_read_them(file: Path) -> None:
    (file.parent / "antiphon.toml").write_text('[providers.v]\ntype = "gemini"\napi_key = "k"\n')
    assert loaded(file, "", **GOOGLE).variables == ()
