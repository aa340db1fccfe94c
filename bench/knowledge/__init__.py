"""What the embedded model knows: 150 short questions, asked of the gateway as a new user would ask them.

Nothing is configured and nothing but the question is sent, so what is measured is the default: instructions,
sampling and examples. Half of the questions are there to choose those by; their wrong answers are printed.
The other half is only counted, so that nobody chooses by it.
"""

import json
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Any

from antiphon.embedded.process import why_unavailable
from bench.contenders import KEY, folder
from bench.embedded import start_gateway
from bench.figures import Recorder
from bench.knowledge.scoring import Question, is_right, load
from bench.options import Options

HALVES = {"tune": "tuning half", "report": "reported half"}


def run(record: Recorder, options: Options) -> None:
    if reason := why_unavailable():
        print(reason)
        return
    questions = load().questions
    with folder() as where, start_gateway(where) as gateway:
        gateway.wait_until_up("/healthz")
        outcome = [(question, _is_known(gateway.port, question)) for question in questions]
    for half, name in HALVES.items():
        right = [known for question, known in outcome if question.half == half]
        record.add(f"right answers, {name}", [100 * sum(right) / len(right)], "%", "higher")
        print(f"{name:<16}{sum(right):>4} of {len(right)} right ({100 * sum(right) / len(right):.0f} %)")
        for kind in dict.fromkeys(question.kind for question in questions):
            of_kind = [known for one, known in outcome if (one.half, one.kind) == (half, kind)]
            print(f"  {kind:<14}{sum(of_kind):>4} of {len(of_kind)}")


def _is_known(port: int, question: Question) -> bool:
    answer = ask(port, question.turns)
    right = is_right(question, answer)
    if question.half == "tune" and not right:
        print(f"wrong: {' / '.join(question.turns)} -> {answer!r}", flush=True)
    return right


def ask(port: int, turns: Sequence[str]) -> str:
    """Says one turn after the other in one chain of responses; the answer to the last."""
    before: str | None = None
    said = ""
    for turn in turns:
        body = {"input": turn} | ({"previous_response_id": before} if before else {})
        response = _post(port, body)
        before = response["id"]
        parts = [part for item in response["output"] for part in item.get("content", [])]
        said = "".join(part.get("text", "") for part in parts)
    return said


def _post(port: int, body: dict[str, Any]) -> Any:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        connection.request("POST", "/v1/responses", json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise SystemExit(f"bench: the gateway answered {answer.status}: {content[:500]!r}")
        return json.loads(content)
    finally:
        connection.close()
