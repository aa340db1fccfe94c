"""opencode: a provider of its own in opencode.json."""

import os
from pathlib import Path
from typing import Any

from antiphon.cli.setup.edits import Setting
from antiphon.cli.setup.gateway import NO_KEY, GatewayInfo, GatewayModel, key_file
from antiphon.cli.setup.options import SetupOptions, home

_SCHEMA = "https://opencode.ai/config.json"
"""opencode writes this into a file that has none, which could then not be put back byte for byte."""
_NAMES = ("opencode.jsonc", "opencode.json")


def file(options: SetupOptions) -> Path:
    folder = Path.cwd() if options.project else home("XDG_CONFIG_HOME", ".config") / "opencode"
    if options.profile:
        return folder / f"{options.profile}.opencode.json"
    return next((folder / name for name in _NAMES if (folder / name).exists()), folder / _NAMES[-1])


def settings(gateway: GatewayInfo, options: SetupOptions) -> list[Setting]:
    name = f"antiphon/{gateway.model.id}"
    provider = {
        "npm": "@ai-sdk/openai",
        "name": "Antiphon",
        "options": {"baseURL": gateway.url, "apiKey": options.plain_key or _key()},
        "models": {model.id: _model(model) for model in gateway.models},
    }
    wanted = [
        Setting(("$schema",), _SCHEMA, is_kept=True),
        Setting(("model",), name),
        Setting(("small_model",), name),
        Setting(("provider", "antiphon"), provider, is_own=True),
    ]
    if not options.online:
        wanted += [Setting(("autoupdate",), False), Setting(("share",), "disabled")]
    return wanted


def notes(gateway: GatewayInfo, options: SetupOptions) -> list[str]:
    start = f"OPENCODE_CONFIG={file(options)} opencode" if options.profile else "opencode"
    return [
        f"start it with: {start}",
        "its list of other models comes from elsewhere; OPENCODE_DISABLE_MODELS_FETCH=1 stops that",
    ]


def _key() -> str:
    """Returns where opencode finds the key; without a place it would use the key of another vendor."""
    if os.environ.get("ANTIPHON_API_KEY"):
        return "{env:ANTIPHON_API_KEY}"
    return f"{{file:{key_file()}}}" if key_file().exists() else NO_KEY


def _model(model: GatewayModel) -> dict[str, Any]:
    told: dict[str, Any] = {"name": model.id, "tool_call": True}
    if model.has_vision:
        told["attachment"] = True
    if model.context_window:
        window = model.context_window
        told["limit"] = {"context": window, "output": model.output_in(window)}
    return told
