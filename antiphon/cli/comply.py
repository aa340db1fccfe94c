"""`antiphon comply` and `antiphon audit`: test a server, or check a stream, against the specification."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import MISTAKE, CommandFailed, add_command
from antiphon.wires.own_command import own_command

if TYPE_CHECKING:
    from antiphon.cli.common import Commands
    from antiphon.compliance.catalog import Level, ServerRule
    from antiphon.compliance.probe import ServerUnderTest
    from antiphon.compliance.results import Report

ABOUT: Final = """\
Tests a server against every rule of Open Responses: it talks to the server, judges each answer, and shows
the exchange behind each failure.

examples:
  antiphon comply http://127.0.0.1:8080/v1
  antiphon comply https://api.example.com/v1 --api-key "$KEY" --model some-model --html report.html
  antiphon comply http://127.0.0.1:8080/v1 --only tools. --only streaming-response --verbose
  antiphon comply --capture stream.sse
  antiphon comply --list

exit codes: 0 every MUST and SHOULD holds (or could not be judged), 1 some failed, 2 it could not run.
"""
AUDIT: Final = """\
Judges one stream that it reads from standard input: server-sent events, or one JSON event a line.

examples:
  curl -N http://127.0.0.1:8080/v1/responses -H 'Content-Type: application/json' \\
    -d '{"model": "m", "input": "Hi", "stream": true}' | antiphon audit

exit codes: 0 every MUST and SHOULD holds, 1 some failed, 2 there was no stream.
"""


def add_to(commands: "Commands") -> None:
    parser = add_command(commands, "comply", comply, "test a server against the specification", ABOUT)
    parser.add_argument("url", nargs="?", help="the server, with its /v1")
    parser.add_argument("--api-key", metavar="KEY", help="sent as a bearer token")
    parser.add_argument(
        "--second-key", metavar="KEY", help="a key of another tenant, for the rules on tenants"
    )
    parser.add_argument("--model", help="the model to ask (default: the first that the server lists)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="RULE",
        help="a rule, a group, or a beginning like `tools.`",
    )
    parser.add_argument("--level", choices=("must", "should", "all"), default="all", help="(default: all)")
    parser.add_argument("--spec", choices=("2026-01-15", "2026-04-24"), default="2026-04-24")
    parser.add_argument(
        "--transport",
        action="append",
        choices=("json", "sse", "websocket"),
        help="may be given more than once",
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=60.0, help="seconds for each exchange (default: 60)"
    )
    parser.add_argument(
        "--concurrency", type=_count, default=8, metavar="N", help="checks at a time (default: 8)"
    )
    parser.add_argument(
        "--websocket-limit",
        type=_seconds,
        metavar="SECONDS",
        help="how long the server lets a WebSocket live",
    )
    parser.add_argument("--capture", metavar="FILE", help="audit a recorded stream, .sse or .jsonl, instead")
    parser.add_argument("--record", metavar="DIR", help="keep every exchange in this folder")
    parser.add_argument("--list", action="store_true", help="list the rules and end")
    _add_reports(parser)
    audit = add_command(commands, "audit", audit_input, "judge one stream from standard input", AUDIT)
    audit.add_argument("--form", choices=("sse", "jsonl"), help="(default: detected from the first line)")
    _add_reports(audit)


def _add_reports(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON; `-` instead of text")
    parser.add_argument("--junit", metavar="FILE", help="also write it as JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="also write it as a page")
    parser.add_argument("--verbose", action="store_true", help="name the rules that passed, too")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0 seconds")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def comply(arguments: argparse.Namespace) -> int:
    from antiphon.compliance.catalog import TRANSPORTS, UnknownRule, select

    levels: dict[str, Level] = {"must": "MUST", "should": "SHOULD", "all": "MAY"}
    try:
        rules = select(
            level=levels[arguments.level],
            spec=arguments.spec,
            transports=arguments.transport or TRANSPORTS,
            only=arguments.only,
        )
    except UnknownRule as error:
        raise CommandFailed(
            f"antiphon: {error}; `{own_command('comply --list')}` shows all", MISTAKE
        ) from None
    if arguments.list:
        for rule in rules.values():
            print(f"{rule.id:44} {rule.level:6} {rule.says}")
        return 0
    if arguments.capture is not None:
        return _show(
            _audit_capture(arguments.capture, _read(arguments.capture), None, arguments.only), arguments
        )
    if arguments.url is None:
        raise CommandFailed(
            "antiphon: name a server, such as http://127.0.0.1:8080/v1, or a --capture", MISTAKE
        )
    return _show(_live(arguments, rules), arguments)


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CommandFailed(f"antiphon: {file} cannot be read: {error.strerror}", MISTAKE) from None


def audit_input(arguments: argparse.Namespace) -> int:
    return _show(_audit_capture("standard input", sys.stdin.buffer.read(), arguments.form, []), arguments)


def _audit_capture(subject: str, data: bytes, form: str | None, only: list[str]) -> "Report":
    from antiphon.compliance.capture import NotACapture, audit_capture, read

    if form is None and subject.endswith((".sse", ".jsonl")):
        form = subject.rpartition(".")[2]
    try:
        exchange = read(data, "sse" if form == "sse" else "jsonl" if form == "jsonl" else None)
    except NotACapture as error:
        raise CommandFailed(f"antiphon: {subject} is no stream: {error}", MISTAKE) from None
    return audit_capture(subject, exchange, only=only)


def _live(arguments: argparse.Namespace, rules: "dict[str, ServerRule]") -> "Report":
    import asyncio

    from antiphon.compliance.reports.machine import Recorder
    from antiphon.compliance.reports.terminal import ProgressLine
    from antiphon.compliance.runner import CouldNotRun, find_model, run, with_version

    url = arguments.url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise CommandFailed(f"antiphon: {url} is no address; it begins with http:// or https://", MISTAKE)
    if url.endswith("/responses"):
        url = url.removesuffix("/responses")
        print(f"antiphon: the base URL ends before /responses; going on with {url}", file=sys.stderr)

    async def judge() -> "Report":
        target = await with_version(_target(arguments, url, arguments.model or ""))
        if target.url != url:
            print(f"antiphon: there is nothing at {url}/models; going on with {target.url}", file=sys.stderr)
        if not target.model:
            target = replace(target, model=await find_model(target))
        progress = ProgressLine(len(rules))
        recorder = Recorder(arguments.record) if arguments.record else None
        try:
            return await run(
                target,
                rules,
                concurrency=arguments.concurrency,
                watch=lambda check, result: (
                    progress.begin(check.rule.id)
                    if result is None
                    else progress.end(check.rule.id, result.outcome)
                ),
                keep=recorder.keep if recorder else lambda rule, exchange: None,
            )
        finally:
            progress.close()

    try:
        return asyncio.run(judge())
    except CouldNotRun as error:
        raise CommandFailed(f"antiphon: {error}", MISTAKE) from None


def _target(arguments: argparse.Namespace, url: str, model: str) -> "ServerUnderTest":
    from antiphon.compliance.catalog import TRANSPORTS
    from antiphon.compliance.probe import ServerUnderTest

    return ServerUnderTest(
        url,
        model,
        arguments.api_key,
        arguments.second_key,
        arguments.timeout,
        arguments.spec,
        tuple(arguments.transport or TRANSPORTS),
        arguments.websocket_limit,
    )


def _show(report: "Report", arguments: argparse.Namespace) -> int:
    from antiphon.compliance.reports import html, machine, terminal

    if arguments.json == "-":
        sys.stdout.write(machine.to_json(report).decode() + "\n")
    else:
        terminal.write(report, sys.stdout, verbose=arguments.verbose)
        if arguments.json is not None:
            Path(arguments.json).write_bytes(machine.to_json(report))
    if arguments.junit is not None:
        Path(arguments.junit).write_bytes(machine.to_junit(report))
    if arguments.html is not None:
        Path(arguments.html).write_text(html.page(report), encoding="utf-8")
    return report.exit_code
