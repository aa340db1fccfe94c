"""The bindings alone, without any gateway or HTTP: `python -m bench.bindings`.

Reads one chat request a line from standard input, has llama.cpp answer it in this process, and prints what
it said and how long its tokens took. The settings are those of our own child process.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from antiphon.embedded.child import ChildSettings, serve


@dataclass(frozen=True, slots=True)
class Said:
    """An answer; how many of its tokens came after the first, and in how many seconds."""

    words: list[str]
    later: int
    seconds: float


def main() -> None:
    settings = ChildSettings(**json.loads(sys.stdin.readline()))
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what llama.cpp prints is not for our reader
    server = serve(settings, lambda step: None)
    print("ready", file=output, flush=True)
    for line in sys.stdin:
        said = _answer(server.handle_chat_completions, json.loads(line))
        print(json.dumps(asdict(said)), file=output, flush=True)
    os._exit(0)  # the bindings' own clean-up can wait for ever


def _answer(ask: Callable[[str, Callable[[str], None]], None], request: object) -> Said:
    words: list[str] = []
    moments: list[float] = []

    def take(chunk: str) -> None:
        for choice in json.loads(chunk)["choices"]:
            if word := choice["delta"].get("content"):
                words.append(word)
                moments.append(time.perf_counter())

    ask(json.dumps(request), take)
    return Said(words, len(words) - 1, moments[-1] - moments[0])


if __name__ == "__main__":
    main()
