"""The judgement of two saved runs: what is compared, and what counts as worse."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.compare import ROUNDS, changes, judge
from bench.figures import TIMES, Figure, Part, Run
from bench.options import Options

ROOT = Path(__file__).parents[2]
STEADY = [4.0, 4.1, 3.9, 4.0, 4.05]
NOISY = [2.0, 9.0, 4.0, 3.0, 7.0]
positive = st.floats(0.01, 1e6)
rounds = st.lists(positive, min_size=1, max_size=9)


def ratio(values: list[float], better: str = "lower") -> Figure:
    return Figure(TIMES, values, "higher" if better == "higher" else "lower")


def run(**figures: Figure) -> Run:
    return Run({"gateway": Part("2026-01-01", "a machine", 0.0, 1.0, figures)})


def test_a_ratio_that_grew_is_worse() -> None:
    change = judge("delta", ratio(STEADY), ratio([value * 1.3 for value in STEADY]))
    assert change.verdict == "worse"
    assert change.factor == pytest.approx(1.3)
    assert 1 < change.low <= change.factor <= change.high


def test_a_ratio_of_which_more_is_better_is_judged_the_other_way_round() -> None:
    more = [value * 1.3 for value in STEADY]
    assert judge("delta", ratio(STEADY, "higher"), ratio(more, "higher")).verdict == "better"
    assert judge("delta", ratio(more, "higher"), ratio(STEADY, "higher")).verdict == "worse"


def test_a_change_within_the_tolerance_is_none() -> None:
    assert judge("delta", ratio(STEADY), ratio([value * 1.03 for value in STEADY])).verdict == "same"


def test_a_change_within_the_noise_is_none() -> None:
    change = judge("delta", ratio(NOISY), ratio([value * 1.3 for value in NOISY]))
    assert change.verdict == "same"
    assert change.low < 1 < change.high


def test_a_figure_without_rounds_has_a_wider_tolerance() -> None:
    def memory(value: float) -> Figure:
        return Figure("kB", [value])

    assert judge("stream", memory(20), memory(21.5)).verdict == "same"
    assert judge("stream", memory(20), memory(23)).verdict == "worse"
    assert judge("stream", memory(20), memory(17)).verdict == "better"
    assert judge("stream", memory(0), memory(0)).verdict == "same"
    assert judge("stream", memory(0), memory(5)).verdict == "worse"


def test_a_ratio_of_few_rounds_is_not_judged() -> None:
    assert judge("delta", ratio([1.0]), ratio([5.0])).verdict == "unsure"
    assert judge("delta", ratio(STEADY), ratio([9.0, 9.0])).verdict == "unsure"


def test_parts_that_were_given_other_work_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = run(delta=ratio(STEADY)), run(delta=ratio(STEADY))
    new.parts["gateway"].options = Options(tokens=7)
    assert list(changes(old, new)) == []
    assert "gateway was given other work" in capsys.readouterr().out


def test_times_of_two_runs_are_not_compared() -> None:
    old, new = run(plain=Figure("µs", [500.0] * 5)), run(plain=Figure("µs", [900.0] * 5))
    assert list(changes(old, new)) == []


def test_only_what_both_runs_have_is_compared() -> None:
    old = run(one=ratio(STEADY), two=ratio(STEADY))
    new = Run({**run(two=ratio(STEADY), three=ratio(STEADY)).parts, "bodies": old.parts["gateway"]})
    assert [change.name for change in changes(old, new)] == ["gateway: two"]


@given(rounds)
def test_a_run_against_itself_has_not_changed(values: list[float]) -> None:
    figure = ratio(values)
    assert judge("any", figure, figure).verdict == ("same" if len(values) >= ROUNDS else "unsure")


@given(rounds, rounds, st.sampled_from(["lower", "higher"]))
def test_what_is_worse_in_one_direction_is_never_worse_in_the_other(
    old: list[float], new: list[float], better: str
) -> None:
    there = judge("any", ratio(old, better), ratio(new, better)).verdict
    back = judge("any", ratio(new, better), ratio(old, better)).verdict
    assert (there, back) != ("worse", "worse")
    assert (there, back) != ("better", "better")


def compare(old: Path, new: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.compare", str(old), str(new)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_command_says_what_got_worse_and_fails(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    run(slow=ratio(STEADY), same=ratio(STEADY)).save(old)
    run(slow=ratio([value * 2 for value in STEADY]), same=ratio(STEADY)).save(new)
    worse = compare(old, new)
    assert worse.returncode == 1
    assert worse.stdout.startswith("worse  gateway: slow")
    assert "2 figures compared: 1 worse, 0 better" in worse.stdout
    assert compare(old, old).returncode == 0


def test_a_file_that_is_no_run_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text('{"parts": 1}')
    refused = compare(file, file)
    assert refused.returncode == 1
    assert "holds no saved run" in refused.stderr
    assert "Traceback" not in refused.stderr


@given(st.dictionaries(st.text(max_size=20), rounds, max_size=4))
def test_a_saved_run_is_read_back_as_it_was(values: dict[str, list[float]]) -> None:
    made = run(**{name: ratio(some) for name, some in values.items()})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        made.save(file)
        assert Run.load(file) == made
