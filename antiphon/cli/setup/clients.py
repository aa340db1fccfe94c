"""The table of clients: where each keeps its settings, and what goes into them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from antiphon.cli.setup import claude, codex, opencode, steps, vscode
from antiphon.cli.setup.edits import EditableFile, JsonDocument, Setting, TomlDocument
from antiphon.cli.setup.gateway import GatewayInfo
from antiphon.cli.setup.options import SetupOptions


@dataclass(frozen=True, slots=True)
class FileClient:
    """A client whose file the set-up writes."""

    title: str
    package: str
    """What to install to get it."""
    file: Callable[[SetupOptions], Path]
    document: EditableFile
    settings: Callable[[GatewayInfo, SetupOptions], list[Setting]]
    notes: Callable[[GatewayInfo, SetupOptions], list[str]]
    extras: Callable[[GatewayInfo, SetupOptions], dict[Path, bytes]] = lambda gateway, options: {}
    """Files of our own that the settings name."""
    warnings: Callable[[SetupOptions], list[str]] = lambda options: []
    """What would keep the client from doing what its file says."""
    with_room: Callable[[GatewayInfo], GatewayInfo] = lambda gateway: gateway
    """Takes another model of the gateway, where the usual one is too small for the client."""


@dataclass(frozen=True, slots=True)
class PrintedClient:
    """A client that keeps its settings where no other program should write: the set-up prints the steps."""

    title: str
    steps: Callable[[GatewayInfo], str]


FILE_CLIENTS: Final[Mapping[str, FileClient]] = {
    "codex": FileClient(
        "Codex",
        "npm install -g @openai/codex",
        codex.file,
        TomlDocument(codex.NOTE),
        codex.settings,
        codex.notes,
        extras=codex.extras,
    ),
    "claude": FileClient(
        "Claude Code",
        "npm install -g @anthropic-ai/claude-code",
        claude.file,
        JsonDocument(),
        claude.settings,
        claude.notes,
        warnings=claude.warnings,
        with_room=claude.with_room,
    ),
    "opencode": FileClient(
        "opencode",
        "npm install -g opencode-ai",
        opencode.file,
        JsonDocument(),
        opencode.settings,
        opencode.notes,
    ),
    "vscode": FileClient("VS Code", "", vscode.file, JsonDocument("[]"), vscode.settings, vscode.notes),
}

PRINTED_CLIENTS: Final[Mapping[str, PrintedClient]] = {
    "zed": PrintedClient("Zed", steps.zed),
    "goose": PrintedClient("goose", steps.goose),
    "cline": PrintedClient("Cline", steps.cline),
    "continue": PrintedClient("Continue", steps.continue_),
}
