"""Claude Code: environment variables and the command for the key, in settings.json."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from antiphon.cli.common import CommandFailed
from antiphon.cli.setup import json_text
from antiphon.cli.setup.edits import Setting, lookup
from antiphon.cli.setup.gateway import GatewayInfo, GatewayModel, token_line
from antiphon.cli.setup.json_text import BrokenFile
from antiphon.cli.setup.options import SetupOptions, home
from antiphon.cli.setup.safe_files import check_size, read_regular_file

NEEDED_TOKENS: Final = 10_300
"""What Claude Code 2.1.327 sends before the first word of its user: its instructions and its tools."""
_SMALLEST_COMPACT_WINDOW: Final = 100_000
"""Claude Code takes no smaller CLAUDE_CODE_AUTO_COMPACT_WINDOW."""
KEYS: Final = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")


def file(options: SetupOptions) -> Path:
    if options.profile:
        return home("CLAUDE_CONFIG_DIR", ".claude") / f"{options.profile}.settings.json"
    if options.project:
        return Path.cwd() / ".claude" / "settings.local.json"
    return home("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"


def settings(gateway: GatewayInfo, options: SetupOptions) -> list[Setting]:
    main, small = gateway.model, gateway.small_model
    variables = {
        "ANTHROPIC_BASE_URL": gateway.root,
        "ANTHROPIC_MODEL": main.id,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": main.id,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": main.id,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": small.id,
        # Its first line of the instructions would change with every prompt, and no prompt cache would fit.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }
    if main.context_window:
        # The first counts for names that Claude Code does not know, the second for the others.
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(main.context_window)
        window = max(main.context_window, _SMALLEST_COMPACT_WINDOW)
        variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(window)
    if main.output_limit or main.context_window:
        variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(main.output_in(main.context_window or 0))
    if not options.online:
        variables["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    if options.plain_key:
        variables["ANTHROPIC_AUTH_TOKEN"] = options.plain_key
    wanted = [Setting(("env", name), value) for name, value in variables.items()]
    return wanted if options.plain_key else [*wanted, Setting(("apiKeyHelper",), token_line())]


def warnings(options: SetupOptions) -> list[str]:
    """Returns the keys of other servers that Claude Code would send to the gateway, each with its place."""
    said = [
        f"{name} is set in this shell: Claude Code would send it instead of the gateway's key; "
        f"start it with: env -u {name} {_start(options)}"
        for name in KEYS
        if os.environ.get(name)
    ]
    # Of several files, the key that this command writes is the one that counts.
    own = ("ANTHROPIC_AUTH_TOKEN",) if options.plain_key else ()
    said += [
        f"{one} sets env.{name}: Claude Code would send it to the gateway instead of the gateway's key; "
        "take it out of there"
        for one in _read_files(options)
        for name in KEYS
        if name not in own and _has_variable(one, name)
    ]
    return said


def _read_files(options: SetupOptions) -> list[Path]:
    """Reads the files whose variables Claude Code has when it starts on the gateway."""
    found = [file(options), home("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"]
    if options.project:
        found.append(Path.cwd() / ".claude" / "settings.json")
    return list(dict.fromkeys(found))


def _has_variable(settings_file: Path, name: str) -> bool:
    try:
        text = read_regular_file(settings_file).decode("utf-8-sig")
        parsed = None if check_size(text) else json_text.parse(text)
    except (OSError, UnicodeDecodeError, BrokenFile):
        return False
    value = lookup(parsed, ("env", name))
    return isinstance(value, str) and bool(value)


def _start(options: SetupOptions) -> str:
    return f"claude --settings {file(options)}" if options.profile else "claude"


def notes(gateway: GatewayInfo, options: SetupOptions) -> list[str]:
    return [f"start it with: {_start(options)}"]


def with_room(gateway: GatewayInfo) -> GatewayInfo:
    """Returns the gateway with a model whose window fits Claude Code; warns if the named model's does not."""
    model = gateway.model
    if _has_room(model):
        return gateway
    why = (
        f"Claude Code sends about {NEEDED_TOKENS:,} tokens before the first word, and {model.id} has a "
        f"window of {model.context_window:,}"
    )
    if gateway.named:
        print(f"antiphon: {why}: expect errors", file=sys.stderr)
        return gateway
    usable = (one for one in gateway.others if _has_room(one) and one.takes_tools is not False)
    found = min(usable, key=_doubts, default=None)
    if found is None:
        raise CommandFailed(
            f"antiphon: {why}; no other model is there. Set a vendor's key where the gateway runs, start a "
            f"larger model on this machine, or name one with --model (--model {model.id} tries this one)"
        )
    print(f"antiphon: {why}; so it is given {found.id} (another: --model)", file=sys.stderr)
    return replace(gateway, models=(found,))


def _has_room(model: GatewayModel) -> bool:
    return model.context_window is None or model.context_window > NEEDED_TOKENS


def _doubts(model: GatewayModel) -> int:
    """Counts the facts that Claude Code needs and that are unknown for the model."""
    return (model.context_window is None) + (model.takes_tools is None)
