"""The bindings alone, without any gateway or HTTP: `python -m bench.bindings`.

Reads one chat request a line from standard input, has llama.cpp answer it in this process, and prints how
many tokens came and how long they took. The settings are those of our own child process.
"""

import json
import os
import sys
import time
from collections.abc import Callable

from antiphon.embedded.child import Settings, serve


def main() -> None:
    settings = Settings(**json.loads(sys.stdin.readline()))
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what llama.cpp prints is not for our reader
    server = serve(settings, lambda step: None)
    print("ready", file=output, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(server.handle_chat_completions, json.loads(line))), file=output, flush=True)
    os._exit(0)  # the bindings' own clean-up can wait for ever


def _answer(ask: Callable[[str, Callable[[str], None]], None], request: object) -> dict[str, float]:
    moments: list[float] = []

    def take(chunk: str) -> None:
        if any(choice["delta"].get("content") for choice in json.loads(chunk)["choices"]):
            moments.append(time.perf_counter())

    ask(json.dumps(request), take)
    return {"tokens": len(moments), "seconds": moments[-1] - moments[0]}


if __name__ == "__main__":
    main()
