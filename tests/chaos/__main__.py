"""`python -m tests.chaos`: background responses while gateways are killed and PostgreSQL is restarted.

Afterwards nothing may be lost, doubled or unfinished. The same seed makes the same plan.
"""

import argparse
import asyncio
import sys

from tests.chaos.plan import ABOUT
from tests.chaos.run import ChaosOptions, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=900.0, help="how long (default 900)")
    parser.add_argument("--seed", type=int, default=1, help="of the plan (default 1)")
    parser.add_argument("--gateways", type=int, default=3, help="how many (default 3)")
    parser.add_argument("--clients", type=int, default=8, help="responses at once (default 8)")
    parser.add_argument(
        "--only", choices=list(ABOUT), action="append", help="a kind of fault; may be repeated (default all)"
    )
    parser.add_argument(
        "--unfenced", action="store_true", help="without fencing, to see that breaches are found"
    )
    given = parser.parse_args()
    options = ChaosOptions(
        given.seconds,
        given.seed,
        given.gateways,
        given.clients,
        tuple(given.only or ABOUT),
        not given.unfenced,
    )
    print(f"{given.seconds:g} seconds, seed {given.seed}, {given.gateways} gateways", flush=True)
    for kind in options.kinds:
        print(f"  {kind:<8} {ABOUT[kind]}")
    result = asyncio.run(run(options))
    print(result)
    return 1 if result.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
