"""Wire formats that the client and the gateway both speak, below both of them."""

from antiphon import __version__

USER_AGENT = f"antiphon/{__version__}"
"""How the client and the gateway introduce themselves to a server."""
