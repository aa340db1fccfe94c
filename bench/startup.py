"""How long it takes until there is something: `import antiphon`, and the first answered `/healthz`."""

import statistics
import subprocess
import sys

from bench.contenders import folder, start_ours, upstream

_IMPORT = "import time; t = time.perf_counter(); import antiphon; print(time.perf_counter() - t)"


def run(*, rounds: int) -> None:
    imports = [_import() for _ in range(rounds)]
    starts: list[float] = []
    cpu: list[float] = []
    with folder() as where, upstream(where) as behind:
        for n in range(rounds):
            with start_ours(where / f"start-{n}", behind.port) as program:
                starts.append(program.wait_until_up("/healthz"))
                cpu.append(program.cpu())
    for name, seconds, aim in (
        ("import antiphon", imports, "aim < 150"),
        ("start to first /healthz", starts, "aim < 1000"),
        ("CPU time until then", cpu, ""),
    ):
        middle, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
        print(f"{name:<28}{middle:>10.1f} ms   worst {worst:.0f}   {aim}".rstrip())


def _import() -> float:
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)
    return float(done.stdout)
