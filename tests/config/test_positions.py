"""The scan for positions agrees with `tomllib` on every text that `tomllib` accepts."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.config.mistakes import KeyPath
from antiphon.config.positions import DEPTH_LIMIT, TooDeep, positions

WEIRD = '''\
# a file with everything that is legal
default_model = """
[server]
port = 1 """
"quoted key" . 'and. dotted' = 1   # [not.a.table]
literal = \'\'\'
x = """ \\ \'\'\'\'\'
escaped = "a \\" b # ] } \\\\"
"kl\\u00e4n\\tge" = "x"
when = 1979-05-27 07:32:00Z

[ server . "deep table" ]  # comment = 1
list = [ # first
  1, [ "a,]", 'b#' ], # [ignored]
  { x = 1, y.z = [ ] },
]
inline = { a.b = { "c d" = "}" }, e = [ {}, [] ] }

[[targets]]
name = "one"
[targets.inner]
a = 1
[[targets.parts]]
p = 1
[[targets.parts]]
p = 2
[[targets]]
[targets.inner]
a = 2
[[targets.parts]]
p = 3
'''


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


def agrees(text: str) -> None:
    assert set(positions(text)) == set(paths(tomllib.loads(text)))


def test_weird_file() -> None:
    agrees(WEIRD)
    found = positions(WEIRD)
    assert found[("default_model",)] == (2, 1)
    assert found[("quoted key",)] == (5, 1)
    assert found[("quoted key", "and. dotted")] == (5, 16)
    assert found[("kläntge".replace("t", "\t"),)] == (9, 1)
    assert found[("server", "deep table", "list", 1, 1)] == (14, 15)
    assert found[("server", "deep table", "list", 2, "y", "z")] == (15, 14)
    assert found[("server", "deep table", "inline", "a", "b", "c d")] == (17, 20)
    assert found[("targets", 0, "inner", "a")] == (22, 1)
    assert found[("targets", 0, "parts", 1, "p")] == (26, 1)
    assert found[("targets", 1)] == (27, 3)
    assert found[("targets", 1, "parts", 0, "p")] == (31, 1)


@pytest.mark.parametrize(
    "text", ["", "\n", "# only", "a=1", "a=''", "[a]", "a=[]", "a={}", '""=1', "a.''.b=1"]
)
def test_small_files(text: str) -> None:
    agrees(text)


def test_carriage_returns_are_no_columns() -> None:
    assert positions("a = 1\r\n\r\n[b]\r\nc = 2\r\n") == {("a",): (1, 1), ("b",): (3, 2), ("b", "c"): (4, 1)}


@pytest.mark.parametrize("text", ["a" + ".a" * DEPTH_LIMIT + " = 1", "a = " + "[" * 40 + "]" * 40])
def test_depth_is_limited(text: str) -> None:
    with pytest.raises(TooDeep):
        positions(text)


SCRAPS = [*"[]{}=.,#1ab\"'\\", "[[", "]]", "true", "1.5", '"k"', "''", '"""', "'''"]
LINES = ["\n", " ", "c = 1\n", "[t]\n", "[[u]]\n", "[u.v]\n", '"a]" = {x = [1, 2]}\n', "d.e = ''\n"]
pieces = st.sampled_from(SCRAPS + LINES)


@given(st.lists(pieces, max_size=30).map("".join))
@example('a = """x""""')
@example("a = '''''x'''''")
@example("[[a]]\n[[a.b]]\n[a.b.c]\n[[a]]\n[[a.b]]\nx.y=[{z=1}]")
def test_agrees_with_tomllib_on_scraps(text: str) -> None:
    try:
        tomllib.loads(text)
    except ValueError:
        return
    agrees(text)


@given(st.data())
def test_agrees_with_tomllib_on_mutated_files(data: st.DataObject) -> None:
    text = WEIRD
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + data.draw(pieces) + text[end:]
    try:
        tomllib.loads(text)
    except ValueError:
        return
    agrees(text)


keys = st.text(min_size=0, max_size=5)
scalars = st.sampled_from(
    ["1", "-0.5", "true", "1979-05-27", "07:32:00", '"x # ]"', "'{'", '"""\n"]\n"""', "''''a'''"]
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: "[ " + ", # c\n ".join([*parts, ""]) + "]")
        | st.lists(st.tuples(keys, inner), max_size=3, unique_by=lambda pair: pair[0]).map(
            lambda pairs: "{ " + ", ".join(f"{quoted(key)} = {value}" for key, value in pairs) + " }"
        )
    ),
    max_leaves=6,
)


def quoted(key: str) -> str:
    return '"' + "".join(f"\\U{ord(letter):08X}" for letter in key) + '"'


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["[{}]", "[[{}]]"]),
            st.lists(keys, min_size=1, max_size=3),
            st.lists(st.tuples(st.lists(keys, min_size=1, max_size=2), values), max_size=3),
        ),
        max_size=4,
    )
)
def test_agrees_with_tomllib_on_generated_files(tables: list[Any]) -> None:
    lines = []
    for header, name, pairs in tables:
        lines.append(header.format(" . ".join(map(quoted, name))))
        lines.extend(f"{' . '.join(map(quoted, key))} = {value}" for key, value in pairs)
    text = "\n".join(lines)
    try:
        tomllib.loads(text)
    except ValueError:
        return
    agrees(text)
