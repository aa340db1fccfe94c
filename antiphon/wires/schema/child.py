"""`python -m antiphon.wires.schema.child`: checks schemas and grammars for a gateway until its pipe ends.

Each message is four bytes with a length and then JSON: a `Job` comes in, an `objection` or null goes out. The
first null says that everything is loaded. A job that exceeds its CPU time ends the process, also within one
call into C; the caller takes that as the answer.
"""

import contextlib
import resource
import signal
import struct
import sys
from typing import BinaryIO

import msgspec

from antiphon.wires.schema.jobs import Job, describe_unchecked
from antiphon.wires.schema.json_schema import Budget, TooCostly, objection, objection_to_schema

STEPS = 2_000_000
SECONDS = 5.0
"""Of CPU time. A schema of 250 kB takes two."""
_OVER = 1.0
"""Seconds after which one call that cannot be stopped is killed."""
_MEMORY = 1024 * 1024 * 1024

SIZE = struct.Struct(">I")


def answer(job: Job) -> str | None:
    budget = Budget(STEPS, SECONDS, expressions=True)
    try:
        if job.text is not None:
            from antiphon.wires.schema import grammar  # loaded on first use: few tools have one

            return grammar.objection(job.schema, job.text)
        if not job.values:
            return objection_to_schema(job.schema, budget)
        return objection(job.schema, job.values[0], budget)
    except (TooCostly, MemoryError, RecursionError):
        return describe_unchecked(job)


def work(source: BinaryIO, target: BinaryIO) -> None:
    decode = msgspec.json.Decoder(Job).decode
    write(target, None)
    while head := source.read(SIZE.size):
        job = decode(source.read(*SIZE.unpack(head)))
        # Unhandled, this signal ends the process at once, whatever it is doing.
        signal.setitimer(signal.ITIMER_PROF, SECONDS + _OVER)
        found = answer(job)
        signal.setitimer(signal.ITIMER_PROF, 0)
        write(target, found)


def write(target: BinaryIO, found: str | None) -> None:
    said = msgspec.json.encode(found)
    target.write(SIZE.pack(len(said)) + said)
    target.flush()


def main() -> None:
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with contextlib.suppress(BrokenPipeError, struct.error, msgspec.DecodeError):  # the gateway is gone
        work(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
