"""Claude Code: environment variables and the command for the key, in settings.json."""

import os
from pathlib import Path
from typing import Final

from antiphon.cli.setup.edits import EditableFile, JsonDocument, Setting
from antiphon.cli.setup.gateway import GatewayInfo, token_line
from antiphon.cli.setup.options import SetupOptions, home

SMALLEST_WINDOW: Final = 100_000
"""Claude Code takes no smaller window; before that, it compacts when the gateway says that it is full."""
KEYS: Final = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")


def file(options: SetupOptions) -> Path:
    if options.profile:
        return home("CLAUDE_CONFIG_DIR", ".claude") / f"{options.profile}.settings.json"
    if options.project:
        return Path.cwd() / ".claude" / "settings.local.json"
    return home("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"


def document() -> EditableFile:
    return JsonDocument()


def settings(gateway: GatewayInfo, options: SetupOptions) -> list[Setting]:
    main, small = gateway.model, gateway.models[1 % len(gateway.models)]
    variables = {
        "ANTHROPIC_BASE_URL": gateway.root,
        "ANTHROPIC_MODEL": main.id,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": main.id,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": main.id,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": small.id,
    }
    if main.context_window:
        variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(max(main.context_window, SMALLEST_WINDOW))
    if main.output_limit:
        variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(main.output_limit)
    if not options.online:
        variables["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    if options.plain_key:
        variables["ANTHROPIC_AUTH_TOKEN"] = options.plain_key
    wanted = [Setting(("env", name), value) for name, value in variables.items()]
    return wanted if options.plain_key else [*wanted, Setting(("apiKeyHelper",), token_line())]


def extras(gateway: GatewayInfo, options: SetupOptions) -> dict[Path, bytes]:
    return {}


def notes(gateway: GatewayInfo, options: SetupOptions) -> list[str]:
    start = f"claude --settings {file(options)}" if options.profile else "claude"
    said = [f"start it with: {start}"]
    said += [
        f"{name} is set in this shell: Claude Code would send it instead of the gateway's key; "
        f"start it with: env -u {name} {start}"
        for name in KEYS
        if os.environ.get(name)
    ]
    window = gateway.model.context_window
    if window and window < SMALLEST_WINDOW:
        said.append(
            f"with a window of {window} tokens, Claude Code compacts when the gateway says it is full"
        )
    return said
