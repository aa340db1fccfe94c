"""What several machines cost: a stored request and a long chain on PostgreSQL, takeovers, many followers.

All of it runs on this one machine, with a PostgreSQL of its own that writes as durably as it comes. CPU time
is that of the gateway's process and of all processes of PostgreSQL.
"""

import secrets
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from antiphon.store.postgres.store import PostgresStore
from bench import load
from bench.chain import EARLY, save_turn
from bench.contenders import OURS, Contender, folder, ours, start_ours, upstream
from bench.figures import Recorder
from bench.following import followed, takeovers
from bench.gateway import PLAIN_TOKENS
from bench.measure import SETTLE, Work, check, micro, verify
from bench.options import Options
from bench.processes import tree_cpu
from examples.cluster.postgres_server import PostgresServer, find_binaries

SQLITE, POSTGRES = "SQLite", "PostgreSQL"
ON_SQLITE, ON_POSTGRES, IN_POSTGRES = "SQLite", "PostgreSQL, the gateway", "PostgreSQL, the database"
REQUESTS = 400
KILLS_A_ROUND = 4
CHAINS = 10
"""How many turns are measured in one go: at the end of short chains, and at that of a long one."""
_STREAMS_A_FOLLOWER = 2
"""Of those that `memory` holds open: 500 followers by default."""
_WORK = Work("plain request", f"each-{PLAIN_TOKENS}", False, 1, {OURS: REQUESTS})


def run(record: Recorder, options: Options) -> None:
    if find_binaries() is None:
        print("bench: PostgreSQL is not here, so nothing is measured (on Debian: apt install postgresql)")
        return
    with folder() as where:
        where.chmod(0o711)  # for the user of PostgreSQL
        server = PostgresServer(where / "pg")
        server.start()
        try:
            _plain(record, options, where, server)
            server.execute("CREATE DATABASE chains")
            costs = load.run(_chains(server.url("chains"), server.pid, options))
        finally:
            server.stop()
    _tell_chains(record, options.turns, costs)
    times = [seconds * 1000 for seconds in takeovers(KILLS_A_ROUND * options.rounds)]
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        figure = record.add(f"kill -9 to the next delta, {name}", [percentile(times, share)], "ms")
        print(f"kill -9 to the next delta, {name} of {len(times)}: {figure} ms")
    count = max(options.streams // _STREAMS_A_FOLLOWER, 1)
    behind, cpu = load.run(followed(count, options.tokens))
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        figure = record.add(f"followers, behind the first, {name}", [percentile(behind, share) * 1000], "ms")
        print(f"{count} followers of one response, behind the first of them, {name}: {figure} ms")
    figure = record.add("followers, CPU of the gateways for an event", [cpu * 1e6], "µs")
    print(f"CPU of the gateways for an event of one follower: {figure} µs")


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


# --- a plain request --------------------------------------------------------------------------------------


def _plain(record: Recorder, options: Options, where: Path, server: PostgresServer) -> None:
    server.execute("CREATE DATABASE plain")
    shared = {
        "ANTIPHON_STORE__URL": server.url("plain"),
        "ANTIPHON_SEALING__KEYS": f'["{b64encode(secrets.token_bytes(32)).decode()}"]',
    }
    with (
        upstream(where) as behind,
        start_ours(where / "sqlite", behind.port) as on_sqlite,
        start_ours(where / "postgres", behind.port, env=shared) as on_postgres,
    ):
        made = {SQLITE: ours(on_sqlite), POSTGRES: ours(on_postgres)}
        for one in made.values():
            one.program.wait_until_up("/healthz")
            verify(one, _WORK)
        rounds = [_round(made, turn, server.pid) for turn in range(options.rounds)]
    print(f"CPU µs of a stored plain request, medians of {options.rounds} interleaved rounds")
    for name in rounds[0]:
        figure = record.add(f"plain request, {name}", micro([spent[name] for spent in rounds]), "µs")
        print(f"{name:<40}{figure!s:>24}")
    upper = [spent[ON_POSTGRES] + spent[IN_POSTGRES] for spent in rounds]
    ratio = record.ratio(
        "plain request, PostgreSQL with its database / SQLite", upper, [spent[ON_SQLITE] for spent in rounds]
    )
    print(f"{'PostgreSQL with its database / SQLite':<40}{ratio!s:>24}")


def _round(made: Mapping[str, Contender], turn: int, postgres: int) -> dict[str, float]:
    """CPU seconds of a request, by where they were spent."""
    spent = dict.fromkeys((ON_SQLITE, ON_POSTGRES, IN_POSTGRES), 0.0)
    for store in (SQLITE, POSTGRES) if turn % 2 else (POSTGRES, SQLITE):
        one = made[store]
        gateway, database = one.program.cpu(), tree_cpu(postgres)
        request = one.request(_WORK.model, stream=False)
        outcome = load.run(load.send(request, count=REQUESTS, connections=_WORK.connections, limit=20))
        time.sleep(SETTLE)
        gateway, database = one.program.cpu() - gateway, tree_cpu(postgres) - database
        check(one, _WORK.name, outcome)
        if store == SQLITE:
            spent[ON_SQLITE] = gateway / outcome.answers
        else:
            spent[ON_POSTGRES], spent[IN_POSTGRES] = gateway / outcome.answers, database / outcome.answers
    return spent


# --- a long chain -----------------------------------------------------------------------------------------


async def _chains(url: str, postgres: int, options: Options) -> tuple[list[float], list[float]]:
    """CPU seconds of a turn, here and in PostgreSQL: turn 10 of new chains, and a turn of a long one.

    Nothing is cached, so that each turn reads its whole context.
    """
    store = await PostgresStore.open(url, cache_bytes=0)

    def spent() -> float:
        return time.process_time() + tree_cpu(postgres)

    async def grown(length: int) -> str:
        head = await save_turn(store, None)
        for _ in range(length - 1):
            head = await save_turn(store, head)
        return head

    try:
        long = await grown(options.turns - CHAINS * options.rounds)
        early, late = [], []
        for _ in range(options.rounds):
            heads = [await grown(EARLY - 1) for _ in range(CHAINS)]
            before = spent()
            for head in heads:
                await save_turn(store, head)
            between = spent()
            for _ in range(CHAINS):
                long = await save_turn(store, long)
            early.append((between - before) / CHAINS)
            late.append((spent() - between) / CHAINS)
        return early, late
    finally:
        await store.close()


def _tell_chains(record: Recorder, turns: int, costs: tuple[list[float], list[float]]) -> None:
    early, late = map(micro, costs)
    first = record.add(f"turn {EARLY} on PostgreSQL", early, "µs")
    last = record.add(f"turn {turns:,} on PostgreSQL", late, "µs")
    ratio = record.ratio(f"turn {turns:,} / turn {EARLY} on PostgreSQL", late, early)
    print(f"CPU µs of storing turn {EARLY}: {first}; turn {turns:,}: {last}; ratio {ratio}")
