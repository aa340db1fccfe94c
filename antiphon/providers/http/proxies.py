"""Which proxy the environment names for an address."""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from antiphon.providers.http.failures import BadProxy
from antiphon.providers.http.target import Proxy


def proxy_for(url: str) -> Proxy | None:
    parts = urlsplit(url)
    named = getproxies()
    proxy = named.get(parts.scheme) or named.get("all")
    place = parts.netloc.rpartition("@")[2]
    if not proxy or not proxy.startswith(("http://", "https://")) or proxy_bypass(place):
        return None
    try:
        return Proxy.parse(proxy)
    except ValueError:
        raise BadProxy from None
