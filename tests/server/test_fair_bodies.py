"""Large bodies of one tenant keep no other from being answered."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from antiphon.spec.limits import LARGE
from antiphon.wires import worker_thread
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import until
from tests.server.upstream import Upstream

MANY = 6


def test_large_bodies_of_one_tenant_do_not_all_come_before_anothers(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml + key_table("alice") + key_table("bob"))
    thread, gate = worker_thread._thread, Event()
    held = thread.submit("", gate.wait)

    def ask(tenant: str) -> None:
        # A tenant's own turn is a message of its own, so that the upstream sees whose it is.
        given = [{"role": "user", "content": tenant}, {"role": "user", "content": "x" * LARGE}]
        server.client(f"sk-{tenant}").create(input=given, store=False)

    with ThreadPoolExecutor(MANY + 1) as pool:
        alice = [pool.submit(ask, "alice") for _ in range(MANY)]
        until(lambda: len(thread._waiting.get("alice", ())) == MANY)
        bob = pool.submit(ask, "bob")
        until(lambda: "bob" in thread._waiting)
        gate.set()
        order = []
        for _ in range(MANY + 1):
            call = upstream.next()
            order.append(call.body["messages"][0]["content"])
            call.finish_whole("fine")
        held.result()
        for asked in (*alice, bob):
            asked.result()
    assert order.index("bob") <= 2
