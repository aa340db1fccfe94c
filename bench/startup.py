"""How long it takes until there is something: `import antiphon`, and the first answered `/healthz`."""

import subprocess
import sys

from bench.contenders import folder, start_ours, upstream
from bench.figures import Recorder
from bench.options import Options

ROUNDS = 5

_IMPORT = "import time; t = time.perf_counter(); import antiphon; print(time.perf_counter() - t)"


def run(record: Recorder, options: Options) -> None:
    imports = [_import() for _ in range(ROUNDS)]
    starts: list[float] = []
    cpu: list[float] = []
    with folder() as where, upstream(where) as behind:
        for n in range(ROUNDS):
            with start_ours(where / f"start-{n}", behind.port) as program:
                starts.append(program.wait_until_up("/healthz"))
                cpu.append(program.cpu())
    for name, seconds in (
        ("import antiphon", imports),
        ("start to first /healthz", starts),
        ("CPU time until then", cpu),
    ):
        figure = record.add(name, [value * 1000 for value in seconds], "ms")
        print(f"{name:<28}{figure.median:>10.1f} ms   worst {max(figure.values):.0f}")


def _import() -> float:
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)
    return float(done.stdout)
