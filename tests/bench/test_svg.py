"""The charts: well-formed, with every point inside the frame and in its place."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, chart, number, timeline

SVG = "{http://www.w3.org/2000/svg}"
values = st.floats(1e-3, 1e9)
points = st.lists(st.tuples(values, values), min_size=1, max_size=8)
names = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=12)


@given(st.dictionaries(names, points, min_size=1, max_size=4), names)
def test_every_point_lies_inside_the_frame(lines: dict[str, list[tuple[float, float]]], title: str) -> None:
    root = ElementTree.fromstring(chart(title, "across", "up", lines))
    circles = root.findall(f"{SVG}circle")
    assert len(circles) == sum(map(len, lines.values()))
    for circle in circles:
        assert LEFT - 0.1 <= float(circle.attrib["cx"]) <= WIDTH - RIGHT + 0.1
        assert TOP - 0.1 <= float(circle.attrib["cy"]) <= HEIGHT - BOTTOM + 0.1
    told = [text.text for text in root.iter(f"{SVG}text")]
    assert {title, "across", "up", *lines} <= set(told)


@given(st.lists(values, min_size=2, max_size=9, unique=True))
def test_a_larger_value_lies_further_along(some: list[float]) -> None:
    axis = Axis.over(some, 0, 1000)
    places = [axis.at(value) for value in sorted(some)]
    assert places == sorted(places)


@given(st.lists(values, min_size=1, max_size=9))
def test_an_axis_has_ticks_and_all_of_them_on_it(some: list[float]) -> None:
    axis = Axis.over(some, 0, 1000)
    ticks = [axis.at(tick) for tick in axis.ticks()]
    assert ticks
    assert all(-1 <= tick <= 1001 for tick in ticks)


def test_points_are_joined_from_left_to_right() -> None:
    root = ElementTree.fromstring(chart("t", "x", "y", {"one": [(100, 5), (1, 1), (10, 3)]}))
    (line,) = root.findall(f"{SVG}polyline")
    xs = [float(point.split(",")[0]) for point in line.attrib["points"].split()]
    assert xs == sorted(xs)


def test_the_same_figures_make_the_same_bytes() -> None:
    lines = {"one": [(1.0, 2.0), (10.0, 3.0)]}
    assert chart("t", "x", "y", lines) == chart("t", "x", "y", lines)


@pytest.mark.parametrize("lines", [{}, {"one": []}, {"one": [(0.0, 1.0)]}, {"one": [(1.0, -1.0)]}])
def test_what_has_no_logarithm_is_refused(lines: dict[str, list[tuple[float, float]]]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        chart("t", "x", "y", lines)


@pytest.mark.parametrize(("value", "text"), [(1e6, "1M"), (20_000, "20k"), (0.5, "0.5"), (30, "30")])
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=8))
def test_what_happened_over_time_lies_inside_the_frame(some: list[tuple[float, float]]) -> None:
    root = ElementTree.fromstring(timeline("title", "seconds", "requests", {"one": some}))
    (line,) = root.findall(f"{SVG}polyline")
    for place in line.attrib["points"].split():
        x, y = map(float, place.split(","))
        assert LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1
        assert TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1
