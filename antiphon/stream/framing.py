"""Events to bytes: a batch becomes one chunk of server-sent events, or of lines."""

from collections.abc import Sequence
from itertools import groupby

from antiphon.spec import events as ev
from antiphon.spec.codec import encode, encoder
from antiphon.stream import sse
from antiphon.stream.dialects import OPEN_RESPONSES, Dialect
from antiphon.stream.lifecycle import CHANNELS

_LF, _CR = b"\n\r"
# What comes before the JSON of a delta.
_HEADS: dict[type, bytes] = {ev.EVENTS[c.delta]: f"event: {c.delta}\ndata: ".encode() for c in CHANNELS}


def frames(events: Sequence[ev.AnyEvent], dialect: Dialect = OPEN_RESPONSES) -> bytes:
    """Server-sent events, ready to be written at once.

    One call encodes a run of like deltas to lines, and one replacement puts the frame between them: several
    times cheaper than encoding each on its own. A delta that carries foreign line breaks shows in the count.
    """
    if len(events) == 1:
        return _frame(events[0], dialect)
    chunks: list[bytes] = []
    for cls, group in groupby(events, type):
        run = list(group)
        if (head := _HEADS.get(cls)) and cls not in dialect.special:
            lines = encoder.encode_lines(run)
            if lines.count(b"\n") == len(run):
                chunks += (head, lines[:-1].replace(b"\n", b"\n\n" + head), b"\n\n")
                continue
        chunks += [_frame(event, dialect) for event in run]
    return b"".join(chunks)


def _frame(event: ev.AnyEvent, dialect: Dialect) -> bytes:
    cls = type(event)
    if (head := _HEADS.get(cls)) and cls not in dialect.special:
        line = encode(event)
        if _LF not in line and _CR not in line:
            return head + line + b"\n\n"
    return sse.encode(dialect.type_of(event), single_line(dialect.encode(event)))


def lines(events: Sequence[ev.AnyEvent], dialect: Dialect = OPEN_RESPONSES) -> bytes:
    """One event a line, each with its line feed; like deltas are encoded in one call, as above."""
    chunks: list[bytes] = []
    for cls, group in groupby(events, type):
        run = list(group)
        if cls in _HEADS and cls not in dialect.special:
            together = encoder.encode_lines(run)
            if together.count(b"\n") == len(run):
                chunks.append(together)
                continue
        chunks += [single_line(dialect.encode(event)) + b"\n" for event in run]
    return b"".join(chunks)


def single_line(json: bytes) -> bytes:
    """A carried item may have line breaks between its tokens, which SSE data must not."""
    return json.replace(b"\n", b" ").replace(b"\r", b" ")
