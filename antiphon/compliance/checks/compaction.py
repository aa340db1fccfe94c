"""Compaction: the round trip, and what must not be possible with a compaction item."""

import base64
import binascii
from collections.abc import Callable
from typing import Final

from antiphon.compliance.catalog import SPECS, CheckRun, Level, check
from antiphon.compliance.checks.inputs import ENOUGH, ROOM, assistant, message, user
from antiphon.compliance.checks.official import compact
from antiphon.compliance.http_exchange import Json, answers, text_of
from antiphon.compliance.probe import Failed, Probe, Skipped, TooWeak, expect, refusal

_TALK: Final = [user("Remember this: the secret word is heron."), assistant("I will remember: heron.")]
_SUMMARY: Final = message("developer", "Summary of the conversation so far: the secret word is heron.")
_SUMMARISE: Final = user(
    "Write a summary of our conversation so far, with every word that I want you to keep."
)
_QUESTION: Final = user("What is the secret word? Reply with that word only.")


def _check(id: str, level: Level, *, model: bool = False) -> Callable[[CheckRun], CheckRun]:
    source = "OpenAPI: POST /responses/compact"
    return check(f"compact.{id}", level, source, "json", model=model, specs=SPECS[1:])


def _item(resource: Json) -> Json:
    return next(dict(item) for item in resource["output"] if item.get("type") == "compaction")


@_check("round_trip", "MUST")
async def round_trip(probe: Probe) -> None:
    """The output of a compaction may be sent as input."""
    resource = await compact(probe, input=_TALK)
    await probe.create(input=[*resource["output"], user("Say hello.")], max_output_tokens=ENOUGH)


@_check("remembers", "MAY", model=True)
async def remembers(probe: Probe) -> None:
    """What was compacted is still known."""
    for told, what in ((_TALK, "the full history"), ([_SUMMARY], "a perfect summary")):
        if not answers(await probe.create(input=[*told, _QUESTION], max_output_tokens=ROOM), "heron"):
            raise TooWeak(f"the model does not know the word from {what} either")
    resource = await compact(probe, input=_TALK)
    later = await probe.create(input=[*resource["output"], _QUESTION], max_output_tokens=ROOM)
    if answers(later, "heron"):
        return
    summary = await probe.create(input=[*_TALK, _SUMMARISE], max_output_tokens=2 * ENOUGH)
    if "heron" not in text_of(summary).lower():
        raise TooWeak("the model leaves the word out of a summary that it is asked for")
    raise Failed("what was said is lost")


@_check("forged", "SHOULD")
async def changed_item(probe: Probe) -> None:
    """A compaction item that was changed is refused."""
    item = _item(await compact(probe, input=_TALK))
    sealed = str(item["encrypted_content"])
    middle = len(sealed) // 2
    other = "A" if sealed[middle] != "A" else "B"
    item["encrypted_content"] = sealed[:middle] + other + sealed[middle + 1 :]
    refusal(await probe.ask(input=[item, user("Say hello.")], max_output_tokens=ENOUGH))


@_check("invented", "SHOULD")
async def foreign_item(probe: Probe) -> None:
    """A compaction item that the server did not make is refused."""
    await compact(probe, input=_TALK)
    item = {"type": "compaction", "encrypted_content": "VGhlIHNlY3JldCB3b3JkIGlzIGhlcm9uLg=="}
    refusal(await probe.ask(input=[item, user("Say hello.")], max_output_tokens=ENOUGH))


@_check("opaque", "SHOULD")
async def opaque(probe: Probe) -> None:
    """`encrypted_content` is encrypted, not only encoded."""
    resource = await compact(probe, input=_TALK)
    sealed = str(_item(resource)["encrypted_content"])
    try:
        plain = base64.b64decode(sealed + "=" * (-len(sealed) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        plain = b""
    for words in (sealed.encode(), plain):
        expect(b"secret word" not in words and b"heron" not in words, "the content can be read without a key")


@_check("chain", "SHOULD")
async def of_a_chain(probe: Probe) -> None:
    """A stored chain can be compacted by its last response."""
    first = await probe.create(input="Remember the word heron.", store=True, max_output_tokens=ENOUGH)
    if first.get("store") is False:
        raise Skipped("capability absent: the server says that it stores nothing")
    await compact(probe, input=_TALK)  # is there such a thing at all?
    await compact(probe, previous_response_id=first["id"])


@_check("unknown_chain", "MUST")
async def unknown_chain(probe: Probe) -> None:
    """A chain that does not exist is refused."""
    await compact(probe, input=_TALK)
    body = {"model": probe.model, "previous_response_id": "resp_that_never_was"}
    refusal(await probe.post("/responses/compact", body))


@_check("unknown_model", "SHOULD")
async def unknown_model(probe: Probe) -> None:
    """A model that does not exist is refused."""
    await compact(probe, input=_TALK)
    refusal(await probe.post("/responses/compact", {"model": "no-such-model-anywhere", "input": _TALK}))
