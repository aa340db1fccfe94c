"""`antiphon setup CLIENT --prove`: the installed client shows that everything works through the gateway.

What happened is judged by the requests that passed, and by the folder that the client worked in: not by what
the model or the client says about it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from antiphon.cli.common import FAILED, MISTAKE, CommandFailed
from antiphon.cli.setup.clients import FileClient
from antiphon.cli.setup.drive import Driver, usage_of
from antiphon.cli.setup.gateway import ask, is_up
from antiphon.cli.setup.relay import Relay, RelayedRequest, relay_to
from antiphon.wires.data_folder import default_data_folder
from antiphon.wires.own_command import own_command

FILE: Final = "proof.txt"
FIRST: Final = (
    f"Use your tools, and do not ask. Create the file {FILE} in the current folder; its only line is the "
    "word alpha. Then run the command `seq 1 2000` and tell the last number that it printed."
)
NEXT: Final = f"Now change {FILE} with your tools: put the word beta in place of the word alpha. Then stop."
LAST: Final = "Use no tool. Answer with one word: done."
_LONG: Final = 2000
"""About how many tokens the command's output has, at least: what a compaction makes shorter."""


@dataclass(frozen=True, slots=True)
class _Finding:
    name: str
    holds: bool
    seen: str


def prove(name: str, client: FileClient, url: str, models: list[str]) -> int:
    """Drives the client, prints the observations, and returns the exit code."""
    if not client.package:
        raise CommandFailed(f"antiphon: {client.title} has a window, and cannot be driven from here", MISTAKE)
    program = shutil.which(name)
    if program is None:
        raise CommandFailed(f"antiphon: {client.title} is not installed here; get it with: {client.package}")
    if not is_up(url):
        raise CommandFailed(f"antiphon: no gateway answers on {url}; start it with `{own_command('serve')}`")
    gateway = ask(url, models)
    # Codex's sandbox does not start from a home in the system's temporary folder.
    own = default_data_folder() / "setup"
    own.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        relay_to(gateway.root) as relay,
        tempfile.TemporaryDirectory(prefix="prove-", dir=own, ignore_cleanup_errors=True) as folder,
    ):
        driver = Driver(
            name,
            program,
            replace(gateway, url=f"{relay.url}/v1"),
            Path(folder) / "work",
            Path(folder) / "home",
        )
        print(f"{client.title} on {gateway.model.id}, in an empty folder", flush=True)
        findings = []
        for finding in run_proof(driver, relay):
            print(f"{'yes' if finding.holds else 'NO ':<4} {finding.name:<15} {finding.seen}", flush=True)
            findings.append(finding)
        _print_receipts(relay)
    return 0 if all(finding.holds for finding in findings) else FAILED


def run_proof(driver: Driver, relay: Relay) -> Iterator[_Finding]:
    """Makes the client run one tool call, one file edit, one continued turn and one compaction."""
    file = driver.work / FILE
    said = driver.first(FIRST)
    turns = relay.turns()
    calls = set().union(*(turn.calls() for turn in turns))
    yield _Finding("tool call", bool(calls), _about(turns, said, f"results that came back: {len(calls)}"))
    yield _Finding("file", _text(file) == "alpha", _about(turns, said, f"{FILE}: {_text(file)!r}"))
    said = driver.next(NEXT)
    later = relay.turns()[len(turns) :]
    continued = any(FILE in turn.request and calls & turn.calls() for turn in later)
    yield _Finding("continued turn", continued, _about(later, said, "its request had the first turn's calls"))
    yield _Finding("file edit", _text(file) == "beta", _about(later, said, f"{FILE}: {_text(file)!r}"))
    used = max((usage_of(turn.answer) for turn in later), default=0)
    said = driver.compact(LAST, used - _LONG // 2)
    last = relay.turns()[len(turns) + len(later) :]
    whole = [turn for turn in last if turn.code == 200 and not turn.failure()]
    # Some clients keep their newest turn as it is.
    compacted = len(whole) > 1 and not (calls & whole[-1].calls())
    yield _Finding(
        "compaction",
        bool(calls) and compacted,
        _about(last, said, "the last request had a summary instead of the first turn's calls"),
    )


def _about(turns: list[RelayedRequest], said: str, good: str) -> str:
    failed = [turn.failure() for turn in turns if turn.failure()]
    if not turns:
        return f"no request came; the client said: {said.strip()[-300:]}"
    return good + (f"; {len(failed)} requests failed: {failed[0]}" if failed else "")


def _text(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return None


def _print_receipts(relay: Relay) -> None:
    turns = relay.turns()
    receipts = {
        f"{one.get('action', 'changed')} {one.get('param', '')}: {one.get('reason', '')}"
        for turn in turns
        for one in turn.receipts
    }
    print(f"{len(turns)} requests; receipts: {len(receipts) or 'none'}")
    for line in sorted(receipts):
        print(f"  {line}")
