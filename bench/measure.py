"""Measuring in turns: every contender takes its turn at every kind of work, in every round."""

import gzip
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from antiphon.stream.auditor import audit, audit_sse
from bench import load
from bench.answers import dumped, text_of, words_of
from bench.contenders import LITELLM, PROMPT, Contender
from bench.outcome import Outcome

SETTLE = 0.05
_KEYS = 31
_GZIP = b"\x1f\x8b"
_DELTA = b'"type":"response.output_text.delta"'

Spent = dict[tuple[str, str], list[float]]
"""CPU seconds of each round for a request or a delta, by work and contender."""


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of work; `counts` is how many requests each contender gets in a round."""

    name: str
    model: str
    stream: bool
    units: int
    """Deltas in a stream, or 1."""
    counts: Mapping[str, int]
    connections: int = 16
    spread: float = 0.0
    rounds: int = 0
    """Fewer than the others, for work that takes long."""
    text: str = field(default=PROMPT, repr=False)

    @property
    def tokens(self) -> int:
        """How many the upstream says, by the name of its script."""
        return int(self.model.split("-")[1])


def in_turns(
    contenders: Sequence[Contender], works: Sequence[Work], rounds: int, limit: float = 20.0
) -> Spent:
    """Each does only the work that names it."""
    spent: Spent = {}
    for work in works:
        for one in contenders:
            if one.name in work.counts:
                spent[work.name, one.name] = []
                verify(one, work)
    for turn in range(rounds):
        first = turn % len(contenders)
        for work in works:
            if turn >= (work.rounds or rounds):
                continue
            for one in (*contenders[first:], *contenders[:first]):
                if one.name in work.counts:
                    spent[work.name, one.name].append(measure(one, work, limit))
    return spent


def verify(contender: Contender, work: Work) -> None:
    """It answers, completely and correctly, before anything is measured; this also warms it up."""
    count = min(2 * work.connections, work.counts[contender.name], 32)
    request = contender.request(work.model, stream=work.stream, text=work.text)
    outcome = load.run(load.send(request, count=count, connections=min(count, work.connections), limit=20))
    problem = (
        f"{outcome.failed} answers failed" if outcome.failed else _problem(contender, work, outcome.body)
    )
    if problem:
        raise SystemExit(f"bench: {contender.name}, {work.name}: {problem}\n{outcome.body[-1000:]!r}")


def _problem(contender: Contender, work: Work, body: bytes) -> str:
    if body.startswith(_GZIP):  # the clients say that they take it
        body = gzip.decompress(body)
    if contender.front is not None:
        if not work.stream:
            return contender.front.problem_of_whole(body, text_of(work.tokens))
        return contender.front.problem(body, words_of(work.units))
    if contender.speaks == "responses" and dumped(text_of(work.tokens)) not in body:
        return "the text is not whole"
    if contender.name == LITELLM:
        # Its streams break rules of the specification, which `make judge` counts; the words must be there.
        missing = work.stream and body.count(b'"response.output_text.delta"') < work.units
        return "deltas are missing" if missing else ""
    if contender.socket:
        events = [json.loads(line) for line in body.splitlines()]
        if body.count(_DELTA) != work.units:
            return "deltas are missing"
        return "; ".join(str(violation) for violation in audit(events, transport="websocket"))
    if not work.stream:
        answer = json.loads(body)
        is_whole = answer.get("status") == "completed" and len(answer) >= _KEYS
        return "" if contender.speaks == "chat" or is_whole else "the answer is not a whole response"
    if not body.endswith(b"data: [DONE]\n\n"):
        return "the stream has no end"
    if contender.speaks == "chat":
        return "" if _tokens(body) == work.units else f"tokens are missing: {_tokens(body)}"
    if body.count(b"event: response.output_text.delta\n") != work.units:
        return "deltas are missing"
    return "; ".join(str(violation) for violation in audit_sse(body))


def _tokens(body: bytes) -> int:
    """How many chunks of a chat stream say something."""
    lines = (line[6:] for line in body.split(b"\n\n") if line.startswith(b"data: {"))
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    return sum(bool(choice["delta"].get("content")) for choice in choices)


def measure(contender: Contender, work: Work, limit: float) -> float:
    """CPU seconds of the contender for one request or one delta."""
    request = contender.request(work.model, stream=work.stream, text=work.text)
    count = work.counts[contender.name]
    before = contender.program.cpu()
    outcome = load.run(
        load.send(request, count=count, connections=work.connections, limit=limit, spread=work.spread)
    )
    time.sleep(SETTLE)
    spent = contender.program.cpu() - before
    check(contender, work.name, outcome)
    return spent / (outcome.answers * work.units)


def check(contender: Contender, work: str, outcome: Outcome) -> None:
    if outcome.failed or not outcome.answers:
        raise SystemExit(
            f"bench: {contender.name}, {work}: {outcome.failed} of {outcome.answers} answers failed\n"
            f"{outcome.body[-1000:]!r}"
        )


def micro(seconds: Sequence[float]) -> list[float]:
    return [value * 1e6 for value in seconds]
