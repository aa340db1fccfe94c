"""45 seconds of chaos: nothing is lost, doubled or unfinished; without fencing, the checker says so."""

import asyncio

from tests.chaos.run import ChaosOptions, run
from tests.postgres import needs_postgres

pytestmark = needs_postgres


def test_every_promise_is_kept_while_machines_fail() -> None:
    result = asyncio.run(run(ChaosOptions(45.0, gateways=2, clients=6)))
    print(result)
    assert result.breaches == []
    # On a busy machine a gateway takes long to start, and a fault waits until one has.
    assert len(result.faults) > 2
    assert any(log.attempts > 1 for log in result.evidence.logs.values()), "nothing was taken over"
    assert any(seen.connections > 1 for seen in result.evidence.followed), "nobody had to come back"


def test_without_fencing_the_checker_finds_breaches() -> None:
    """A gateway that was stopped for a while goes on writing what is another's by then."""
    options = ChaosOptions(15.0, gateways=2, clients=6, kinds=("pause",), is_fenced=False)
    result = asyncio.run(run(options))
    assert {"duplicate", "terminal events", "changed"} & {breach.kind for breach in result.breaches}
