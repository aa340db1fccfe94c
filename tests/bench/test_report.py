"""The tables that are written into bench/README.md, and the plots."""

from pathlib import Path

import pytest

from bench import report
from bench.figures import TIMES, Figure, Part, Place, Run

PAGE = "\n".join(
    f"before {name}\n<!-- {name} -->\nold\n<!-- /{name} -->\nafter {name}"
    for name in ("budget", "figures", "machine")
)


def run(name: str, part: str = "gateway", *values: float) -> Run:
    return Run({part: Part("2026-01-01", "a machine", 0.25, 12.0, {name: Figure(TIMES, list(values))})})


def test_only_what_stands_between_the_markers_is_written() -> None:
    made = report.filled(PAGE, run("plain request, ours / nginx", "gateway", 7.0, 7.5, 8.5))
    assert "old" not in made
    for name in ("budget", "figures", "machine"):
        assert f"before {name}\n<!-- {name} -->\n" in made
        assert f"\n<!-- /{name} -->\nafter {name}" in made
    assert "| gateway | 2026-01-01 | 12 | 0.25 |" in made
    assert report.filled(made, run("plain request, ours / nginx", "gateway", 7.0, 7.5, 8.5)) == made


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="no place for the table 'budget'"):
        report.filled("nothing", Run({}))


@pytest.mark.parametrize(("value", "verdict"), [(7.9, "| met |"), (8.1, "| **not met** |")])
def test_the_median_is_held_against_the_budget(value: float, verdict: str) -> None:
    lines = report.budget(run("plain request, ours / nginx", "gateway", 1.0, value, 99.0))
    (line,) = [line for line in lines if line.startswith("| plain request, of nginx")]
    assert line.endswith(verdict)


def test_what_was_not_measured_is_called_so() -> None:
    lines = report.budget(Run({}))
    assert len(lines) == 2 + len(report.BUDGET)
    assert all("not measured" in line for line in lines[2:])


def test_a_least_is_a_lower_bound() -> None:
    row = report.Budget("tokens", "embedded", "x", least=0.97)
    assert row.met(Figure(TIMES, [0.98]))
    assert not row.met(Figure(TIMES, [0.96]))


def test_every_line_of_the_budget_and_every_chart_has_a_figure_that_is_kept() -> None:
    """A figure whose name changes would otherwise leave the table silently."""
    kept = Run.load(report.KEPT)
    optional = "litellm"
    assert [
        row.work
        for row in report.BUDGET
        if optional not in row.figure and kept.figure(row.part, row.figure) is None
    ] == []
    for plot in report.PLOTTED:
        assert (report.PLOTS / plot.file).read_text() == report.drawn(plot, kept)


def test_the_page_shows_the_figures_that_are_kept() -> None:
    page = report.README.read_text()
    assert report.filled(page, Run.load(report.KEPT)) == page
    for plot in report.PLOTTED:
        assert f"](../docs/figures/{plot.file})" in page


def test_a_chart_has_a_line_for_each_contender() -> None:
    plot = report.Plot("c", "bodies", "c.svg", "title", "across", "up")
    figures = {
        f"{who} {x}": Figure("µs", [x * 2.0], place=Place("c", who, x))
        for who in ("one", "two")
        for x in (1, 10)
    }
    made = report.drawn(plot, Run({"bodies": Part("2026-01-01", "m", 0, 1, figures)}))
    assert made.count("<polyline") == 2
    assert made.count("<circle") == 4


def test_updating_replaces_a_part_and_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file in (("README", "README.md"), ("KEPT", "figures.json"), ("PLOTS", "plots")):
        monkeypatch.setattr(report, name, tmp_path / file)
    report.README.write_text(PAGE)
    first = run("plain request, ours / nginx", "gateway", 20.0)
    second = run("plain, added p50, ours / nginx", "latency", 5.0)
    report.update(first)
    report.update(second)
    assert Run.load(report.KEPT).parts == {**first.parts, **second.parts}
    page = report.README.read_text()
    assert f"20.0 {TIMES}" in page
    assert f"5.00 {TIMES}" in page
