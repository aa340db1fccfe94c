"""`python -m examples.cluster`: two gateways, PostgreSQL and nginx on this machine, until Ctrl-C."""

import argparse
import signal
import sys
import threading
from types import FrameType

from examples.cluster.cluster import Cluster
from examples.cluster.processes import ClusterError

_WHAT_TO_TRY = """\
A cluster is up. Everything goes to nginx: {url}

  PostgreSQL  process {postgres}
  nginx       process {nginx}
{gateways}
What to try, in a second terminal:

  1. Begin a response in the background, and follow it:

     curl -N {url}/v1/responses -H 'Content-Type: application/json' \\
       -d '{{"input": "Count to forty.", "background": true, "stream": true}}'

  2. Kill a gateway while it runs: kill -9 {pid}
     The stream may end, if it went through that gateway. It is started again after five seconds.

  3. Go on from the last number that you have seen, at whichever gateway nginx chooses:

     curl -N '{url}/v1/responses/RESPONSE_ID?stream=true&starting_after=NUMBER'

The clients of Antiphon and OpenAI do the third step for you: docs/many-machines.md.
Ctrl-C stops everything and removes the folder {folder}
"""
_PAUSE = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.cluster", description=__doc__)
    parser.add_argument(
        "--port",
        type=int,
        default=8080,
        help="of nginx; the gateways have those behind it (default 8080; 0 takes any that are free)",
    )
    parser.add_argument("--gateways", type=int, default=2, help="how many (default 2)")
    given = parser.parse_args()
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        with Cluster(port=given.port or None, gateways=given.gateways) as cluster:
            print(_told(cluster), flush=True)
            while not stop.wait(_PAUSE):
                for gateway in cluster.restart_dead():
                    print(f"{gateway.name} had ended; it is process {gateway.process.pid} now", flush=True)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    print("cluster: stopped", flush=True)
    return 0


def _told(cluster: Cluster) -> str:
    assert cluster.nginx is not None
    gateways = "".join(
        f"  {one.name}   process {one.process.pid}, {one.url}, {one.process.log}\n"
        for one in cluster.gateways
    )
    return _WHAT_TO_TRY.format(
        url=cluster.url,
        postgres=cluster.postgres.pid,
        nginx=cluster.nginx.pid,
        gateways=gateways,
        pid=cluster.gateways[0].process.pid,
        folder=cluster.folder,
    )


if __name__ == "__main__":
    sys.exit(main())
