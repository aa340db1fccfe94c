"""The view of a conversation: what it keeps, and where it stands."""

from antiphon.tui.entries import NoticeEntry, UserEntry
from tests.tui.conftest import Start


async def test_what_is_far_up_is_drawn_when_it_is_looked_at(chat: Start) -> None:
    async with chat() as chatting:
        transcript = chatting.app.transcript
        for n in range(200):
            chatting.app._show(NoticeEntry(f"notice {n}"))
        transcript.settle()
        await chatting.pilot.pause()
        kept = [entry for entry in transcript.entries if entry.drawn]
        assert len(kept) < 100
        assert chatting.text.count("notice") == 200
        assert transcript.follows
        transcript.scroll_to(y=0, animate=False)
        await chatting.until(lambda: not transcript.follows)
        chatting.app._show(NoticeEntry("another"))
        transcript.settle()
        assert transcript.scroll_offset.y == 0
        chatting.app._show(UserEntry("mine"))
        transcript.settle()
        await chatting.until(lambda: transcript.follows and transcript.scroll_offset.y > 0)
