"""`make agents`: drives real coding agents over the gateway, and writes the table in docs/coding-agents.md.

They are installed from npm at the versions of tests/agents/package.json, under .cache/agents. Each works in a
folder and with a home of its own, and reaches this machine alone. One client, wire or scenario:
make agents ARGS="codex chat".
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from antiphon.cli.setup.relay import relay_to  # noqa: E402
from scripts.compliance_page import put_between  # noqa: E402
from tests.agents.scenarios import SCENARIOS, Case  # noqa: E402
from tests.agents.upstreams import upstream  # noqa: E402

PAGE = ROOT / "docs" / "coding-agents.md"
MARK = "what was tried, as `make agents` wrote it"
PINNED = ROOT / "tests" / "agents" / "package.json"
FOLDER = ROOT / ".cache" / "agents"
RESULTS = FOLDER / "results.json"
PATIENCE = 120.0
AT_ONCE = 3

# Each client's command, and the package that has it.
CLIENTS = {
    "Codex, HTTP": ("codex", "@openai/codex"),
    "Codex, WebSocket": ("codex", "@openai/codex"),
    "Claude Code": ("claude", "@anthropic-ai/claude-code"),
    "opencode": ("opencode", "opencode-ai"),
}
WIRES = ("script", "chat", "anthropic", "gemini", "responses")


def install() -> Path:
    """The folder with the clients' commands; does nothing when they are there."""
    ready = FOLDER / "package.json"
    if not (
        ready.exists() and ready.read_bytes() == PINNED.read_bytes() and (FOLDER / "node_modules").exists()
    ):
        if shutil.which("npm") is None:
            sys.exit("agents: npm is missing; on Debian: apt install nodejs npm")
        FOLDER.mkdir(parents=True, exist_ok=True)
        print("agents: installing the clients, about 1.2 GB", flush=True)
        RESULTS.unlink(missing_ok=True)
        shutil.copy(PINNED, ready)
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], cwd=FOLDER, check=True
        )
    return FOLDER / "node_modules" / ".bin"


async def judge(title: str, program: Path, wire: str, scenario: str) -> str:
    """The verdict on one scenario, in a folder that is gone afterwards."""
    client = CLIENTS[title][0]
    with tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        async with upstream(wire, folder, client) as behind:
            websockets = title.endswith("WebSocket")
            with relay_to(behind.url) if behind.is_script and not websockets else nullcontext() as relay:
                case = Case(client, str(program), behind, folder, relay, websockets, PATIENCE)
                return await SCENARIOS[scenario](case)


def table(found: dict[str, str]) -> str:
    versions = json.loads(PINNED.read_text())["dependencies"]
    names = ", ".join(f"{package} {version}" for package, version in sorted(versions.items()))
    lines = [
        f"\nWith {names}.\n",
        f"| client | provider | {' | '.join(SCENARIOS)} |",
        f"|---|---|{'---|' * len(SCENARIOS)}",
    ]
    for title in CLIENTS:
        for wire in WIRES:
            cells = (found[f"{title} {wire} {name}"].partition("\n")[0] for name in SCENARIOS)
            lines.append(f"| {title} | `{wire}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_table(found: dict[str, str], page: Path = PAGE) -> None:
    """Puts the table into the page, once there is a verdict for each of its cells."""
    every = {f"{title} {wire} {name}" for title in CLIENTS for wire in WIRES for name in SCENARIOS}
    if every <= found.keys():
        put_between(page, MARK, table(found))
    else:
        print(f"agents: {len(every - found.keys())} cases were never run, so {page.name} stays as it is")


async def main(wanted: list[str]) -> int:
    programs = install()
    cases = [
        (title, wire, scenario)
        for title in CLIENTS
        for wire in WIRES
        for scenario in SCENARIOS
        if all(word.lower() in f"{title} {wire} {scenario}".lower() for word in wanted)
    ]
    places = asyncio.Semaphore(AT_ONCE)

    async def run(title: str, wire: str, scenario: str) -> str:
        async with places:
            try:
                verdict = await judge(title, programs / CLIENTS[title][0], wire, scenario)
            except Exception as error:
                verdict = f"NO: {type(error).__name__}: {error}"
        print(f"{title:<18} {wire:<10} {scenario:<26} {verdict}", flush=True)
        return verdict

    verdicts = await asyncio.gather(*(run(*case) for case in cases))
    found = {**_kept(), **{" ".join(case): verdict for case, verdict in zip(cases, verdicts, strict=True)}}
    RESULTS.write_text(json.dumps(found))
    write_table(found)
    return 0 if all(verdict.startswith("yes") for verdict in verdicts) else 1


def _kept() -> dict[str, str]:
    """The verdicts of earlier runs with the same clients, so that a part can be run again."""
    kept: dict[str, str] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return kept


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
