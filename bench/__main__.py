"""`python -m bench`: all the benchmarks, or the parts that are named."""

import argparse
import sys

PARTS = ("startup", "composer", "upstream", "gateway", "memory", "chain")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default all")
    parser.add_argument(
        "--rounds", type=int, default=7, help="interleaved rounds of upstream and gateway (default 7)"
    )
    parser.add_argument("--tokens", type=int, default=400, help="deltas in a stream (default 400)")
    parser.add_argument("--streams", type=int, default=500, help="streams held open by memory (default 500)")
    parser.add_argument("--turns", type=int, default=1000, help="length of the chain (default 1000)")
    parser.add_argument("--long", action="store_true", help="memory: ten minutes and a million deltas")
    parser.add_argument("--no-install", action="store_true", help="do not install nginx if it is missing")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    if not sys.platform.startswith("linux"):
        parser.error("the figures come from /proc, so this runs on Linux only")
    for part in options.parts or PARTS:
        print(f"\n== {part}", flush=True)
        _run(part, options)


def _run(part: str, options: argparse.Namespace) -> None:
    # Each part imports what it measures by itself, so that one can run while another is broken.
    if part == "startup":
        from bench import startup

        startup.run(rounds=5)
    elif part == "composer":
        from bench import composer

        composer.main()
    elif part == "upstream":
        from bench import exchanges

        exchanges.run(rounds=options.rounds, tokens=options.tokens)
    elif part == "gateway":
        from bench import gateway

        gateway.run(rounds=options.rounds, tokens=options.tokens, install=not options.no_install)
    elif part == "memory":
        from bench import memory

        memory.run(streams=options.streams, long=options.long)
    else:
        from bench import chain

        chain.run(turns=options.turns)


if __name__ == "__main__":
    main()
