"""VS Code: a custom endpoint in chatLanguageModels.json of the user's folder."""

import os
import sys
from pathlib import Path
from typing import Any

from antiphon.cli.common import MISTAKE, CommandFailed
from antiphon.cli.setup.edits import Setting
from antiphon.cli.setup.gateway import USUAL_WINDOW, GatewayInfo, GatewayModel
from antiphon.cli.setup.json_text import NamedMember
from antiphon.cli.setup.options import SetupOptions, home


def file(options: SetupOptions) -> Path:
    if options.profile or options.project:
        raise CommandFailed(
            "antiphon: VS Code has one list of models for a user; leave --profile and --project out", MISTAKE
        )
    if sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support" / "Code"
    elif os.name == "nt":
        folder = Path(os.environ.get("APPDATA", str(Path.home()))) / "Code"
    else:
        folder = home("XDG_CONFIG_HOME", ".config") / "Code"
    return folder / "User" / "chatLanguageModels.json"


def settings(gateway: GatewayInfo, options: SetupOptions) -> list[Setting]:
    group = {
        "name": "Antiphon",
        "vendor": "customendpoint",
        # VS Code asks for the key once, and keeps it in its own store.
        "apiKey": options.plain_key or "${input:antiphon-key}",
        "apiType": "responses",
        "models": [_model(gateway, model) for model in gateway.models],
    }
    return [Setting((NamedMember("Antiphon"),), group, is_own=True)]


def notes(gateway: GatewayInfo, options: SetupOptions) -> list[str]:
    return [
        "choose the model in the chat's list of models; VS Code asks for the key once "
        "(for a gateway without keys, any word will do)"
    ]


def _model(gateway: GatewayInfo, model: GatewayModel) -> dict[str, Any]:
    window = model.context_window or USUAL_WINDOW
    output = model.output_in(window)
    return {
        "id": model.id,
        "name": model.id,
        "url": f"{gateway.url}/responses",
        "toolCalling": True,
        "vision": bool(model.has_vision),
        "maxInputTokens": max(window - output, 1),
        "maxOutputTokens": output,
    }
