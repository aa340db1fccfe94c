"""Which checks can notice a fault: all that a sound server hears and says in a run is kept, check by check,
and each fault is tried on that. A check whose talks a fault leaves as they are goes as if there were none."""

import asyncio
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon.compliance.catalog import Check, ServerRule
from antiphon.compliance.probe import ServerUnderTest
from antiphon.compliance.runner import run
from tests.compliance.broken import Answer, Asked, Broken, Fault, Json
from tests.compliance.other_servers import Serves


@dataclass
class Talk:
    """One request and its answer, or one message on a socket and the events that it led to."""

    check: str
    asked: Asked
    answer: Answer | None = None
    events: list[Json] = field(default_factory=list)

    def is_touched_by(self, fault: Fault) -> bool:
        asked = replace(self.asked, headers=dict(self.asked.headers))
        if self.answer is None:
            return fault.doors is not None or self._message(fault, asked) or self._events(fault)
        if fault.before is not None and (fault.before(asked) is not None or asked != self.asked):
            return True
        answer = deepcopy(self.answer)
        return fault.after is not None and (fault.after(asked, answer) is not None or answer != self.answer)

    def _message(self, fault: Fault, asked: Asked) -> bool:
        return fault.message is not None and (fault.message(asked) is not None or asked != self.asked)

    def _events(self, fault: Fault) -> bool:
        if fault.event is None:
            return False
        body = self.asked.body if isinstance(self.asked.body, dict) else {}
        told = [fault.event(deepcopy(body), deepcopy(event)) for event in self.events]
        return any(each not in (None, [event]) for each, event in zip(told, self.events, strict=True))


def talks_of(server: Serves[Broken], rules: dict[str, ServerRule], **settings: Any) -> list[Talk]:
    """Everything that is said in a run of these rules, one check after the other."""
    talks: list[Talk] = []
    current = ""

    def begin(check: Check, result: object) -> None:
        nonlocal current
        current = check.rule.id

    def answered(asked: Asked, answer: Answer) -> None:
        talks.append(Talk(current, deepcopy(asked), deepcopy(answer)))

    def heard(asked: Asked) -> None:
        talks.append(Talk(current, deepcopy(asked)))

    def told(body: Json, event: Json) -> None:
        talks[-1].events.append(event)

    server.odd.fault = Fault(after=answered, message=heard, event=told)
    target = ServerUnderTest(f"{server.url}/v1", "model", **settings)
    asyncio.run(run(target, rules, concurrency=1, watch=begin))
    return talks
