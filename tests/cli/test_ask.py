"""`antiphon ask` against a gateway on a socket, in this process, in a pipe and on a terminal."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.ask_printing import MarkdownPrinter, printer_for
from tests.bridges.scripts import TOML, Json, said
from tests.cli.conftest import Result
from tests.server.servers import DEADLINE, Serving, configure
from tests.server.upstream import Upstream
from tests.wires.test_terminal_text import ATTACKS

Run = Callable[..., Result]
ROOT = Path(__file__).parents[2]
ATTACK = "".join(ATTACKS.values()).replace("\ud800", "")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(configure(tmp_path_factory.mktemp("ask"), TOML)) as serving:
        yield serving


@pytest.fixture
def ask(server: Serving, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Asks with standard input as it is given, of a terminal where nothing is."""
    monkeypatch.setenv("ANTIPHON_BASE_URL", f"{server.url}/v1")

    def asks(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return run("ask", *arguments)

    return asks


def stored(server: Serving, id: str) -> Any:
    return server.client().ok("GET", f"/v1/responses/{id}")


def given(server: Serving, id: str) -> list[Any]:
    items = server.client().ok("GET", f"/v1/responses/{id}/input_items?order=asc")["data"]
    return [part for item in items for part in item["content"]]


# --- the answer -------------------------------------------------------------------------------------------


def test_the_answer_is_printed(ask: Run) -> None:
    assert ask("How", "are you?") == Result(0, "How are you?\n", "")


def test_the_finished_response_as_json(ask: Run, server: Serving) -> None:
    done = ask("--json", "--model", "demo", "--system", "Be brief", "Hello")
    response = json.loads(done.out)
    assert (response["status"], response["model"], response["instructions"]) == (
        "completed",
        "demo",
        "Be brief",
    )
    assert stored(server, response["id"])["output"] == response["output"]


def test_the_events_as_they_came(ask: Run) -> None:
    done = ask("--raw", "Hello")
    assert done.code == 0
    assert done.out.startswith("event: response.created\ndata: {")
    assert done.out.endswith("data: [DONE]\n\n")


def test_usage_goes_to_standard_error(ask: Run) -> None:
    usage = {"input_tokens": 11, "output_tokens": 7, "cached_tokens": 2, "reasoning_tokens": 3}
    done = ask("--usage", said([{"text": "Hi"}, {"usage": usage}]))
    assert done.out == "Hi\n"
    assert done.err == "11 tokens in (2 cached), 7 out (3 reasoning), 18 in all\n"


def test_an_answer_in_the_shape_of_a_schema(ask: Run, home: Path) -> None:
    (home / "city.json").write_text(
        json.dumps({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
    )
    done = ask("--json-schema", "city.json", said([{"text": '{"name": "Paris"}'}]))
    assert (done.code, done.out) == (0, '{"name": "Paris"}\n')
    shown = json.loads(ask("--json", "--json-schema", "city.json", said([{"text": '{"name": "x"}'}])).out)
    assert shown["text"]["format"]["name"] == "city"


# --- the question -----------------------------------------------------------------------------------------


def test_standard_input_and_files_are_part_of_the_question(ask: Run, server: Serving, home: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
    (home / "notes.txt").write_text("Buy milk")
    (home / "paper.pdf").write_bytes(b"%PDF-1.4 \xff\xfe")
    done = ask("--json", "-f", "notes.txt", "-f", "paper.pdf", "why?", stdin=b"line one\nline two\n")
    text, notes, paper, question = given(server, json.loads(done.out)["id"])
    assert (text["text"], question["text"]) == ("line one\nline two", "why?")
    assert notes["text"] == "notes.txt:\n\nBuy milk"
    assert paper["filename"] == "paper.pdf"
    assert paper["file_data"].startswith("data:application/pdf;base64,")
    (home / "photo").write_bytes(picture)
    shown, _ = given(server, json.loads(ask("--json", "-f", "photo", "What is this?").out)["id"])
    assert shown["image_url"].startswith("data:image/png;base64,")
    (home / "sound.wav").write_bytes(b"RIFF\xff\0\0\0WAVE")  # not all that begins so is WebP
    sound, _ = given(server, json.loads(ask("--json", "-f", "sound.wav", "And this?").out)["id"])
    assert (sound["type"], sound["filename"]) == ("input_file", "sound.wav")
    assert json.loads(ask("--json", stdin=b"alone").out)["output"][0]["content"][0]["text"] == "alone"


def test_it_goes_on(ask: Run, server: Serving) -> None:
    first = json.loads(ask("--json", "One").out)["id"]
    second = json.loads(ask("--json", "-c", "Two").out)
    assert second["previous_response_id"] == first
    branch = json.loads(ask("--json", "--from", first, "Two, again").out)
    assert branch["previous_response_id"] == first
    third = json.loads(ask("--json", "-c", "Three").out)
    assert third["previous_response_id"] == branch["id"]


def test_tools_run_here(ask: Run, home: Path) -> None:
    (home / "asked_tools.py").write_text(
        'def add(a: int, b: int) -> int:\n    "Add two numbers."\n    return a + b\n'
    )
    add: Json = {"call": "add", "arguments": {"a": 2, "b": 3}}
    turns: list[Json] = [
        {"when": {"last": "message"}, "steps": [{"text": "Let me add."}, add]},
        {"when": {"last": "function_call_output"}, "steps": [{"text": "It is 5."}]},
    ]
    done = ask("--tool", "asked_tools:add", said(turns))
    assert (done.code, done.out) == (0, "Let me add.\n\nIt is 5.\n")
    assert done.err == '→ add({"a":2,"b":3})\n'


# --- what goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "nothing was asked"),
        (("-f", "nowhere.txt", "x"), "cannot read nowhere.txt"),
        (("--json-schema", "list.json", "x"), "expected an object"),
        (("--json-schema", "bad.json", "x"), "is not JSON"),
        (("--tool", "nothing", "x"), "expected MODULE:FUNCTION"),
        (("--tool", "json:nothing", "x"), "cannot be loaded"),
        (("--tool", "json:__name__", "x"), "is no function"),
        (("--tool", "bad_tools:positional", "x"), "cannot be filled by a model"),
        (("--tool", "bad_tools:twice", "--tool", "bad_tools:twice", "x"), "two tools named"),
        (("--tool", "leaving_tools:f", "x"), "leaving_tools:f cannot be loaded: 7"),
        (("--tool", "raising_tools:f", "x"), "raising_tools:f cannot be loaded: a␛]52;c;aGk=␇ b"),
        (("-f", "no\x1b[31mwhere", "x"), "cannot read no␛[31mwhere"),
        (("--from", "", "x"), "--from needs the id"),
        (("--mcp", " ", "x"), "--mcp needs a command"),
        (("--mcp", "'", "x"), "--mcp '"),
        (("-c", "x"), "nothing was asked at"),
        (("-c", "--from", "resp_1", "x"), "not allowed with"),
        (("--raw", "--json", "x"), "not allowed with"),
        (("--url", "nowhere", "x"), "is not an address"),
    ],
)
def test_a_mistake_in_the_command(ask: Run, home: Path, arguments: tuple[str, ...], told: str) -> None:
    (home / "list.json").write_text("[]")
    (home / "bad.json").write_text("{")
    (home / "bad_tools.py").write_text("def positional(a, /): return 1\ndef twice(): return 2\n")
    (home / "leaving_tools.py").write_text("raise SystemExit(7)\n")
    (home / "raising_tools.py").write_text(r"raise RuntimeError('a\x1b]52;c;aGk=\x07\nb')")
    done = ask(*arguments)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "Traceback" not in done.err


def test_standard_input_that_is_no_text(ask: Run) -> None:
    assert "no UTF-8 text" in ask(stdin=b"\xff\xfe").err


def test_each_ending_has_its_exit_code(ask: Run) -> None:
    done = ask("--model", "nope", "x")
    assert (done.code, done.out) == (1, "")
    assert "model_not_found" in done.err
    done = ask(said([{"text": "Once"}, {"error": {"message": "it \x1b[31mbroke", "code": "broken"}}]))
    assert (done.code, done.out) == (1, "Once\n")
    assert "it ␛[31mbroke (broken)" in done.err
    done = ask(said([{"text": "Once"}, {"finish": "length"}]))
    assert (done.code, done.out) == (4, "Once\n")
    assert "incomplete: max_output_tokens" in done.err
    done = ask(said([{"refusal": "No."}]))
    assert (done.code, done.out) == (5, "No.\n")


def test_without_a_server_it_says_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    done = run("ask", "--url", "http://127.0.0.1:9/v1", "x")
    assert (done.code, done.out) == (3, "")
    assert "antiphon serve" in done.err
    assert "--local" in done.err


def test_the_advice_names_a_command_that_this_shell_finds(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone there is no `antiphon` on the path, and the advice could not be followed."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr("sys.argv", [".venv/bin/antiphon", "ask"])
    monkeypatch.setenv("PATH", str(home))
    told = run("ask", "--url", "http://127.0.0.1:1/v1", "Hello").err
    assert "start a server with `.venv/bin/antiphon serve`" in told


def test_without_a_server_it_can_answer_itself(ask: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "antiphon.toml").write_text(TOML)
    monkeypatch.delenv("ANTIPHON_BASE_URL")
    monkeypatch.setenv("ANTIPHON_LOCAL__ENABLED", "false")
    first = json.loads(ask("--local", "--json", "One").out)
    done = ask("--local", "--raw", "-c", "Two")
    assert done.code == 0
    assert f'"previous_response_id":"{first["id"]}"' in done.out


# --- as a process -----------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "antiphon", "ask", *arguments]


def environ(home: Path, url: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home), "ANTIPHON_BASE_URL": f"{url}/v1"}


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Standard output is a terminal; the list has what it got."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        with suppress(OSError):
            while piece := os.read(ours, 65536):
                seen.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with monkeypatch.context() as patch, open(theirs, "w", encoding="utf-8") as screen:
        patch.setattr(sys, "stdout", screen)
        patch.setenv("TERM", "xterm")
        yield seen
    reader.join(DEADLINE)
    os.close(ours)


@pytest.mark.parametrize("how", [(), ("--raw",), ("--json",)], ids=["markdown", "raw", "json"])
def test_a_terminal_obeys_nothing_that_a_model_says(
    ask: Run, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    with terminal(monkeypatch) as seen:
        assert ask(*how, said([{"text": f"Hello {ATTACK} **there**"}])).code == 0
    shown = b"".join(seen).decode()
    assert "there" in shown
    assert "\x1b]" not in shown  # no OSC
    assert "\x1bP" not in shown
    assert not set(shown) & set("\x07\x08\x9b\x9d\u202e\u2066")
    if how:
        assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\r\n\t"]


def test_calls_are_told_on_standard_error_where_that_is_a_file(
    ask: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "asked_dumps.py").write_text("def dumps(obj: int) -> str: return str(obj)\n")
    turns: list[Json] = [
        {
            "when": {"last": "message"},
            "steps": [{"text": "Well."}, {"call": "dumps", "arguments": {"obj": 1}}],
        },
        {"when": {"last": "function_call_output"}, "steps": [{"text": "Done."}]},
    ]
    with terminal(monkeypatch) as seen:
        done = ask("--tool", "asked_dumps:dumps", said(turns))
    assert done.code == 0
    assert "→ dumps(" in done.err
    assert b"\xe2\x86\x92" not in b"".join(seen)


def test_a_pipe_gets_the_bytes_as_they_are(ask: Run) -> None:
    assert ask(said([{"text": ATTACK}])).out == ATTACK + "\n"


def test_an_interrupt_stops_the_model(home: Path, tmp_path: Path) -> None:
    with Upstream() as upstream, Serving(configure(tmp_path / "server", upstream.toml)) as server:
        process = subprocess.Popen(
            command("Tell me all"),
            env=environ(home, server.url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        call = upstream.next()
        call.say("Once ")
        assert process.stdout is not None
        assert process.stdout.read(5) == b"Once "
        process.send_signal(signal.SIGINT)
        assert call.was_closed()
        _, errors = process.communicate(timeout=DEADLINE)
        assert (process.returncode, errors) == (130, b"interrupted\n")


@pytest.mark.parametrize("how", [(), ("--raw",)], ids=["text", "raw"])
def test_a_pipe_that_is_closed_early_stops_the_model(
    home: Path, tmp_path: Path, how: tuple[str, ...]
) -> None:
    with Upstream() as upstream, Serving(configure(tmp_path / "server", upstream.toml)) as server:
        process = subprocess.Popen(
            command(*how, "Tell me all"),
            env=environ(home, server.url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        call = upstream.next()
        assert process.stdout is not None
        call.say("Once ")
        assert process.stdout.read(1)
        process.stdout.close()
        call.say("upon a time")
        assert call.was_closed()
        assert process.stderr is not None
        assert (process.wait(DEADLINE), process.stderr.read()) == (141, b"")
        process.stderr.close()


def test_streams_that_were_closed_before(server: Serving, home: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command("hi")], env=environ(home, server.url)
    )
    assert done.returncode == 0


def test_the_tools_of_an_mcp_server(server: Serving, home: Path) -> None:
    turns = [
        {"when": {"last": "message"}, "steps": [{"call": "get_weather", "arguments": {"city": "Paris"}}]},
        {"when": {"last": "function_call_output"}, "steps": [{"text": "Mild."}]},
    ]
    program = ROOT / "tests" / "client" / "tools" / "mcp_program.py"
    done = subprocess.run(
        command("--mcp", f"{sys.executable} {program}", said(turns)),
        env=environ(home, server.url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "Mild.\n"), done.stderr
    assert '→ get_weather({"city":"Paris"})' in done.stderr


# --- Markdown ---------------------------------------------------------------------------------------------


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_markdown_without_hidden_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    printer = printer_for(screen, markdown=True)
    assert isinstance(printer, MarkdownPrinter)
    for piece in ("# Hea", "ding\n\nSome **bold** [bank](https://evil.example)\n\n", "```py\nx\n```"):
        printer.text(piece)
    printer.close()
    shown = screen.getvalue()
    assert "\x1b[1;39mbold\x1b[0m" in shown
    assert "https://evil.example" in shown
    assert "\x1b]8" not in shown


def test_a_paragraph_is_wrapped_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was one line that ended in an ellipsis, until the paragraph was finished."""
    pytest.importorskip("rich")
    for name, value in (("TERM", "xterm"), ("COLUMNS", "40"), ("LINES", "12")):
        monkeypatch.setenv(name, value)
    printer = printer_for(Screen(), markdown=True)
    assert isinstance(printer, MarkdownPrinter)
    words = [f"word{n}" for n in range(30)]
    printer.text(" ".join(words))
    shown = tail_of(printer)
    assert shown.split() == words
    assert max(map(len, shown.splitlines())) <= 40
    printer.text("".join(f" more{n}" for n in range(5000)))
    lines = tail_of(printer).splitlines()
    assert (len(lines) <= 10, lines[-1].split()[-1]) == (True, "more4999")
    printer.text("\n\n```\nx = 1\n\ny = 2\n")
    assert tail_of(printer) == "\n  code\n  x = 1\n\n  y = 2\n", "a blank line stays one"
    printer.close()


def tail_of(printer: MarkdownPrinter) -> str:
    """What is drawn below the finished lines."""
    return "".join(segment.text for segment in printer._tail().segments)


ANSWER = """\
Use a List<String> or Map<K, V>, then press <Enter> now.

| kind | description |
|---|---|
| words | every single word of a long cell stays there, however narrow the screen may be |

Look at ![diagram](https://pictures.example/d.png) here, and <b>there</b>.

- [x] done
- [ ] open
"""


def test_a_terminal_loses_no_words_of_an_answer(ask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another renderer took <String> and <Enter> for tags, and cut the cells of a table."""
    pytest.importorskip("rich")
    for name, value in (("TERM", "xterm"), ("COLUMNS", "40"), ("LINES", "30")):
        monkeypatch.setenv(name, value)
    with terminal(monkeypatch) as seen:
        assert ask(said([{"text": ANSWER}])).code == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(seen).decode())
    words = " ".join(shown.split())
    for part in ("Use a List<String> or Map<K, V>, then", "press <Enter> now.", "<b>there</b>", "☑ done"):
        assert part in words
    assert "…" not in shown
    assert words.index("Look at") < words.index("[image: diagram]") < words.index("here, and")
    assert {"every", "single", "narrow", "screen", "may"} <= set(words.split())


def test_ask_draws_an_answer_as_chat_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    from antiphon.tui.markdown.document import MarkdownDocument
    from antiphon.tui.palette import TERMINAL

    for name, value in (("TERM", "xterm"), ("COLUMNS", "60"), ("LINES", "30")):
        monkeypatch.setenv(name, value)
    screen = Screen()
    printer = printer_for(screen, markdown=True)
    assert isinstance(printer, MarkdownPrinter)
    monkeypatch.setattr(printer._live, "start", lambda: None)  # only what is finished is printed
    for at in range(0, len(ANSWER), 7):
        printer.text(ANSWER[at : at + 7])
    printer.close()
    chat = MarkdownDocument()
    chat.feed(ANSWER)
    chat.close()
    expected = ["".join(segment.text for segment in line).rstrip() for line in chat.lines(60, TERMINAL)[0]]
    assert re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).splitlines() == expected


def test_a_terminal_that_changes_its_width_gets_every_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    for name, value in (("TERM", "xterm"), ("COLUMNS", "40"), ("LINES", "30")):
        monkeypatch.setenv(name, value)
    screen = Screen()
    printer = printer_for(screen, markdown=True)
    assert isinstance(printer, MarkdownPrinter)
    monkeypatch.setattr(
        printer._live, "start", lambda: None
    )  # nothing is drawn below, so each line comes once
    printer.text("alpha " * 20 + "\n\n")
    printer._console.width = 20
    printer.text("beta " * 9 + "\n\ngamma")
    printer.close()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).split()
    assert shown == ["alpha"] * 20 + ["beta"] * 9 + ["gamma"]


def test_a_dumb_terminal_gets_plain_and_safe_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    printer = printer_for(screen, markdown=True)
    printer.text("**a**\x1b[2J")
    printer.close()
    assert screen.getvalue() == "**a**␛[2J\n"
