"""The effective configuration as TOML that anyone may see: secrets are hidden."""

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.config.kinds import Section
from antiphon.config.mistakes import KeyPath, quote, spell
from antiphon.config.reader import keys
from antiphon.config.schema import ClientKey, Config, StoreSettings
from antiphon.config.secret import HIDDEN, Secret
from antiphon.config.tools import ToolSettings
from antiphon.config.upstreams import ProviderSettings


def show(config: Config) -> str:
    """TOML with every value that is in force, also the defaults.

    >>> print(show(Config()).splitlines()[0])
    [server]
    """
    tree = _plain(config)
    tree["models"] = {
        alias: targets[0] if len(targets) == 1 else list(targets) for alias, targets in config.models.items()
    }
    for name, provider in config.providers.items():
        if provider.timeouts == config.timeouts:
            del tree["providers"][name]["timeouts"]
    return "\n".join(_lines(tree, ())).strip() + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        plain = {key: _plain(getattr(value, key)) for key in keys(type(value))}
        if value.tables_in is not None:
            plain |= _plain(getattr(value, value.tables_in))
        if isinstance(value, ProviderSettings):
            plain |= _hide(value.options) if value.rest else {}
            if value.api_key_env:
                del plain["api_key"]
        if isinstance(value, ToolSettings):
            for key in [key for key in plain if plain[key] and key.endswith("_env")]:
                plain.pop(key.removesuffix("_env"), None)
        if isinstance(value, StoreSettings) and value.url_env:
            plain.pop("url", None)
        if isinstance(value, ClientKey) and value.key_env:
            del plain["key_sha256"]
        elif isinstance(value, ClientKey):
            plain["key_sha256"] = HIDDEN
        return {key: inner for key, inner in plain.items() if inner is not None and inner != {}}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return str(value) if isinstance(value, Secret) else value


def _hide(options: Any) -> Any:
    """Hide every text among a third party's options, since any of them may be secret."""
    if isinstance(options, dict):
        return {key: _hide(inner) for key, inner in options.items()}
    if isinstance(options, list):
        return [_hide(inner) for inner in options]
    return HIDDEN if isinstance(options, str) else options


def _lines(table: Mapping[str, Any], path: KeyPath) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    if len(tables) < len(table) or not table:
        if path:
            yield f"\n[{spell(path, limit=None)}]"
        for key, value in table.items():
            if key not in tables:
                yield f"{spell((key,), limit=None)} = {toml_text(value)}"
    for key, value in tables.items():
        yield from _lines(value, (*path, key))


def toml_text(value: Any) -> str:
    """The value as TOML writes it.

    >>> print(toml_text(["a", 1, True]))
    ["a", 1, true]
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value, limit=None)
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{spell((key,), limit=None)} = {toml_text(inner)}" for key, inner in value.items())
            + "}"
        )
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
