"""What is known after a run of the chaos program: what clients saw, what is stored, and which tools ran."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

Event = dict[str, Any]

_LOGS = """
    SELECT responses.id, responses.status, responses.attempt, events.seq, events.data
    FROM responses LEFT JOIN events ON events.response = responses.key
    ORDER BY responses.key, events.seq
"""


@dataclass(slots=True)
class StoredLog:
    """A stored response, with its events in the order of the log."""

    status: str
    events: list[Event] = field(default_factory=list)
    attempts: int = 1
    """How many processes have worked on it."""


@dataclass(slots=True)
class Followed:
    """All that one client has seen of a response, over all its connections."""

    response: str
    events: list[Event] = field(default_factory=list)
    connections: int = 0


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A hosted function has begun to run. Every call has a key of its own."""

    tool: str
    key: str


@dataclass(slots=True)
class Evidence:
    logs: dict[str, StoredLog] = field(default_factory=dict)
    """All stored responses, by their ids."""
    followed: list[Followed] = field(default_factory=list)
    runs: list[ToolRun] = field(default_factory=list)
    request_of: dict[str, str] = field(default_factory=dict)
    """The request that each response was made for, as its client named it."""


def read_logs(database_url: str) -> dict[str, StoredLog]:
    """Straight from the tables: what the store itself might not show is seen as well."""
    logs: dict[str, StoredLog] = {}
    with psycopg.connect(database_url) as db:
        for id, status, attempt, _, data in db.execute(_LOGS):
            log = logs.setdefault(id, StoredLog(status, attempts=attempt + 1))
            if data is not None:
                log.events += [json.loads(line) for line in bytes(data).split(b"\n")]
    return logs


def count_running(database_url: str) -> int:
    """How many stored responses have not ended."""
    with psycopg.connect(database_url) as db:
        found = db.execute("SELECT count(*) FROM responses WHERE owner IS NOT NULL").fetchone()
        assert found is not None
        return int(found[0])


def read_runs(file: Path) -> list[ToolRun]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [ToolRun(*line.split()) for line in lines]


def requests_of(logs: dict[str, StoredLog]) -> dict[str, str]:
    """The request that each response was made for; clients name it in the metadata."""
    return {id: log.events[0]["response"]["metadata"]["request"] for id, log in logs.items() if log.events}
