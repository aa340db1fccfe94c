"""Fail when a package has fewer of its lines, or of its branches, covered than it must.

    coverage json -o - | python scripts/coverage_floor.py antiphon/spec:95:95 antiphon:90

A floor is PACKAGE:LINES or PACKAGE:LINES:BRANCHES, in percent. The JSON report comes from standard input.
"""

import json
import sys
from pathlib import PurePath
from typing import Any

_COUNTS = {"lines": ("covered_lines", "num_statements"), "branches": ("covered_branches", "num_branches")}


def percent(covered: int, total: int) -> float:
    return 100.0 * covered / total if total else 100.0


def measure(files: dict[str, Any], package: str, kind: str) -> float:
    summaries = [
        report["summary"] for name, report in files.items() if PurePath(name).is_relative_to(package)
    ]
    if not summaries:
        sys.exit(f"coverage: nothing was measured in {package}")
    covered, total = (sum(summary[key] for summary in summaries) for key in _COUNTS[kind])
    return percent(covered, total)


def main() -> None:
    files = json.load(sys.stdin)["files"]
    short = False
    for wanted in sys.argv[1:]:
        package, *floors = wanted.split(":")
        for kind, floor in zip(_COUNTS, map(float, floors), strict=False):
            value = measure(files, package, kind)
            print(f"coverage: {package} {kind} {value:.1f} % (at least {floor:.0f})")
            short = short or value < floor
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
