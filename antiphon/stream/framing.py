"""Events to bytes: a batch becomes one chunk of server-sent events, or of lines."""

from collections.abc import Sequence
from itertools import groupby

from antiphon.spec import events as ev
from antiphon.spec.codec import encode, encoder
from antiphon.stream import sse
from antiphon.stream.dialects import OPEN_RESPONSES, Dialect

_LF, _CR = b"\n\r"


def frames(events: Sequence[ev.AnyEvent], dialect: Dialect = OPEN_RESPONSES) -> bytes:
    """Server-sent events, ready to be written at once.

    A run of like deltas is encoded in one call, which is several times cheaper than each on its own.
    """
    chunks: list[bytes] = []
    for cls, group in groupby(events, type):
        run = list(group)
        how = dialect.frames.get(cls)
        framed = how.many(encoder.encode_lines(run), len(run)) if how is not None else ()
        chunks += framed or [frame(event, dialect) for event in run]
    return b"".join(chunks)


def frame(event: ev.AnyEvent, dialect: Dialect) -> bytes:
    """One server-sent event."""
    how = dialect.frames.get(type(event))
    if how is not None:
        json = encode(event)
        if _LF not in json and _CR not in json and not (how.absent and how.absent in json):
            return how.first + json[how.kept] + how.last
    return sse.encode(dialect.type_of(event), single_line(dialect.encode(event)))


def lines(events: Sequence[ev.AnyEvent], dialect: Dialect = OPEN_RESPONSES) -> bytes:
    """One event a line, each with its line feed; like deltas are encoded in one call, as above."""
    chunks: list[bytes] = []
    for cls, group in groupby(events, type):
        run = list(group)
        how = dialect.lines.get(cls)
        framed = how.many(encoder.encode_lines(run), len(run)) if how is not None else ()
        chunks += framed or [single_line(dialect.encode(event)) + b"\n" for event in run]
    return b"".join(chunks)


def single_line(json: bytes) -> bytes:
    """A carried item may have line breaks between its tokens, which SSE data must not."""
    return json.replace(b"\n", b" ").replace(b"\r", b" ")
