"""The longest time for which one request keeps the event loop from everyone else, at the default limits."""

import gzip
import http.client
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from bench.contenders import KEY, PROMPT, folder, upstream, write_config
from bench.figures import Recorder
from bench.options import Options
from bench.processes import Program, free_port
from bench.watched import WORST

COLUMNS = ("on the clock", "CPU")
WORST_CALLBACK = "longest of all, CPU"
MODEL = "fake/each-64"
_ENDS = {"response.completed": 200, "error": 400}
Body = dict[str, Any]


def _message(text: str) -> Body:
    return {"type": "message", "role": "user", "content": text}


def _calls(count: int) -> list[Body]:
    pairs = []
    for n in range(count // 2):
        pairs.append({"type": "function_call", "call_id": f"c{n}", "name": "look", "arguments": "{}"})
        pairs.append({"type": "function_call_output", "call_id": f"c{n}", "output": "seen"})
    return pairs


def _schema(schema: Body) -> Body:
    form = {"type": "json_schema", "name": "answer", "schema": schema}
    return {"input": PROMPT, "text": {"format": form}}


def _objects(count: int) -> Body:
    """No schema, and each of its types has to be held against each other to find that out."""
    return {"type": [{"a": n} for n in range(count)]}


def _deep(levels: int) -> Body:
    schema: Body = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def _wide(size: int) -> Body:
    fields = {
        f"field_{n}": {"type": "string", "description": "One of many fields."} for n in range(size // 70)
    }
    return {"type": "object", "properties": fields}


def _tools(size: int) -> Body:
    schema = _wide(4000)
    each = len(json.dumps(schema)) + 60
    named = [{"type": "function", "name": f"tool_{n}", "parameters": schema} for n in range(size // each)]
    return {"input": PROMPT, "tools": named}


def _picture(size: int) -> Body:
    url = "data:image/png;base64," + "iVBORw0KGgo" + "A" * (size - 11)
    return {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": url}]}


def _file() -> Body:
    data = "data:application/pdf;base64,".ljust(33_554_432, "A")
    part = {"type": "input_file", "filename": "a.pdf", "file_data": data}
    return {"type": "message", "role": "user", "content": [part]}


def _escaped_file() -> bytes:
    """As some programs spell a slash."""
    body = json.dumps({"model": MODEL, "input": [_file()]}).encode()
    return body.replace(b"A", rb"\/", 1_999_000)


def _output(text: str) -> list[Body]:
    call, output = _calls(2)
    return [call, output | {"output": text}]


_MOST = 36 * 1024 * 1024 - 3000
EMOJI = "\N{GRINNING FACE}"
TEXT = 'A verse is sung, and another answers it; "so it goes", they say.\n' * 36
"""About 2,300 characters, as a tool might give back."""
CASES: dict[str, Callable[[], list[Body | bytes]]] = {
    "plain request": lambda: [{"input": PROMPT}],
    "schema of 24 kB that is none": lambda: [_schema(_objects(1900))],
    "schema of 77 kB that is none": lambda: [_schema(_objects(5900))],
    "schema of 60 levels": lambda: [_schema(_deep(60))],
    "schema of 250 kB": lambda: [_schema(_wide(250_000))],
    "tools of 256 kB": lambda: [_tools(256_000)],
    "80,000 messages": lambda: [{"input": [{"role": "user", "content": "hi"}] * 80_000}],
    "80,000 calls and outputs": lambda: [{"input": _calls(80_000)}],
    "80,000 unknown items": lambda: [{"input": [{"type": "vendor:note", "n": 1}] * 80_000}],
    "20,000 messages": lambda: [{"input": [_message("hi")] * 20_000}],
    "7 MB in 3,000 items": lambda: [{"input": [_message(TEXT)] * 3000}],
    "turn after 7 MB": lambda: [{"input": [_message(TEXT)] * 3000}, {"input": "and then?"}],
    "7 MB in one text": lambda: [{"input": TEXT * 3000}],
    "36 MB of pictures": lambda: [{"input": [_picture(12_000_000)] * 3}],
    "file of 33,554,432 characters": lambda: [{"input": [_file()]}],
    "turn after that file": lambda: [{"input": [_file()]}, {"input": "and then?"}],
    "36 MB of text": lambda: [{"input": "A" * _MOST}],
    "36 MB of emoji": lambda: [{"input": EMOJI * (_MOST // 4)}],
    "36 MB in a tool's output": lambda: [{"input": _output(EMOJI * (_MOST // 4))}],
    "36 MB in an unknown item": lambda: [
        {"input": [_message("x"), {"type": "x:y", "a": [EMOJI * (_MOST // 4)]}]}
    ],
    "36 MB of instructions": lambda: [{"input": "x", "instructions": EMOJI * (_MOST // 4)}],
    "2,000,000 escapes": lambda: [
        b'{"model":"%b","input":"%b"}' % (MODEL.encode(), rb"\ud83d\ude00" * 999_999)
    ],
    "file with 2,000,000 escapes": lambda: [_escaped_file()],
    "36 MB of spaces": lambda: [b'{"input":%b"x"}' % (b" " * _MOST)],
    "number of 36 MB": lambda: [b'{"input":"x","temperature":%b}' % (b"1" * _MOST)],
    "name of 36 MB": lambda: [b'{"input":"x","%b":1}' % (b"A" * _MOST)],
    "36 MB that are cut off": lambda: [b'{"input":"%b' % (b"A" * _MOST)],
}
OVER_OTHERS = ("36 MB of pictures", "file of 33,554,432 characters", "36 MB of emoji")
"""Cases that are also sent packed, and over a WebSocket."""


class Asking:
    """One gateway, and its worst moment while it answers."""

    def __init__(self, port: int, page: Path) -> None:
        self._port = port
        self._page = page

    def worst(self, bodies: list[Body | bytes], over: str = "") -> tuple[float, float, int]:
        """Milliseconds on the clock and of CPU while the last of these turns was answered, and its status."""
        previous: str | None = None
        ask = self._ask_socket if over == "WebSocket" else partial(self._ask, is_packed=over == "gzip")
        for body in bodies:
            sent = body
            if not isinstance(sent, bytes):
                asked = {"model": MODEL, **sent} | ({"previous_response_id": previous} if previous else {})
                sent = json.dumps(asked, ensure_ascii=False).encode()
            with self._page.open("r+b") as page:  # it is mapped, so it must not be cut short
                page.write(WORST.pack(0, 0))
            status, answer = ask(sent)
            previous = answer.get("id")
        wall, cpu = WORST.unpack(self._page.read_bytes())
        return wall * 1e3, cpu * 1e3, status

    def _ask_socket(self, body: bytes) -> tuple[int, Body]:
        headers = {"authorization": f"Bearer {KEY}"}
        url = f"ws://127.0.0.1:{self._port}/v1/responses"
        with connect(url, additional_headers=headers, max_size=None) as socket:
            socket.send(b'{"type":"response.create",' + body[1:], text=True)
            while (event := json.loads(socket.recv(timeout=300)))["type"] not in _ENDS:
                pass
        return _ENDS[event["type"]], event.get("response", {})

    def _ask(self, body: bytes, is_packed: bool = False) -> tuple[int, Body]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        if is_packed:
            headers["content-encoding"], body = "gzip", gzip.compress(body, 1)
        try:
            connection.request("POST", "/v1/responses", body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@contextmanager
def watched() -> Iterator[Asking]:
    with folder() as where, upstream(where) as behind:
        config = write_config(where / "antiphon", behind.port)
        page, port = where / "worst", free_port()
        page.write_bytes(WORST.pack(0, 0))
        command = [sys.executable, "-m", "bench.watched", str(config), str(port), str(page)]
        with Program("watched", command, port, log=where / "output.log") as program:
            program.wait_until_up("/healthz")
            yield Asking(port, page)


def run(record: Recorder, options: Options) -> None:
    rounds = max(1, options.rounds // 2)
    print(f"the longest that the event loop was away, ms, medians of {rounds} rounds")
    print(f"{'':<42}{'on the clock':>24}{'CPU':>24}{'status':>10}")
    with watched() as asking:
        for first in ({"input": PROMPT}, _schema(_deep(1))):
            asking.worst([first])  # what is loaded by the first request is not in the figures
        worst = [0.0] * rounds
        others = [(case, over) for case in OVER_OTHERS for over in ("gzip", "WebSocket")]
        for case, over in [*((case, "") for case in CASES), *others]:
            name = f"{case}, {over}" if over else case
            found = [asking.worst(CASES[case](), over) for _ in range(rounds)]
            wall = record.add(f"{name}, on the clock", [one[0] for one in found], "ms")
            cpu = record.add(f"{name}, CPU", [one[1] for one in found], "ms")
            worst = [max(pair) for pair in zip(worst, cpu.values, strict=True)]
            print(f"{name:<42}{wall!s:>24}{cpu!s:>24}{found[-1][2]:>10}", flush=True)
        print(f"{WORST_CALLBACK:<42}{record.add(WORST_CALLBACK, worst, 'ms')!s:>48}")
