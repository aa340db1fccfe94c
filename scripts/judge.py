"""`make judge`: holds servers that are not ours to the rules, and writes the table in docs/compliance.md.

llama.cpp's own server comes with the embedded model. The others are installed from the package index,
each in an environment of its own under `.judge`, and answer with that same model.
"""

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from antiphon import __version__  # noqa: E402
from antiphon.compliance.catalog import LEVELS, select  # noqa: E402
from antiphon.compliance.probe import ServerUnderTest  # noqa: E402
from antiphon.compliance.reports import html, machine  # noqa: E402
from antiphon.compliance.results import Report  # noqa: E402
from antiphon.compliance.runner import CouldNotRun, run  # noqa: E402
from antiphon.embedded.child import ChildSettings  # noqa: E402
from scripts.compliance_page import PAGE, put_between  # noqa: E402

KEY = "a-key-for-judging"
MODEL = "smollm2-135m-instruct"
FOLDER = ROOT / ".judge"
UP = 180.0
PATIENCE = 300.0
"""A small machine that does other things too is no fault of the server."""


@dataclass(frozen=True)
class Candidate:
    name: str
    url: str
    model: str
    api_key: str | None = None
    concurrency: int = 2


def main(names: list[str]) -> int:
    FOLDER.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no server stays behind
    with llama_server() as llama:
        starts: dict[str, Callable[[], AbstractContextManager[Candidate]]] = {
            "antiphon": antiphon,
            "llama.cpp": lambda: nullcontext(
                Candidate(f"llama.cpp (xllamacpp {version('xllamacpp')})", f"{llama}/v1", MODEL, KEY)
            ),
            "open-responses-server": lambda: open_responses_server(llama),
            "litellm": lambda: litellm(llama, translates=True),
            "litellm-passing": lambda: litellm(llama, translates=False),
        }
        for name in names or list(starts):
            try:
                with starts[name]() as candidate:
                    report = judge(candidate)
            except (OSError, subprocess.SubprocessError, TimeoutError, CouldNotRun) as error:
                print(f"judge: {name} could not be judged: {error}", file=sys.stderr)
                continue
            (FOLDER / f"{name}.html").write_text(html.page(report), encoding="utf-8")
            (FOLDER / f"{name}.json").write_bytes(machine.to_json(report))
            (FOLDER / f"{name}.row").write_text(row(candidate, report), encoding="utf-8")
            print(row(candidate, report), flush=True)
        put_between(PAGE, "judged", table(list(starts)))
    return 0


def table(names: list[str]) -> str:
    """What was found of each server, now or when it was last judged."""
    rows = [path.read_text(encoding="utf-8") for name in names if (path := FOLDER / f"{name}.row").exists()]
    head = "| server | judged | MUST | SHOULD | failed MUSTs, by group |\n|---|---|---|---|---|\n"
    return f"Each with `{MODEL}` behind it.\n\n{head}" + "\n".join(rows)


def judge(candidate: Candidate) -> Report:
    target = ServerUnderTest(candidate.url, candidate.model, candidate.api_key, timeout=PATIENCE)
    return asyncio.run(run(target, select(), concurrency=candidate.concurrency))


def row(candidate: Candidate, report: Report) -> str:
    cells = [candidate.name, report.started[:10]]
    for level in LEVELS[:2]:
        counts = report.counts(level)
        cells.append(f"{counts['pass']} pass, {counts['fail']} fail, {counts['skip']} skip")
    groups = Counter(result.rule.group for result in report.of("fail", "MUST"))
    cells.append(", ".join(f"{group} {count}" for group, count in groups.most_common()) or "none")
    return f"| {' | '.join(cells)} |"


@contextmanager
def llama_server() -> Iterator[str]:
    """llama.cpp's server with the embedded model; its address."""
    settings = ChildSettings(MODEL, MODEL, KEY, slots=2, context=4096, threads=0)
    process = subprocess.Popen(
        [sys.executable, "-m", "antiphon.embedded.child"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(FOLDER / "llama.log").open("wb"),
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            said = json.loads(line)
            if "error" in said:
                raise OSError(said["error"])
            if "url" in said:
                yield said["url"]
                return
        raise OSError("llama.cpp's server did not start")
    finally:
        process.stdin.close()
        process.wait(30)


@contextmanager
def antiphon() -> Iterator[Candidate]:
    port = free_port()
    command = [sys.executable, "-m", "antiphon", "serve", "--port", str(port)]
    settings = {"PYTHONPATH": str(ROOT), "ANTIPHON_STORE__PATH": str(FOLDER / "data")}
    with serving("antiphon", command, f"http://127.0.0.1:{port}/healthz", settings):
        yield Candidate(f"antiphon {__version__}", f"http://127.0.0.1:{port}/v1", MODEL)


@contextmanager
def open_responses_server(llama: str) -> Iterator[Candidate]:
    python = environment("open-responses-server")
    port = free_port()
    settings = {
        "OPENAI_BASE_URL_INTERNAL": llama,
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}",
        "OPENAI_API_KEY": KEY,
        "API_ADAPTER_HOST": "127.0.0.1",
        "API_ADAPTER_PORT": str(port),
    }
    with serving(
        "open-responses-server",
        [str(python.parent / "otc"), "start"],
        f"http://127.0.0.1:{port}/v1/models",
        settings,
    ):
        name = f"open-responses-server {installed(python, 'open-responses-server')}"
        # It has `/responses` where others have `/v1/responses`.
        yield Candidate(name, f"http://127.0.0.1:{port}", MODEL)


@contextmanager
def litellm(llama: str, *, translates: bool) -> Iterator[Candidate]:
    """Before an upstream that only has chat completions; or before llama.cpp's own responses."""
    python = environment("litellm[proxy]")
    port = free_port()
    config = FOLDER / "litellm.yaml"
    key = f"sk-{secrets.token_hex(24)}"
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
    # To LiteLLM an upstream of the kind `openai` has responses and sockets of its own; `llamafile` has none.
    kind = "llamafile" if translates else "openai"
    entry = {"model": f"{kind}/{MODEL}", "api_base": f"{llama}/v1", "api_key": KEY}
    config.write_text(json.dumps({"model_list": [{"model_name": MODEL, "litellm_params": entry}]}))
    command = [
        str(python.parent / "litellm"),
        "--config",
        str(config),
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
    ]
    with serving("litellm", command, f"http://127.0.0.1:{port}/health/liveliness", offline):
        name = f"litellm {installed(python, 'litellm')}"
        way = "by chat completions" if translates else "passing on to llama.cpp's `/v1/responses`"
        yield Candidate(f"{name}, {way}", f"http://127.0.0.1:{port}/v1", MODEL, key)


def environment(package: str) -> Path:
    """The Python of an environment that has this package and nothing of ours."""
    folder = FOLDER / package.partition("[")[0]
    python = folder / "bin" / "python"
    if not python.exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", str(folder)], check=True)
        subprocess.run([*uv, "pip", "install", "--quiet", "--python", str(python), package], check=True)
    return python


def installed(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@contextmanager
def serving(name: str, command: list[str], url: str, settings: dict[str, str]) -> Iterator[None]:
    """A server while it runs; it is up when this address answers."""
    with (FOLDER / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=FOLDER, env={**os.environ, **settings}, stdout=log, stderr=log
        )
        try:
            wait_for(url, process)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:  # busy with what it was asked last
                process.kill()
                process.wait()


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    ends = time.monotonic() + UP
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise OSError(f"it ended with exit code {process.returncode}")
        try:
            opener.open(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"it did not answer within {UP:g} seconds")


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
