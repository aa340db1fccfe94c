"""Our gateway keeps every rule with each provider: a real one over each fake, which has a mind of its own."""

from pathlib import Path

import pytest

from antiphon.compliance.catalog import select
from antiphon.compliance.probe import ServerUnderTest
from antiphon.compliance.runner import run
from tests.compliance.fake_model import answer
from tests.compliance.run_tool import told
from tests.compliance.two_tenants import KEYS, TENANTS
from tests.providers.conformance.asked import Question
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import slug, toml
from tests.providers.conformance.said import Script
from tests.server.servers import DEADLINE, Serving, configure

_CITES = "no check makes a model cite: judged on captures, and by the Auditor's tests"
_NO_FILES = "this provider takes no files, only their text"
_NO_SEARCH = "no search engine is configured: judged by a test with one"

# What a run cannot show with any provider, and what one provider has no means for; any other skip is a fault.
EVERYWHERE = {
    "annotation.kept": _CITES,
    "annotation.announced": _CITES,
    "index.annotation": _CITES,
    "order.queued_silent": "no check makes a server queue: judged on captures, and by the Auditor's tests",
    "websocket.limit": "a socket lives for an hour: judged by a test with a shorter limit",
    "web_search.item": _NO_SEARCH,
    "web_search.streamed": _NO_SEARCH,
}
FILES = {"content.file": _NO_FILES, "content.file_read": _NO_FILES}
LACKS = {"azure": FILES, "azure v1": FILES, "ollama": FILES, "writer": FILES}


@pytest.mark.parametrize("wire", FAKES)
async def test_every_rule_holds_with_this_provider(wire: str, tmp_path: Path) -> None:
    questions: list[Question] = []

    def mind(question: Question) -> Script:
        questions.append(question)
        return answer(question)

    lacks = LACKS.get(wire, {})
    async with FAKES[wire]() as fake:
        fake.mind = mind
        # A fake runs no code and searches nothing, so the gateway does, also where its upstream could.
        own = {"TOOLS__CODE_INTERPRETER__RUN": "gateway", "TOOLS__WEB_SEARCH__RUN": "gateway"}
        with Serving(configure(tmp_path, f"{toml({wire: fake})}\n{TENANTS}", **own)) as server:
            target = ServerUnderTest(
                f"{server.url}/v1", slug(wire), KEYS["alice"], KEYS["bob"], timeout=DEADLINE
            )
            report = await run(target, select())
    assert told(report, "fail") == {}
    skipped = told(report, "skip")
    assert skipped.keys() == EVERYWHERE.keys() | lacks.keys()
    assert all(skipped[rule].startswith("capability absent") for rule in lacks)
    assert any(question.last.pictures for question in questions), "a picture was lost on the way"
    assert any(question.schema for question in questions), "a schema was lost on the way"


def test_what_is_lacking_is_lacking_in_a_provider_of_ours() -> None:
    assert LACKS.keys() <= FAKES.keys()
