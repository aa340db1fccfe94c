"""Fail when a package named on the command line has fewer than 95 % of its lines or of its branches covered.

Reads the JSON report of coverage from standard input.
"""

import json
import sys
from pathlib import PurePath
from typing import Any

FLOOR = 95.0


def percent(covered: int, total: int) -> float:
    return 100.0 * covered / total if total else 100.0


def measure(files: dict[str, Any], package: str) -> dict[str, float]:
    summaries = [
        report["summary"] for name, report in files.items() if PurePath(name).is_relative_to(package)
    ]
    if not summaries:
        sys.exit(f"coverage: nothing was measured in {package}")

    def total(key: str) -> int:
        return sum(summary[key] for summary in summaries)

    return {
        "lines": percent(total("covered_lines"), total("num_statements")),
        "branches": percent(total("covered_branches"), total("num_branches")),
    }


def main() -> None:
    files = json.load(sys.stdin)["files"]
    short = False
    for package in sys.argv[1:]:
        for kind, value in measure(files, package).items():
            print(f"coverage: {package} {kind} {value:.1f} % (at least {FLOOR:.0f})")
            short = short or value < FLOOR
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
