"""The process that runs the model: `python -m antiphon.embedded.child`.

It reads its settings as one JSON line from standard input, writes its progress and then its address as JSON
lines to standard output, and ends when standard input does, which is when its parent is gone.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from antiphon.embedded import weights
from antiphon.embedded.gguf import NotInstalled, WeightsError
from antiphon.embedded.progress import Milestones, ProgressStep

# A prompt is read in pieces of this many tokens: between two of them others get their turn, and a request
# whose connection has closed is dropped.
BATCH = 64

Say = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """What the parent decides."""

    model: str
    """A name, path or address."""
    alias: str
    key: str
    slots: int
    context: int
    threads: int
    """0 for as many as there are cores."""


def main() -> None:
    say = _open_output()
    settings = ChildSettings(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        server = serve(settings, say)
    except (WeightsError, RuntimeError) as error:
        _exit_with(say, str(error))
    except ImportError as error:
        _exit_with(
            say,
            f"the package xllamacpp cannot be loaded ({error}); on Debian: apt install libgomp1 libstdc++6",
        )
    say({"url": server.listening_address, **_ask_properties(server.listening_address, settings.key)})
    threading.Event().wait()


def serve(settings: ChildSettings, say: Say) -> Any:
    """Starts llama.cpp's server on a port that the kernel chooses; it runs as long as the result lives."""
    file = _weights(settings.model, Milestones(lambda step: say({"step": asdict(step)})))
    say({"step": asdict(ProgressStep(f"loading the model {settings.alias}"))})
    # Threads that spin while they wait would take the cores from each other.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.model_alias = {settings.alias}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [settings.key]
    parameters.ui = False
    parameters.cors_origins = ""
    parameters.endpoint_slots = False
    parameters.n_parallel = settings.slots
    # All slots share one cache, and each may fill it alone. The gateway starts no request that would not fit.
    parameters.kv_unified = True
    parameters.kv_unified_per_slot = settings.context
    parameters.n_ctx = settings.context
    parameters.fit_params = False
    parameters.n_batch = parameters.n_ubatch = BATCH
    # The cache of finished prompts grows without a limit that suits a small machine.
    parameters.cache_ram_mib = 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = settings.threads or cores()
    # Each open connection holds a thread, also one that waits for a slot.
    parameters.n_threads_http = 8 * settings.slots
    parameters.offline = True
    parameters.verbosity = 1
    return xllamacpp.Server(parameters)


def cores() -> int:
    """How many cores this process may keep busy: those it is allowed on, within its container's share."""
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no such share, or an unlimited one
        pass
    return count


def _weights(model: str, progress: Milestones) -> Path:
    try:
        return weights.path(model)
    except NotInstalled:
        return weights.pull(model, progress)


def _ask_properties(url: str, key: str) -> dict[str, Any]:
    """Ask the server about the loaded model: its context, and what its template takes.

    The context is the requested one, unless the model knows fewer tokens.
    """
    import urllib.request  # slow to import, and the parent imports this module too

    request = urllib.request.Request(f"{url}/props", headers={"Authorization": f"Bearer {key}"})
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with without_proxy.open(request, timeout=10) as answer:
        properties = json.load(answer)
    can = properties.get("chat_template_caps", {})
    return {
        "n_ctx": int(properties["default_generation_settings"]["n_ctx"]),
        "tools": bool(can.get("supports_tools") and can.get("supports_tool_calls")),
        "thinks": "enable_thinking" in properties.get("chat_template", ""),
    }


def _open_output() -> Say:
    """Reserve standard output for our own lines; all other prints go to standard error."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=output, flush=True)

    return say


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    if os.getpgrp() == os.getpid():  # take pip or uv along, if they are fetching the weights
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _exit_with(say: Say, error: str) -> None:
    """Ends without the bindings' own clean-up, which can wait for ever."""
    say({"error": error})
    os._exit(1)


if __name__ == "__main__":
    main()
