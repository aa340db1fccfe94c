"""The inspector shows what passed over the wire, judges it, and saves it."""

from pathlib import Path
from typing import Any

from textual.widgets import Input, Static, TabbedContent, Tree

from antiphon.compliance.capture import audit_capture, read
from antiphon.tui.event_list import EventList
from antiphon.tui.inspector import Inspector
from tests.client.scripted_server import Player, composed, error, events, say
from tests.providers.fake_server import Received, Wire
from tests.server.servers import Serving, configure
from tests.tui.conftest import Chatting, Start, script


async def inspect(chatting: Chatting) -> Inspector:
    await chatting.press("f12")
    await chatting.until(lambda: isinstance(chatting.app.screen, Inspector))
    await chatting.pilot.pause()
    screen = chatting.app.screen
    assert isinstance(screen, Inspector)
    return screen


def told(screen: Inspector, id: str) -> str:
    return str(screen.query_one(f"#{id}", Static).render())


async def test_events_items_request_receipts_verdict_and_a_capture(chat: Start, tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [{"reasoning": "Hm."}, {"text": "Some words. ", "times": 20}]
    async with chat(system=script(*steps), effort="low") as chatting:
        empty = await inspect(chatting)
        assert "Nothing was asked yet" in told(empty, "verdict")
        await chatting.press("escape")
        await chatting.say("Hi")
        screen = await inspect(chatting)
        listed = screen.query_one(EventList)
        await chatting.until(lambda: "conforms" in told(screen, "verdict"))
        count = len(chatting.app.talk.recordings[-1].arrivals)
        assert listed.count == count > 30
        assert f"{count} events" in told(screen, "verdict")
        await chatting.press("home", "down", "up")
        assert screen.query_one("#detail").has_class("shown")
        await chatting.press("slash", *"text.delta", "enter")
        assert listed.count == 20
        screen.query_one("#filter", Input).value = "-delta"
        await chatting.pilot.pause()
        assert listed.count == count - 21
        tabs = screen.query_one(TabbedContent)
        for name in ("items", "request", "receipts", "verdict"):
            tabs.active = f"tab-{name}"
            await chatting.pilot.pause()
        labels = [str(node.label) for node in screen.query_one("#items", Tree).root.children]
        assert labels == ["0 reasoning completed", "1 message completed"]
        assert '"effort": "low"' in told(screen, "request")
        assert "POST http" in told(screen, "request")
        assert "receipts" in told(screen, "receipts").casefold()
        assert told(screen, "violations") == "No rule was broken."
        await chatting.press("ctrl+s")
        capture = tmp_path / "antiphon-capture-1.sse"
        await chatting.until(capture.exists)
        report = audit_capture("it", read(capture.read_bytes()))
        assert report.exit_code == 0


FAILOVER = """
default_model = "over"
[providers.down]
type = "script"
file = "down.toml"
[providers.well]
type = "script"
file = "well.toml"
[models]
over = ["down/first", "well/second"]
"""


async def test_the_receipts_of_an_answer_are_shown(chat: Start, tmp_path: Path) -> None:
    """It never asked for them, and said that there were none."""
    (tmp_path / "down.toml").write_text('[[turns]]\nsteps = [{error = {message = "later", status = 503}}]\n')
    (tmp_path / "well.toml").write_text('[[turns]]\nsteps = [{text = "Good evening."}]\n')
    with Serving(configure(tmp_path, FAILOVER)) as gateway:
        async with chat(base_url=f"{gateway.url}/v1", model=None) as chatting:
            await chatting.say("Hi")
            screen = await inspect(chatting)
            await chatting.until(lambda: "conforms" in told(screen, "verdict"))
            assert "well/second answered, after 1 other attempt" in told(screen, "receipts")


async def test_events_come_while_the_screen_is_open(chat: Start) -> None:
    async with chat(system=script({"text": "More. ", "times": 3000, "delay": 0.02})) as chatting:
        recordings = chatting.app.talk.recordings
        await chatting.send("Go")
        await chatting.until(lambda: recordings and len(recordings[-1].arrivals) > 10)
        screen = await inspect(chatting)
        listed = screen.query_one(EventList)
        before = listed.count
        await chatting.until(lambda: listed.count > before)
        assert "open" in told(screen, "verdict")
        await chatting.press("f12", "escape")
        await chatting.settle()
        chatting.app.settings.system = script({"text": "Another."})
        await chatting.say("And?")
        screen = await inspect(chatting)
        assert told(screen, "verdict").startswith("response 2 of 2")
        await chatting.press("[")
        await chatting.until(lambda: told(screen, "verdict").startswith("response 1 of 2"))
        await chatting.press("]")
        await chatting.until(lambda: told(screen, "verdict").startswith("response 2 of 2"))


async def test_a_stream_that_the_user_stops_breaks_no_rule(chat: Start) -> None:
    async with chat(system=script({"text": "More. ", "times": 3000, "delay": 0.02})) as chatting:
        await chatting.send("Go")
        await chatting.until(lambda: "More." in chatting.text)
        await chatting.press("escape")
        await chatting.settle()
        screen = await inspect(chatting)
        await chatting.until(lambda: told(screen, "verdict").endswith("stopped · ✓ conforms so far"))
        assert told(screen, "violations") == "No rule was broken so far."


async def test_a_stream_that_breaks_rules_is_told_of(chat: Start) -> None:
    pieces = composed(say("Hello"))[1]
    wrong = b"".join(pieces).replace(b'"sequence_number":3', b'"sequence_number":7')

    def reply(received: Received) -> Wire:
        return events([wrong]) if received.path.endswith("/responses") else error(404, "not_found")

    async with Player(reply) as server, chat(base_url=server.base_url) as chatting:
        await chatting.say("Hi")
        screen = await inspect(chatting)
        await chatting.until(lambda: "rules broken" in told(screen, "verdict"))
        assert "seq.increasing" in told(screen, "violations")
