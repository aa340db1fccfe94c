"""The headers of an answer: which of them say something to us, how they are kept for long, and looked up."""

from collections.abc import Iterator, Mapping

from antiphon.providers.http.failures import Invalid

RawHead = dict[bytes, bytes] | bytes
"""Headers as they came, or packed."""

HEADERS_LIMIT = 256

_MANY = 64
_LONG = 4096
"""Longer names are not remembered."""

Names = tuple[bytes, ...]
Spelling = tuple[bytes | None, bytes | None, bytes | None, bytes | None]
"""Under which names the content type, content encoding, keep-alive and transfer encoding came, if any."""


class TooMany(Invalid):
    def __init__(self) -> None:
        super().__init__(f"the answer has more than {HEADERS_LIMIT} headers")


class Spellings(dict[Names, Spelling]):
    """Finds the headers that matter by their names, once for each set: an upstream repeats the same set."""

    def __missing__(self, names: Names) -> Spelling:
        if len(names) > HEADERS_LIMIT:
            raise TooMany
        find = {name.lower(): name for name in reversed(names)}.get
        found = (
            find(b"content-type"),
            find(b"content-encoding"),
            find(b"keep-alive"),
            find(b"transfer-encoding"),
        )
        if sum(map(len, names)) <= _LONG:
            if len(self) >= _MANY:
                self.clear()
            self[names] = found
        return found


def pack(head: RawHead) -> bytes:
    """All names, then all values, a line each: an answer may take long, and this is small."""
    return head if isinstance(head, bytes) else b"\n".join([*head, *head.values()])


class UpstreamHeaders(Mapping[str, str]):
    """Looked up in any case; of a header that came twice, what came first."""

    __slots__ = ("_fields",)

    def __init__(self, head: RawHead) -> None:
        lines = pack(head).decode("latin-1").split("\n") if head else []
        values = len(lines) // 2
        self._fields: dict[str, str] = {}
        for name, value in zip(lines[:values], lines[values:], strict=True):
            self._fields.setdefault(name.lower(), value)

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)
