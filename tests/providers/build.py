"""Providers as the gateway makes them: from their settings and what it lends to them."""

from pathlib import Path
from typing import Any, TypeVar

from antiphon.config import LocalSettings, UpstreamTimeouts
from antiphon.providers.base import Environment, Provider
from antiphon.providers.http import UpstreamClient

P = TypeVar("P", bound=Provider)


def environment(http: UpstreamClient, folder: Path = Path("unused")) -> Environment:
    return Environment(http=http, timeouts=UpstreamTimeouts(), local=LocalSettings(), folder=folder)


def build(provider: type[P], name: str, http: UpstreamClient, base_url: str | None = None, **keys: Any) -> P:
    """The provider with these keys in its table, and defaults for the others."""
    create: Any = provider
    settings = create.Settings(type=provider.__name__.lower(), name=name, base_url=base_url, **keys)
    made: P = create(settings, environment(http))
    return made
