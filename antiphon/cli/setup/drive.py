"""Drives an installed client without a person: a first turn, a continued one, and a compaction."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon.cli.setup.gateway import GatewayInfo
from antiphon.cli.setup.invocation import invocation
from antiphon.cli.setup.options import SetupOptions
from antiphon.cli.setup.relay import answer_objects


@dataclass(frozen=True, slots=True)
class Driver:
    """A client in a folder and with a home of its own: nothing of its user is read or changed."""

    client: str
    program: str
    gateway: GatewayInfo
    work: Path
    home: Path
    patience: float = 300.0
    websockets: bool = False

    def first(self, prompt: str) -> str:
        return self._run(_COMMANDS[self.client](self, prompt, False))

    def next(self, prompt: str) -> str:
        return self._run(_COMMANDS[self.client](self, prompt, True))

    def compact(self, prompt: str, used: int) -> str:
        """Continues with a turn before which the client shortens its history of `used` tokens."""
        match self.client:
            case "codex":
                return self._run(
                    [*_codex(self, prompt, True), "-c", f"model_auto_compact_token_limit={used}"]
                )
            case "claude":
                return self.next("/compact") + self.next(prompt)
            case _:
                return replace(self, gateway=_with_window(self.gateway, used)).next(prompt)

    def start(self, prompt: str) -> subprocess.Popen[str]:
        """Starts a first turn, which the caller waits for or interrupts."""
        return self._start(_COMMANDS[self.client](self, prompt, False))

    def environ(self) -> dict[str, str]:
        call = invocation(self.client, self.gateway, SetupOptions(), str(self.home))
        own = {
            "HOME": str(self.home),
            # Codex's sandbox does not start from a home in the temporary folder, so that is another one.
            "TMPDIR": str(self.home / "tmp"),
            "PWD": str(self.work),
            "CODEX_HOME": str(self.home / ".codex"),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        }
        whole = {**os.environ, **own, **call.environ}
        return {name: value for name, value in whole.items() if value}

    def arguments(self) -> list[str]:
        self.home.mkdir(parents=True, exist_ok=True)
        return invocation(self.client, self.gateway, SetupOptions(), str(self.home)).arguments

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        for folder in (self.home / ".codex", self.home / "tmp", self.work):
            folder.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            command,
            cwd=self.work,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def _run(self, command: list[str]) -> str:
        with self._start(command) as process:
            try:
                return process.communicate(timeout=self.patience)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return process.communicate()[0] + f"\nstopped after {self.patience:g} seconds"


def _codex(driver: Driver, prompt: str, resume: bool) -> list[str]:
    return [
        *(driver.program, "exec"),
        *(("resume", "--last") if resume else ()),
        *("--json", "--skip-git-repo-check", *driver.arguments()),
        *("-c", 'sandbox_mode="workspace-write"', "-c", 'approval_policy="never"'),
        *("-c", f"model_providers.antiphon.supports_websockets={str(driver.websockets).lower()}"),
        prompt,
    ]


def _claude(driver: Driver, prompt: str, resume: bool) -> list[str]:
    return [
        *(driver.program, "-p", prompt, *driver.arguments()),
        *("--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"),
        *("--allowedTools", "Bash,Edit,Write,Read"),
        *(("--continue",) if resume else ()),
    ]


def _opencode(driver: Driver, prompt: str, resume: bool) -> list[str]:
    return [
        *(driver.program, "run", "--format", "json", "--auto"),
        *("--model", f"antiphon/{driver.gateway.model.id}", *(("--continue",) if resume else ())),
        prompt,
    ]


_COMMANDS: dict[str, Callable[[Driver, str, bool], list[str]]] = {
    "codex": _codex,
    "claude": _claude,
    "opencode": _opencode,
}


def _with_window(gateway: GatewayInfo, used: int) -> GatewayInfo:
    first, *rest = gateway.models
    return replace(gateway, models=(replace(first, context_window=used + 100, output_limit=100), *rest))


def usage_of(answer: str) -> int:
    """Returns the number of tokens that an answer of the gateway reports."""
    told = [one["usage"] for one in answer_objects(answer) if one.get("usage")]
    return max((one.get("input_tokens", 0) + one.get("output_tokens", 0) for one in told), default=0)
