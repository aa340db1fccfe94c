"""The part `machines`, with counts so small that it only shows that everything is measured."""

import pytest

from bench import machines
from bench.figures import Recorder
from bench.options import Options
from tests.postgres import needs_postgres


def test_without_postgresql_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machines, "find_binaries", lambda: None)
    record = Recorder(Options())
    machines.run(record, Options())
    assert "PostgreSQL is not here" in capsys.readouterr().out
    assert record.part().figures == {}


@needs_postgres
def test_everything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "REQUESTS", 8)
    monkeypatch.setattr(machines, "KILLS_A_ROUND", 1)
    monkeypatch.setattr(machines, "CHAINS", 2)
    options = Options(rounds=1, tokens=5, streams=6, turns=20)
    record = Recorder(options)
    machines.run(record, options)
    figures = record.part().figures
    assert len(figures) == 12
    assert {name for name, figure in figures.items() if figure.median <= 0} <= {
        "followers, behind the first, p50"  # the first of two is not behind itself
    }


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 3.0), (0.99, 4.0), (1.0, 4.0)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert machines.percentile([4.0, 1.0, 3.0, 2.0], share) == value
