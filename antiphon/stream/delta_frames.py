"""The bytes around a delta, worked out once for a dialect.

Most of a stream is deltas, and all that a dialect changes in the JSON of one is its type, which comes first,
and fields that follow the last. So like deltas are encoded in one call, as the specification spells them, and
one replacement puts the end of one and the beginning of the next between them.
"""

from collections.abc import Mapping

from msgspec import Struct

from antiphon.spec import events as ev
from antiphon.stream.lifecycle import CHANNELS

DELTAS: Mapping[str, type[ev.Event]] = {channel.delta: ev.EVENTS[channel.delta] for channel in CHANNELS}
"""The events of one piece of text, by their type."""


class DeltaFrame(Struct, frozen=True):
    """What of the JSON of a delta is kept, and what is written around it."""

    first: bytes
    last: bytes
    kept: slice
    """What is kept of one event's JSON."""
    kept_lines: slice
    """What is kept of many, one a line, if `end` is put between them as `between`."""
    end: bytes
    between: bytes
    absent: bytes
    """A key that is added, unless it is there already: then none of this holds."""

    def many(self, lines: bytes, count: int) -> tuple[bytes, ...]:
        """So many events, framed, in pieces; none if they have to be spelled one by one."""
        if lines.count(b"\n") != count or (self.absent and self.absent in lines):
            return ()
        kept = lines[self.kept_lines]
        if len(self.end) == 1:
            return self.first, kept.replace(self.end, self.between), self.last
        # To replace more than one byte takes ten times as long as to replace one.
        return self.first, self.between.join(kept.split(self.end)), self.last


def delta_frame(before: bytes, after: bytes, cut: bytes, start: bytes, key: str, added: bytes) -> DeltaFrame:
    """`before` and `after` are of the frame; the JSON begins with `start` where it began with `cut`.

    `added` comes at its end, and has a value for `key` (if that is not empty) in case the event has none.
    """
    last = added + b"}" + after if added else after
    end = b"}\n" + cut if added else b"\n" + cut
    return DeltaFrame(
        first=before + start,
        last=last,
        kept=slice(len(cut), -1 if added else None),
        kept_lines=slice(len(cut), -2 if added else -1),
        end=end,
        between=last + before + start,
        absent=f',"{key}":'.encode() if key else b"",
    )
