"""Finds the configuration, reads it and checks it: `load()` gives a `Config` or raises `ConfigErrors`."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from antiphon.config.checks import complete, should_discover
from antiphon.config.document import ConfigDocument
from antiphon.config.mistakes import ConfigErrors, Mistake, Where
from antiphon.config.reader import ConfigReader, sections
from antiphon.config.schema import Config
from antiphon.config.tools import ToolSettings
from antiphon.config.upstreams import FoundProvider, ProviderSettings

FILE_NAME: Final = "antiphon.toml"


def locate(
    path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """The file to read: the one that is named, else `./antiphon.toml`, else the user's, else none."""
    if path is not None:
        return Path(path)
    for candidate in candidates(environ):
        if os.path.lexists(candidate):
            return candidate
    return None


def candidates(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where a configuration is looked for when none is named, in order."""
    return [Path(FILE_NAME), config_folder(environ) / FILE_NAME]


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's own: `$XDG_CONFIG_HOME`, else `~/.config` (macOS: `~/Library/Application Support`)."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    configured = Path(environ.get("XDG_CONFIG_HOME", ""))
    if configured.is_absolute():
        return configured / "antiphon"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "antiphon"
    return home / ".config" / "antiphon"


def load(
    path: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    options: Mapping[str, tuple[str, str]] | None = None,
    types: Mapping[str, type[ProviderSettings]] | None,
    tools: Mapping[str, type[ToolSettings]] | None = None,
    secrets: bool = True,
    discover: Callable[[Mapping[str, str]], Iterable[FoundProvider]] | None = None,
) -> Config:
    """The effective configuration: the file, environment variables over it, command-line options over both.

    `options` maps a key such as `server.port` to the option's name and its text. `types` has every provider
    type with the Struct that its table is read into (`antiphon.providers.registry.TYPES`); when it is None,
    providers and models are not checked. `tools` has the same for hosted tools
    (`antiphon.tools.registry.TOOLS`); when it is None, their tables are left out. Without `secrets`, the
    variables that `api_key_env` and `key_env` name are not read. A provider whose `api_key_env` names an
    unset variable is disabled, with a warning in the `Config`. What `discover` finds in the environment is
    added (`antiphon.providers.discovery`), unless `[server] discover` says no.

    >>> load(environ={"HOME": "/nowhere", "ANTIPHON_SERVER__PORT": "9000"}, types=None).server.port
    9000
    """
    document = ConfigDocument(locate(path, environ))
    reader = ConfigReader(document, Config, types, environ, tools)
    reader.mistakes.extend(document.lay_over_environment(environ, sections(Config)))
    for key, (option, text) in (options or {}).items():
        document.lay_over(tuple(key.split(".")), text, Where(option))
    config = reader.section(Config, document.tree, ())
    found = discover(environ) if discover is not None and should_discover(config) else ()
    config = complete(reader, config, environ if secrets else None, found)
    if reader.mistakes:
        raise ConfigErrors(sorted(reader.mistakes + reader.warnings, key=_in_reading_order))
    return replace(
        config,
        source=str(document.file) if document.file else None,
        variables=tuple(document.variables),
        warnings=tuple(sorted(reader.warnings, key=_in_reading_order)),
    )


def _in_reading_order(mistake: Mistake) -> tuple[bool, int, int]:
    """A sort key: mistakes in the order of the file, then mistakes of other origins."""
    where = mistake.where
    return where.line is None, where.line or 0, where.column or 0
