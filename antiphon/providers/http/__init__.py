"""The one upstream client that all providers share: HTTP/1.1, pooled, time limits, back-pressure.

Bytes are handed over as they come from the network, one await a read. A reader that does not ask makes the
upstream wait, and leaving the context closes the connection at once, unless the answer was `finished`.
"""

from antiphon.providers.http.client import UpstreamClient
from antiphon.providers.http.exchange import UpstreamExchange

__all__ = ["UpstreamClient", "UpstreamExchange"]
