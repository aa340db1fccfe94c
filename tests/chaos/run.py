"""A run of the chaos program: a cluster, clients that ask and follow, faults, and then the checker."""

import asyncio
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psycopg

from examples.cluster.cluster import Cluster, ClusterGateway
from examples.cluster.processes import ClusterError
from tests.chaos import functions, gateway, plan
from tests.chaos.checker import Breach, check
from tests.chaos.clients import FollowingClient, Refused
from tests.chaos.evidence import Evidence, Followed, count_running, read_logs, read_runs, requests_of
from tests.chaos.plan import Fault, Kind

SERVE = (sys.executable, "-m", "tests.chaos.gateway", "serve")
CONFIG = Path(__file__).parent / "gateway.toml"
PATIENCE = 90.0
"""Seconds after the last fault until everything must have ended."""
_SHOWN = 6000
"""Characters of a gateway's log that are shown of a request which it refused."""
_TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    seconds: float
    seed: int = 1
    gateways: int = 3
    clients: int = 8
    """How many responses are asked for at once."""
    kinds: tuple[Kind, ...] = tuple(plan.ABOUT)
    is_fenced: bool = True


@dataclass(slots=True)
class ChaosResult:
    evidence: Evidence
    breaches: list[Breach]
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        logs, followed = self.evidence.logs.values(), self.evidence.followed
        taken = sum(1 for log in logs if log.attempts > 1)
        ran = Counter(run.tool for run in self.evidence.runs)
        lines = [
            f"faults      {_counted(self.faults)}",
            f"responses   {len(logs)}: {_counted(Counter(log.status for log in logs))}; "
            f"{taken} were taken over, {sum(log.attempts - 1 for log in logs)} times in all",
            f"events      {sum(len(log.events) for log in logs)}",
            f"clients     {len(followed)}, over {sum(seen.connections for seen in followed)} connections",
            f"tools ran   {_counted(ran)}",
            f"breaches    {len(self.breaches)}",
            *(f"  {breach}" for breach in self.breaches[:50]),
        ]
        return "\n".join(lines)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


async def run(options: ChaosOptions) -> ChaosResult:
    with TemporaryDirectory(prefix="antiphon-chaos-") as folder:
        runs = Path(folder) / "runs"
        environment = {functions.RUNS: str(runs), gateway.UNFENCED: "" if options.is_fenced else "1"}
        with Cluster(
            gateways=options.gateways,
            has_proxy=False,
            config=CONFIG,
            command=SERVE,
            environment=environment,
            postgres={"fsync": "off", "shared_buffers": "64MB"},
        ) as cluster:
            chaos = _Chaos(cluster, options)
            followed = await chaos.carry_out()
            logs = read_logs(cluster.database_url)
            evidence = Evidence(logs, followed, read_runs(runs), requests_of(logs))
            breaches = [*chaos.refused, *check(evidence, functions.ONCE)]
            return ChaosResult(evidence, breaches, chaos.done)


class _Chaos:
    """The faults and the clients of one run."""

    def __init__(self, cluster: Cluster, options: ChaosOptions) -> None:
        self.done: Counter[str] = Counter()
        self.refused: list[Breach] = []
        self._cluster = cluster
        self._options = options
        self._ends = time.monotonic() + options.seconds
        self._requests = plan.requests(options.seed)
        self._followed: list[Followed] = []
        self._mending: dict[str, asyncio.Task[None]] = {}

    async def carry_out(self) -> list[Followed]:
        limits = httpx.Limits(max_keepalive_connections=0)
        timeout = httpx.Timeout(10.0, read=30.0)
        async with httpx.AsyncClient(trust_env=False, limits=limits, timeout=timeout) as http:
            asking = [asyncio.create_task(self._ask(http)) for _ in range(self._options.clients)]
            try:
                await self._faults()
                with suppress(TimeoutError):  # the checker finds what has not ended
                    async with asyncio.timeout(PATIENCE):
                        await asyncio.gather(*asking)
                        await self._ended()
            finally:
                for task in asking:
                    task.cancel()
                await asyncio.gather(*asking, return_exceptions=True)
        return [seen for seen in self._followed if seen.events]

    async def _ask(self, http: httpx.AsyncClient) -> None:
        while time.monotonic() < self._ends:
            request = next(self._requests)
            seen, is_known = self._new_follower(), asyncio.Event()
            try:
                async with asyncio.TaskGroup() as clients:
                    clients.create_task(self._client(http, request.name).ask(request, seen, is_known))
                    for n in range(request.followers):
                        client = self._client(http, f"{request.name} {n}")
                        clients.create_task(self._follow(client, seen, is_known, request.cuts))
            except* Refused as group:
                for error in group.exceptions:
                    assert isinstance(error, Refused)
                    self._tell(request.name, error)

    def _tell(self, request: str, error: Refused) -> None:
        """At once, with what the gateway has logged of it: its log is removed at the end."""
        self.refused.append(Breach("refused", request, str(error)))
        process = next(one.process for one in self._cluster.gateways if one.url == error.url)
        logged = process.log.read_text(encoding="utf-8", errors="replace")
        start = logged.find(error.request_id) if error.request_id else -1
        shown = process.last_words() if start < 0 else logged[logged.rfind("\n", 0, start) + 1 :][:_SHOWN]
        print(f"{self.refused[-1]}\n{shown}", flush=True)

    def _client(self, http: httpx.AsyncClient, name: str) -> FollowingClient:
        return FollowingClient(http, [one.url for one in self._cluster.gateways], name)

    async def _follow(
        self, client: FollowingClient, first: Followed, is_known: asyncio.Event, cuts: float
    ) -> None:
        """A further client, from the first event on."""
        await is_known.wait()
        seen = self._new_follower()
        seen.response = first.response
        await client.follow(seen, cuts)

    def _new_follower(self) -> Followed:
        self._followed.append(Followed(""))
        return self._followed[-1]

    async def _ended(self) -> None:
        """Wait until no response runs any more."""
        while True:
            if not await asyncio.to_thread(count_running, self._url):
                return
            await asyncio.sleep(0.2)

    @property
    def _url(self) -> str:
        return self._cluster.database_url

    # --- faults -------------------------------------------------------------------------------------------

    async def _faults(self) -> None:
        try:
            for fault in plan.faults(self._options.seed, self._options.gateways, self._options.kinds):
                if time.monotonic() + fault.after > self._ends:
                    break
                await asyncio.sleep(fault.after)
                await self._carry_out(fault)
            await asyncio.sleep(max(0.0, self._ends - time.monotonic()))
        finally:
            await asyncio.gather(*self._mending.values())

    async def _carry_out(self, fault: Fault) -> None:
        """A fault waits until what it breaks is whole, and until another gateway is left to go on."""
        if fault.kind in ("restart", "crash"):
            what, one = "postgres", self._cluster.gateways[0]
            if self._is_broken(what):
                await self._mending[what]
        else:
            one = await self._whole_gateway(fault.gateway)
            what = one.name
        self.done[fault.kind] += 1
        self._mending[what] = asyncio.create_task(self._break_and_mend(fault, one))

    async def _whole_gateway(self, number: int) -> ClusterGateway:
        gateways = self._cluster.gateways
        while len(whole := [one for one in gateways if not self._is_broken(one.name)]) < 2:
            broken = {self._mending[one.name] for one in gateways if one not in whole}
            await asyncio.wait(broken, return_when=asyncio.FIRST_COMPLETED)
        return whole[number % len(whole)]

    def _is_broken(self, what: str) -> bool:
        return what in self._mending and not self._mending[what].done()

    async def _break_and_mend(self, fault: Fault, one: ClusterGateway) -> None:
        match fault.kind:
            case "kill":
                await self._kill(one, fault.lasts)
            case "pause":
                await self._pause(one, fault.lasts)
            case "cut":
                await self._cut(one)
            case "restart":
                await self._restart(signal.SIGINT, fault.lasts)
            case "crash":
                await self._restart(signal.SIGQUIT, fault.lasts)

    async def _kill(self, one: ClusterGateway, lasts: float) -> None:
        one.process.kill()
        await asyncio.sleep(lasts)
        while not one.process.is_running:
            with suppress(ClusterError):  # it ends at once while PostgreSQL is away
                await asyncio.to_thread(one.start)

    async def _pause(self, one: ClusterGateway, lasts: float) -> None:
        one.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(lasts)
        finally:
            one.process.send_signal(signal.SIGCONT)

    async def _cut(self, one: ClusterGateway) -> None:
        with suppress(psycopg.OperationalError):  # PostgreSQL is away
            async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as db:
                await db.execute(_TERMINATE, (one.name,))

    async def _restart(self, how: signal.Signals, lasts: float) -> None:
        await asyncio.to_thread(self._cluster.postgres.stop, how)
        await asyncio.sleep(lasts)
        await asyncio.to_thread(self._cluster.postgres.start)
