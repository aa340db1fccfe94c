"""The program that runs inside the sandbox, with the standard library alone.

It writes READY to standard output and reads one line from standard input: the code and how many seconds it
may take, as JSON. When the files are in place it writes READY again, and runs the code. Standard input stays
open: when it ends before the code does, the gateway does not wait for the code any more, and this program
stops it. What the code prints goes to standard output. Its files stay where they are, and the gateway takes
them out when every process in here has ended. The code can do to this program whatever it likes; nothing
outside relies on it.
"""

import ast
import json
import linecache
import os
import shutil
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

GIVEN, DATA, FIGURES = "/mnt/given", "/mnt/data", "/tmp/figures"
TIMED_OUT, FAILED = 3, 1
ABANDONED = 4
READY = b"\x06"
CODE = "<code>"


def main() -> None:
    close_others()
    os.write(1, READY)
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(ABANDONED)
    asked = json.loads(line)
    try:
        copy_files()
    except OSError as error:
        os.write(1, str(error.strerror).encode())
        os._exit(FAILED)
    os.write(1, READY)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        run(asked["code"])
    threading.Thread(target=end_with_the_gateway, args=(child,), daemon=True).start()
    os._exit(wait(child, asked["seconds"]))  # and with this process all that the code has started


def copy_files() -> None:
    for name in os.listdir(GIVEN):
        target = os.path.join(DATA, unquote(name))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(GIVEN, name), target)
    os.mkdir(FIGURES)


def close_others() -> None:
    """Close what the gateway has left open: none of it is for the code."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):  # the folder itself was open, and is no more
                os.close(int(name))


def end_with_the_gateway(child: int) -> None:
    """Stop everything once standard input ends: the gateway is gone, or does not want the result any more."""
    os.read(0, 1)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os._exit(ABANDONED)


def wait(child: int, seconds: float) -> int:
    """How the code ended: what it left as its status, or that it took too long."""

    def stop(*_: Any) -> None:
        os.killpg(child, signal.SIGKILL)

    timed_out = False

    def late(*_: Any) -> None:
        nonlocal timed_out
        timed_out = True
        stop()

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if timed_out:
        return TIMED_OUT
    return 0 if status == 0 else FAILED


def run(code: str) -> None:
    """Run the code as a notebook does: the value of a last expression is shown. Never returns."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.argv = ["code.py"]
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    linecache.cache[CODE] = len(code), None, code.splitlines(keepends=True), CODE  # for tracebacks
    failed = 0
    try:
        tree = ast.parse(code, CODE)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, CODE, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), CODE, "eval"), names)
            if value is not None:
                print(repr(value))
    except SystemExit as left:
        failed = FAILED if left.code not in (None, 0) else 0
    except BaseException as error:
        failed = FAILED
        shown = traceback.TracebackException.from_exception(error)
        while shown.stack and shown.stack[0].filename == __file__:
            del shown.stack[0]
        print("".join(shown.format()), end="", file=sys.stderr)
    try:
        save_figures()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(failed)


def save_figures() -> None:
    """What matplotlib would show on a screen."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(os.path.join(FIGURES, f"{number}.png"))


if __name__ == "__main__":
    main()
