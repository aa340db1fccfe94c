"""What each provider takes, drops and gives, as tables: `docs/providers/` has them.

Those of `README.md` are read off the capabilities of real providers, made from the smallest configuration
that each type can have; each provider's own page has its events, between two marks:
`python -m scripts.provider_pages`.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from antiphon.config import LocalSettings, UpstreamTimeouts
from antiphon.providers.base import Capabilities, Environment
from antiphon.providers.chat.profiles import PROFILES
from antiphon.providers.http import UpstreamClient
from antiphon.providers.presets import PRESETS
from antiphon.providers.registry import OURS, TYPES, create_provider
from antiphon.spec.request import PROVIDER_PARAMETERS, Request
from scripts.provider_events import EVENTS, section, table

_MADE = "<!-- Made by `python -m scripts.provider_pages`; do not edit. -->"
_BEGIN = "<!-- Made by `python -m scripts.provider_pages`, down to the next mark; do not edit. -->"
_END = "<!-- The end of what is made. -->"
# What a type cannot be made without.
_NEEDED: Mapping[str, Mapping[str, str]] = {"bedrock": {"region": "us-east-1"}, "vertex": {"project": "p"}}

_FEATURES: Mapping[str, Callable[[Capabilities], str]] = {
    "images": lambda takes: _media(takes.images, takes.image_urls),
    "files": lambda takes: _media(takes.files, takes.file_urls),
    "audio": lambda takes: _yes(takes.audio),
    "tools": lambda takes: _yes(takes.tools),
    "forced tool": lambda takes: _yes(takes.forced_tools),
    "custom tools": lambda takes: _yes(takes.custom_tools),
    "json_schema": lambda takes: "yes" if takes.json_schema else "in words",
    "logprobs": lambda takes: _yes(takes.logprobs),
    "reasoning": lambda takes: _yes(takes.reasoning),
    "proofs": lambda takes: _yes(takes.proofs),
    "counts tokens": lambda takes: _yes(takes.counts_tokens),
}

_HEAD = """\
# Providers

One page each: [anthropic](anthropic.md), [azure](azure.md), [bedrock](bedrock.md), [chat](chat.md),
[gemini](gemini.md), [ollama](ollama.md), [responses](responses.md), [script](script.md),
[vertex](vertex.md), [writer](writer.md), and [your own](your-own.md). The embedded model, `llama`, has
[its page](../embedded-model.md) too.

What a provider does not take leaves a receipt in the response, and strict mode refuses it. Content that it
does not take is always refused, with its place."""

_ABOUT_PRESETS = """\
## Presets

A type of this table is an adapter with an address, a profile (for `responses`: quirks) and a variable for
the key, so that one line configures it: `type = "groq"`. Every key of the adapter can stand beside it, and
wins."""

_ABOUT_FEATURES = """\
## What they take

- **images, files**: `data` is as data only, and the gateway fetches what is named by an address; `address`
  is both ways; `no` is refused.
- **forced tool**: `tool_choice` with `required` or a name.
- **custom tools** are wrapped where the wire has only functions, and unwrapped on output.
- **proofs** of reasoning are kept sealed in `encrypted_content` and sent back."""

_ABOUT_PARAMETERS = """\
## Which parameters are dropped

The second column has the parameters of the specification that do not reach the model. The last has those
outside the specification that do."""


def capabilities() -> dict[str, Capabilities]:
    """Of every type; `chat` has a row for each of its profiles."""
    environment = Environment(
        http=UpstreamClient(), timeouts=UpstreamTimeouts(), local=LocalSettings(), folder=Path("unused")
    )
    found: dict[str, Capabilities] = {}
    for kind in sorted(OURS):
        if kind == "chat":
            found |= {f"chat, {name}": profile.capabilities for name, profile in PROFILES.items()}
            continue
        keys: dict[str, Any] = {"type": kind, "name": kind, **_NEEDED.get(kind, {})}
        if TYPES[kind].needs_base_url:
            keys["base_url"] = "https://example.com"
        found[kind] = create_provider(TYPES[kind](**keys), environment).capabilities
    return found


def page() -> str:
    found = capabilities()
    features = [[name, *(tell(takes) for tell in _FEATURES.values())] for name, takes in found.items()]
    parameters = [[name, _dropped(takes), _extra(takes)] for name, takes in found.items()]
    sections = [
        _MADE,
        _HEAD,
        _ABOUT_PRESETS,
        table(["type", "adapter", "profile", "address", "key from"], _presets()),
        _ABOUT_FEATURES,
        table(["provider", *_FEATURES], features),
        _ABOUT_PARAMETERS,
        table(["provider", "dropped", "taken beyond the specification"], parameters),
    ]
    return "\n\n".join(sections) + "\n"


def _presets() -> list[list[str]]:
    return [
        [
            f"`{kind}`",
            f"[{preset.adapter}]({preset.adapter}.md)",
            f"`{preset.profile}`",
            preset.base_url,
            f"`{preset.api_key_env}`" if preset.api_key_env else "no key",
        ]
        for kind, preset in PRESETS.items()
    ]


def _yes(has: bool) -> str:
    return "yes" if has else "no"


def _media(taken: bool, by_address: bool) -> str:
    return "address" if taken and by_address else "data" if taken else "no"


def _dropped(takes: Capabilities) -> str:
    return ", ".join(f"`{name}`" for name in PROVIDER_PARAMETERS if name not in takes.parameters) or "none"


def _extra(takes: Capabilities) -> str:
    if takes.extras:
        return "all"
    known = {*PROVIDER_PARAMETERS, *Request.__struct_fields__}
    return ", ".join(f"`{name}`" for name in sorted(takes.parameters - known)) or "none"


def with_events(provider: str, text: str) -> str:
    """A provider's page with the section about its events written anew."""
    before, _, rest = text.partition(_BEGIN)
    _, found, after = rest.partition(_END)
    if not found:
        raise ValueError(f"the page of {provider!r} needs the lines {_BEGIN!r} and {_END!r}")
    return before + "\n\n".join([_BEGIN, *section(provider), _END]) + after


def page_of(provider: str, docs: Path) -> Path:
    own = docs / "providers" / f"{provider}.md"
    return docs / "embedded-model.md" if provider == "llama" else own


def main(arguments: list[str]) -> None:
    docs = Path(arguments[0] if arguments else "docs")
    (docs / "providers" / "README.md").write_text(page(), encoding="utf-8")
    for provider in EVENTS:
        file = page_of(provider, docs)
        file.write_text(with_events(provider, file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
