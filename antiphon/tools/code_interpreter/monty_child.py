"""A child process that runs one piece of code in Monty, a small Python of its own without any access.

Standard input has the request in one line, standard output gets the result, both as JSON. When standard input
ends before the code does, the gateway is gone, and the child kills itself with the code.
"""

import ast
import json
import os
import signal
import sys
import threading
from typing import Any

_VALUE = "_antiphon_value"


def _end_with_the_gateway() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)  # with the process of the code, which is of this group


def showing_its_value(code: str, most: int) -> str:
    """Make the code end with the text of its last expression, if it has one, of at most so many characters.

    So Monty itself writes the value down, within its limits. As an object of this process it could be far
    larger: a list that holds another twice holds it once in Monty, and twice here.
    """
    code = code.replace("\r\n", "\n").replace("\r", "\n")  # as its lines are counted
    try:
        last = ast.parse(code).body[-1]
    except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
        return f"{code}\nNone"  # Monty tells what is wrong
    if not isinstance(last, ast.Expr):
        return f"{code}\nNone"
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    raw = code.encode()
    lines = [0, *(n + 1 for n, byte in enumerate(raw) if byte == ord("\n"))]
    start = lines[last.lineno - 1] + last.col_offset
    end = lines[last.end_lineno - 1] + last.end_col_offset
    shown = f"None if {_VALUE} is None else repr({_VALUE})[:{most}]".encode()
    parts = raw[:start], _VALUE.encode(), b" = (", raw[start:end], b")", raw[end:], b"\n", shown
    return b"".join(parts).decode()


def main() -> None:
    from pydantic_monty import Monty, MontyError

    asked = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()
    left = asked["limit"]
    printed: list[str] = []

    def keep(stream: str, text: str) -> None:
        nonlocal left
        if left > 0:
            printed.append(text[:left])
            left -= len(text)

    limits: Any = {"max_feed_duration_secs": asked["seconds"], "max_memory": asked["memory"]}
    failed = False
    with Monty(min_processes=1, max_processes=1) as pool, pool.checkout(limits=limits) as session:
        try:
            code = showing_its_value(asked["code"], left)
            value = session.feed_run(code, print_callback=keep)
            if value is not None:
                keep("stdout", str(value))
        except MontyError as error:
            failed = True
            keep("stderr", str(error))
    json.dump({"text": "".join(printed), "failed": failed}, sys.stdout)


if __name__ == "__main__":
    main()
