"""A program for a test: sandboxes run under uvloop, while threads use files and two tenants have streams.

    python -m tests.tools.code_interpreter.descriptor_load FOLDER ROUNDS

A descriptor that is closed twice is closed once for somebody else: a thread then finds another's bytes in its
file or no file, a tenant another's line, or libuv ends the process. That takes a rare moment, so a file
object also reports that its descriptor was closed already. Prints what went wrong, one line each.
"""

import asyncio
import io
import os
import sys
import threading
from pathlib import Path
from typing import Any

import uvloop

from antiphon.tools.code_interpreter.bubblewrap import Bubblewrap

AT_ONCE, THREADS = 8, 4
wrong: list[str] = []


class WatchedReader(io.BufferedReader):
    def close(self) -> None:
        if not self.closed:
            try:
                os.fstat(self.fileno())
            except OSError:
                wrong.append("a descriptor was closed before the file that owns it")
        super().close()


def watch_files() -> None:
    """Let each file that is made of a descriptor, and read, see whether it closes that first."""
    plain = io.open

    def open_watched(file: Any, *given: Any, **named: Any) -> Any:
        opened = plain(file, *given, **named)
        is_watched = isinstance(file, int) and type(opened) is io.BufferedReader
        return WatchedReader(opened.detach()) if is_watched else opened

    io.open = open_watched


def use_files(folder: Path, number: int, done: threading.Event) -> None:
    """Write, read and close files of this thread's own."""
    token = f"thread {number}".encode()
    while not done.is_set():
        try:
            file = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.write(file, token)
            read = os.pread(file, 100, 0)
            os.close(file)
        except OSError as error:
            wrong.append(f"a file of a thread: {error}")
            return
        if read != token:
            wrong.append(f"thread {number} has read {read!r}")


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
    writer.close()


async def stream(tenant: bytes, port: int, done: threading.Event) -> None:
    """Send lines of a tenant over new connections, and see that the same come back."""
    while not done.is_set():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(20):
            writer.write(tenant)
            if (line := await reader.readline()) != tenant:
                wrong.append(f"{tenant!r} has read {line!r}")
        writer.close()


async def run_sandboxes(folder: Path, rounds: int) -> None:
    engine = Bubblewrap(20, 512 << 20, 4096, 16 << 20, 16)

    async def run(number: int) -> None:
        for n in range(rounds):
            given, left = folder / f"given-{number}", folder / f"left-{number}-{n}"
            given.mkdir(mode=0o755, exist_ok=True)
            left.mkdir()
            ran = await engine.run(f"open('a', 'w').write('{number}')", given, left)
            if ran.failed or (left / "a").read_text() != str(number):
                wrong.append(f"a sandbox: {ran}")

    await asyncio.gather(*(run(number) for number in range(AT_ONCE)))


async def main(folder: Path, rounds: int) -> None:
    watch_files()
    done = threading.Event()
    threads = [threading.Thread(target=use_files, args=(folder, number, done)) for number in range(THREADS)]
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for thread in threads:
        thread.start()
    streams = [asyncio.create_task(stream(name, port, done)) for name in (b"alice\n", b"bob\n")]
    try:
        await run_sandboxes(folder, rounds)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        await asyncio.gather(*streams)
        server.close()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
    print(*wrong, sep="\n", end="")
