"""Codex: a provider of its own in config.toml, and the list of models that tells it their windows."""

from pathlib import Path
from typing import Any, Final

from antiphon.cli.common import MISTAKE, CommandFailed
from antiphon.cli.setup.edits import Setting
from antiphon.cli.setup.gateway import GatewayInfo, token_command
from antiphon.cli.setup.options import SetupOptions, home
from antiphon.config import toml_text as as_toml
from antiphon.wires.data_folder import default_data_folder

NOTE: Final = "# Written by `antiphon setup codex`; `antiphon setup codex --undo` takes it out again."


def file(options: SetupOptions) -> Path:
    if options.project:
        raise CommandFailed(
            "antiphon: Codex takes no provider from a project's file; use --profile NAME, and there "
            "`codex --profile NAME`",
            MISTAKE,
        )
    folder = home("CODEX_HOME", ".codex")
    return folder / (f"{options.profile}.config.toml" if options.profile else "config.toml")


def settings(gateway: GatewayInfo, options: SetupOptions) -> list[Setting]:
    provider: dict[str, Any] = {
        "name": "Antiphon",
        "base_url": gateway.url,
        "wire_api": "responses",
        "supports_websockets": True,
    }
    if options.plain_key:
        provider["experimental_bearer_token"] = options.plain_key
    else:
        command, *arguments = token_command()
        provider["auth"] = {"command": command, "args": arguments}
    wanted = [Setting(("model",), gateway.model.id), Setting(("model_provider",), "antiphon")]
    if gateway.catalogue:
        wanted.append(Setting(("model_catalog_json",), str(catalogue_file(options))))
    elif gateway.model.context_window:
        wanted.append(Setting(("model_context_window",), gateway.model.context_window))
    if not options.online:
        wanted.append(Setting(("check_for_update_on_startup",), False))
    wanted.append(Setting(("model_providers", "antiphon"), provider, is_own=True))
    if not options.online:
        wanted += [Setting(("analytics", "enabled"), False), Setting(("features", "plugins"), False)]
    return wanted


def extras(gateway: GatewayInfo, options: SetupOptions) -> dict[Path, bytes]:
    return {catalogue_file(options): gateway.catalogue} if gateway.catalogue else {}


def catalogue_file(options: SetupOptions) -> Path:
    profile = f"-{options.profile}" if options.profile else ""
    return (default_data_folder() / "setup" / f"codex-models{profile}.json").absolute()


def notes(gateway: GatewayInfo, options: SetupOptions) -> list[str]:
    said = [
        f"start it with: codex --profile {options.profile}" if options.profile else "start it with: codex"
    ]
    if gateway.catalogue:
        said.append(
            "after a change of the gateway's models, run this command again: Codex reads them from a file"
        )
    if gateway.model.context_window is None:
        said += [
            f"the window of {gateway.model.id} is unknown, so Codex never shortens its history by itself, "
            "and a full window ends the session.",
            "Set it in the gateway's configuration, restart the gateway, and run this command again:",
            f"    [catalogue.{as_toml(gateway.model.target)}]",
            "    context_window = 131072  # tokens",
        ]
    return said
