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


def test_large_bodies_wait_for_those_of_their_tenant_alone(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "fine"
    server = serve(upstream.toml + key_table("alice") + key_table("bob"))
    thread, gate = worker_thread._thread, Event()
    held = thread.submit("", gate.wait)

    def ask(tenant: str) -> None:
        server.client(f"sk-{tenant}").create(input="x" * LARGE, store=False)

    with ThreadPoolExecutor(MANY + 1) as pool:
        asked = [pool.submit(ask, "alice") for _ in range(MANY)]
        try:
            until(lambda: len(thread._waiting.get("alice", ())) == MANY)
            asked.append(pool.submit(ask, "bob"))
            until(lambda: len(thread._waiting.get("bob", ())) == 1)
        finally:
            gate.set()
        held.result()
        for one in asked:
            one.result()
