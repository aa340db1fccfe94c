"""`python -m tests.chaos.gateway serve …`: a gateway as users start it, whose fencing can be switched off.

Only the chaos program does that, by an environment variable of its own, to see that its checker notices.
"""

import os
import sys

from antiphon.cli import main

UNFENCED = "CHAOS_UNFENCED"
_BATCH_FENCE = "AND responses.owner = given.owner AND responses.attempt = given.attempt"
_ROW_FENCE = "owner = %s AND attempt = %s"
_ANY_ROW = "(owner = %s OR true) AND (attempt = %s OR true)"
_NUMBER_FENCE = "ON CONFLICT DO NOTHING"
_LAST_WINS = "ON CONFLICT (response, seq) DO UPDATE SET last = excluded.last, data = excluded.data"


def switch_fencing_off() -> None:
    """From now on this process writes in any attempt, also over what another process has written."""
    from antiphon.store.postgres import background, event_log

    event_log.LOG_BATCHES = _replaced(event_log.LOG_BATCHES, _BATCH_FENCE, "")
    event_log.LOG_BATCHES = _replaced(event_log.LOG_BATCHES, "data FROM mine", f"data FROM mine {_LAST_WINS}")
    background.MINE = _replaced(
        background.MINE, _ROW_FENCE, "(owner = %s OR true) AND (attempt = %s OR true)"
    )
    background.LOG_HELD = _replaced(background.LOG_HELD, _NUMBER_FENCE, _LAST_WINS)


def _replaced(statement: str, fence: str, by: str) -> str:
    assert fence in statement, "the statement has changed; its fence is elsewhere"
    return statement.replace(fence, by)


if __name__ == "__main__":
    if os.environ.get(UNFENCED):
        switch_fencing_off()
    sys.exit(main())
