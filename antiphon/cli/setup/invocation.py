"""Turns the settings of a set-up into options and variables for one run of a client."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.cli.setup import claude, codex, opencode
from antiphon.cli.setup.edits import Setting, format_path
from antiphon.cli.setup.gateway import NO_KEY, GatewayInfo, key
from antiphon.cli.setup.options import SetupOptions
from antiphon.config import toml_text


@dataclass(frozen=True, slots=True)
class Invocation:
    """The arguments and variables of a client, before those of its user; an empty variable is to be unset."""

    arguments: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)


def invocation(client: str, gateway: GatewayInfo, options: SetupOptions, folder: str) -> Invocation:
    """Returns how to start a client on the gateway; `folder` exists as long as the client runs."""
    match client:
        case "codex":
            return _codex(gateway, options, Path(folder) / "models.json")
        case "claude":
            settings = _nest(claude.settings(gateway, options))
            # A key of another vendor in the environment would win over the command for ours.
            return Invocation(["--settings", json.dumps(settings)], dict.fromkeys(claude.KEYS, ""))
        case _:
            settings = _nest(opencode.settings(gateway, options))
            settings["provider"]["antiphon"]["options"]["apiKey"] = "{env:ANTIPHON_API_KEY}"
            variables = {"OPENCODE_CONFIG_CONTENT": json.dumps(settings), "ANTIPHON_API_KEY": key() or NO_KEY}
            return Invocation(
                [], variables if options.online else {**variables, "OPENCODE_DISABLE_MODELS_FETCH": "1"}
            )


def _codex(gateway: GatewayInfo, options: SetupOptions, catalogue: Path) -> Invocation:
    arguments = []
    for setting in codex.settings(gateway, options):
        value = setting.value
        if setting.path == ("model_catalog_json",):
            catalogue.write_bytes(gateway.catalogue)
            value = str(catalogue)
        arguments += ["-c", f"{format_path(setting.path)}={toml_text(value)}"]
    return Invocation(arguments)


def _nest(settings: list[Setting]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for setting in settings:
        at = whole
        *steps, last = map(str, setting.path)
        for step in steps:
            at = at.setdefault(step, {})
        at[last] = setting.value
    return whole
