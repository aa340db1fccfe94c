"""The ASGI application and the process that serves it."""

from antiphon.server.process import run

__all__ = ["run"]
