"""The secrets of the configuration, to be taken out of what a server says before it is passed on.

A server that refuses a token may repeat it in its error, and an MCP server in a result.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from antiphon.config.kinds import ExtraOptions, Section
from antiphon.config.schema import Config
from antiphon.config.secret import HIDDEN, Secret, is_database_url

LEAST: Final = 12
"""How many characters a secret has at least: shorter ones may be ordinary words."""
_SECRET_NAME = re.compile(r"(?i)auth|cookie|credential|key|passw|pwd|secret|token")
_ORDINARY = re.compile(r"\s|://|^[/~]")
"""What a header or a variable that is no secret has: words, an address, a path."""
_SCHEME = re.compile(r"(?i)(?:basic|bearer|token|apikey)\s+(\S+)")


class KnownSecrets:
    """Texts that no client and no log may see.

    >>> known = KnownSecrets(["a long secret"])
    >>> known.mask("the token 'a long secret' is not valid")
    "the token '********' is not valid"
    """

    def __init__(self, texts: Iterable[str] = (), above: "KnownSecrets | None" = None) -> None:
        """`above` are others, which are hidden as well."""
        self._above = above
        self._texts: list[str] = []
        for text in texts:
            self.add(text)

    @classmethod
    def of(cls, config: Config) -> "KnownSecrets":
        """What the configuration has, and what it took from variables of the environment."""
        return cls(_secrets_in(config))

    def add(self, text: str) -> None:
        scheme = _SCHEME.fullmatch(text.strip())
        texts = {*self._texts, *(one for one in (text, scheme[1] if scheme else "") if len(one) >= LEAST)}
        # A secret that holds another is hidden as a whole.
        self._texts = sorted(texts, key=len, reverse=True)

    def mask(self, text: str) -> str:
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return text if self._above is None else self._above.mask(text)

    def mask_in(self, value: Any) -> Any:
        """The same value, made of lists and objects as JSON has them, with each of its texts masked."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {name: self.mask_in(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.mask_in(one) for one in value]
        return value


def secrets_among(values: Mapping[str, str]) -> list[str]:
    """Those of headers or variables that may be secret, by their names or else by what they look like."""
    return [value for name, value in values.items() if is_secret_name(name) or not _is_ordinary(value)]


def is_secret_name(name: str) -> bool:
    """Does a header or a variable of this name hold a secret, as far as one can tell?"""
    return _SECRET_NAME.search(name) is not None


def _secrets_in(value: Any) -> Iterator[str]:
    if isinstance(value, Secret):
        text = value.reveal()
        yield text
        if is_database_url(text) and (password := _password(text)):
            yield password
    elif isinstance(value, Section):
        for one in msgspec.structs.fields(type(value)):
            yield from _secrets_in(getattr(value, one.name))
    elif isinstance(value, tuple):
        for one in value:
            yield from _secrets_in(one)
    elif isinstance(value, Mapping):
        # Of headers and variables all values are `Secret`, whatever they are for.
        yield from secrets_among({key: one.reveal() for key, one in value.items() if isinstance(one, Secret)})
        for key, one in value.items():
            if isinstance(one, Section):
                yield from _secrets_in(one)
            elif isinstance(value, ExtraOptions) and isinstance(one, str) and is_secret_name(key):
                yield one


def _is_ordinary(text: str) -> bool:
    return _ORDINARY.search(text) is not None and _SCHEME.fullmatch(text) is None


def _password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:
        return ""
