"""The filled-in steps for users of clients whose settings no other program should write."""

import json
from typing import Any

from antiphon.cli.setup.gateway import USUAL_WINDOW, GatewayInfo, GatewayModel, token_line


def zed(gateway: GatewayInfo) -> str:
    provider = {
        "language_models": {
            "openai_compatible": {
                "Antiphon": {
                    "api_url": gateway.url,
                    "available_models": [_zed_model(model) for model in gateway.models],
                }
            }
        },
        "telemetry": {"diagnostics": False, "metrics": False},
    }
    return f"""\
1. In Zed, run the command `zed: open settings file` and merge this into what is there:

{_indent(json.dumps(provider, indent=2))}

2. Zed reads the key of a provider from a variable that is named after it. Start it from a shell:

    ANTIPHON_API_KEY="$({token_line()})" zed

3. Choose {gateway.model.id} in the agent panel's list of models."""


def goose(gateway: GatewayInfo) -> str:
    lines = [
        "GOOSE_PROVIDER: openai",
        f"GOOSE_MODEL: {json.dumps(gateway.model.id)}",
        f"OPENAI_HOST: {gateway.root}",
        "OPENAI_BASE_PATH: v1/responses",
        "GOOSE_TELEMETRY_ENABLED: false",
    ]
    if gateway.model.context_window:
        lines.append(f"GOOSE_CONTEXT_LIMIT: {gateway.model.context_window}")
    return f"""\
1. Put these lines into ~/.config/goose/config.yaml, in place of those with the same names:

{_indent(chr(10).join(lines))}

2. goose takes no key from that file. Start it with the gateway's key in its variable:

    OPENAI_API_KEY="$({token_line()})" goose session"""


def cline(gateway: GatewayInfo) -> str:
    model = gateway.model
    window = f"\n   - Context Window Size: {model.context_window}" if model.context_window else ""
    output = f"\n   - Max Output Tokens: {model.output_limit}" if model.output_limit else ""
    vision = "on" if model.has_vision else "off"
    return f"""\
Cline keeps its settings inside the editor, so they are typed in. Open its settings (the gear), and set:

   - API Provider: OpenAI Compatible
   - Base URL: {gateway.url}
   - API Key: what `{token_line()}` prints
   - Model ID: {model.id}
   - Supports Images: {vision}{window}{output}

"Allow error and usage reporting", under General, is the switch for other traffic."""


def continue_(gateway: GatewayInfo) -> str:
    lines = []
    for model in gateway.models:
        lines += [
            f"  - name: Antiphon {model.id}",
            "    provider: openai",
            f"    model: {json.dumps(model.id)}",
            f"    apiBase: {gateway.url}",
            "    apiKey: ${{ secrets.ANTIPHON_API_KEY }}",
            "    roles: [chat, edit, apply]",
            f"    capabilities: [tool_use{', image_input' if model.has_vision else ''}]",
        ]
        if model.context_window:
            lines += ["    defaultCompletionOptions:", f"      contextLength: {model.context_window}"]
    return f"""\
1. Put this under `models:` in ~/.continue/config.yaml:

{_indent(chr(10).join(lines))}

2. The key comes from ~/.continue/.env, which is yours alone:

    (umask 077; echo "ANTIPHON_API_KEY=$({token_line()})" >> ~/.continue/.env)

3. "Allow Anonymous Telemetry", in Continue's settings in the editor, is the switch for other traffic."""


def _zed_model(model: GatewayModel) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": model.id,
        "display_name": model.id,
        "max_tokens": model.context_window or USUAL_WINDOW,
        "capabilities": {
            "tools": True,
            "images": bool(model.has_vision),
            "parallel_tool_calls": True,
            "prompt_cache_key": True,
            "chat_completions": False,
        },
    }
    return told if model.output_limit is None else {**told, "max_output_tokens": model.output_limit}


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
