"""`python -m bench`: all the benchmarks, or the parts that are named."""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from bench.figures import Recorder, Run
from bench.options import Options

# Each part is imported when it runs, so that one can run while another is broken.
PARTS = {
    "startup": "startup",
    "composer": "composer",
    "bridges": "bridges",
    "providers": "providers",
    "upstream": "exchanges",
    "gateway": "gateway",
    "wires": "wires",
    "latency": "latency",
    "concurrency": "concurrency",
    "bodies": "bodies",
    "workers": "workers",
    "routes": "routes",
    "callbacks": "callbacks",
    "memory": "memory",
    "chain": "chain",
    "machines": "machines",
    "hosted": "hosted",
    "terminal": "terminal",
    "web": "web",
    "embedded": "embedded",
    "knowledge": "knowledge",
}


def main() -> None:
    names = ", ".join(PARTS)
    defaults = Options()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {names}; default all")
    parser.add_argument("--rounds", type=int, default=defaults.rounds, help="interleaved rounds (default 5)")
    parser.add_argument("--tokens", type=int, default=defaults.tokens, help="deltas a stream (default 400)")
    parser.add_argument(
        "--streams", type=int, default=defaults.streams, help="streams that memory holds open (default 1000)"
    )
    parser.add_argument(
        "--turns", type=int, default=defaults.turns, help="length of the chain (default 1000)"
    )
    parser.add_argument("--long", action="store_true", help="memory: ten minutes and a million deltas")
    parser.add_argument("--no-install", action="store_true", help="do not install nginx if it is missing")
    parser.add_argument(
        "--litellm",
        action="store_true",
        help="gateway: also LiteLLM's proxy, installed in the user's cache",
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="save the figures as JSON")
    parser.add_argument(
        "--write", action="store_true", help="put the figures into bench/README.md and draw docs/figures"
    )
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {names}")
    if not sys.platform.startswith("linux"):
        parser.error("the figures come from /proc, so this runs on Linux only")
    options = Options(
        rounds=given.rounds,
        tokens=given.tokens,
        streams=given.streams,
        turns=given.turns,
        long=given.long,
        install=not given.no_install,
        litellm=given.litellm,
    )
    run = Run({})
    for name in given.parts or PARTS:
        print(f"\n== {name}", flush=True)
        record = Recorder(options)
        import_module(f"bench.{PARTS[name]}").run(record, options)
        part = run.parts[name] = record.part()
        print(
            f"({part.seconds:.0f} s; other programs kept {part.busy:.1f} of {os.cpu_count()} processors busy)"
        )
        if given.save:  # after each part, so that a long run that is stopped has not been in vain
            run.save(given.save)
    if given.write:
        report = import_module("bench.report")
        report.update(run)


if __name__ == "__main__":
    main()
