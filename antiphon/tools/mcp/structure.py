"""How much structure an answer has, counted in its bytes before they become objects.

A text of some megabytes is read in milliseconds; as many megabytes of small objects take seconds, in one call
during which the gateway does nothing else.
"""

import re

_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*+"', re.DOTALL)
_ESCAPES = re.compile(rb"\\+\Z")
MOST_OBJECTS = 8_000
MOST_VALUES = 60_000


class JsonStructure:
    """The objects and values of a stream of JSON, in lines or in the events that carry them."""

    def __init__(self) -> None:
        self._objects = 0
        self._values = 0
        self._open = b""  # the beginning of a string that goes on, without its text

    def is_too_much(self, data: bytes) -> bool:
        """Count more of the stream; is it more now than is read?"""
        rest = _STRING.sub(b"", self._open + data)
        self._open = b""
        # Whole strings are gone, and no string of JSON holds the end of a line as it is.
        start = rest.find(b'"', rest.rfind(b"\n") + 1)
        if start >= 0:
            escapes = _ESCAPES.search(rest)
            is_escaping = escapes is not None and len(escapes[0]) % 2
            self._open = b'"\\' if is_escaping else b'"'
            rest = rest[:start]
        objects = rest.count(b"{")
        self._objects += objects
        self._values += objects + rest.count(b"[") + rest.count(b",")
        return self._objects > MOST_OBJECTS or self._values > MOST_VALUES
