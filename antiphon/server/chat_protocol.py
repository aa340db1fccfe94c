"""Which protocol `/api/v1/chat` speaks to a client that names none."""

from collections.abc import Mapping
from dataclasses import dataclass

from antiphon.config import vertice_protocol

UI, DATA_V1, OPEN_RESPONSES = "ui", "data-v1", "open-responses"


@dataclass(frozen=True, slots=True)
class ChatDefaults:
    """What the configuration and the variables of other projects say, read once when the gateway starts."""

    protocol: str
    has_vertice_headers: bool
    """A stream of `open-responses` has the headers that clients of Vértice look for."""

    @classmethod
    def read(cls, configured: str, environ: Mapping[str, str]) -> "ChatDefaults":
        flag = vertice_protocol(environ)
        protocol = configured
        if "ANTIPHON_CHAT__PROTOCOL" not in environ:
            enabled = environ.get("ENABLE_OPEN_RESPONSES", "true").lower() == "true"
            by_default = enabled and environ.get("OPEN_RESPONSES_DEFAULT", "").lower() == "true"
            protocol = flag or (OPEN_RESPONSES if by_default else configured)
        return cls(protocol, flag == OPEN_RESPONSES)
