"""Long frames are divided, and the messages are the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

from antiphon.server.http1 import websockets
from antiphon.server.http1.websockets import WebSocketFrameSplitter

LIMIT = 1000
PARTS = st.lists(st.binary(max_size=90), min_size=1, max_size=3)
MESSAGES = st.lists(st.tuples(PARTS, st.sampled_from([b"", b"ping"]), st.booleans()), max_size=4)


def frames_of(messages: list[tuple[list[bytes], bytes, bool]]) -> list[Frame]:
    frames = []
    for pieces, ping, is_text in messages:
        for n, piece in enumerate(pieces):
            kind = (Opcode.TEXT if is_text else Opcode.BINARY) if n == 0 else Opcode.CONT
            frames.append(Frame(kind, piece, fin=n == len(pieces) - 1))
            if ping:
                frames.append(Frame(Opcode.PING, ping))
    return frames


def told(events: list[Any]) -> list[tuple[Opcode, bytes]]:
    """The messages, whatever frames they came in, and the control frames between them."""
    found: list[tuple[Opcode, bytes]] = []
    kind, message = Opcode.CONT, b""
    for frame in events:
        if frame.opcode is Opcode.PING:
            found.append((frame.opcode, bytes(frame.data)))
            continue
        kind = kind if frame.opcode is Opcode.CONT else frame.opcode
        message += frame.data
        if frame.fin:
            found.append((kind, message))
            message = b""
    return found


@given(MESSAGES, st.integers(1, 50), st.sampled_from([8, 16, 64]))
def test_a_divided_stream_says_the_same(
    messages: list[tuple[list[bytes], bytes, bool]], size: int, longest: int
) -> None:
    sent = b"".join(frame.serialize(mask=True) for frame in frames_of(messages))
    plain = Protocol(Side.SERVER, state=OPEN, max_size=LIMIT)
    plain.receive_data(sent)
    divided = Protocol(Side.SERVER, state=OPEN, max_size=LIMIT)
    splitter = WebSocketFrameSplitter(LIMIT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(websockets, "LONGEST", longest)
        for at in range(0, len(sent), size):
            for piece in splitter.feed(sent[at : at + size]):
                divided.receive_data(piece)
    events = divided.events_received()
    lengths = [len(frame.data) for frame in events if isinstance(frame, Frame)]
    assert divided.parser_exc is None
    assert max(lengths, default=0) <= longest
    assert told(events) == told(plain.events_received())


def test_a_frame_beyond_the_limit_is_refused_by_its_head() -> None:
    protocol = Protocol(Side.SERVER, state=OPEN, max_size=LIMIT)
    head = Frame(Opcode.TEXT, b"x" * 70_000).serialize(mask=True)[:14]
    for piece in WebSocketFrameSplitter(LIMIT).feed(head):
        protocol.receive_data(piece)
    assert isinstance(protocol.parser_exc, PayloadTooBig)
