"""Bridges are tested through a server, with the same rule as there: no stream may break a rule."""

from tests.server.conftest import audited, serve, serve_all, upstream

__all__ = ["audited", "serve", "serve_all", "upstream"]
