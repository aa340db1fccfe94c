"""What happens in a run, decided before by a seed: which faults, and what each client asks for."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

Kind = Literal["kill", "pause", "cut", "restart", "crash"]

ABOUT: dict[Kind, str] = {
    "kill": "a gateway is killed with -9, and started again",
    "pause": "a gateway is stopped for longer than its heartbeat may be silent, and goes on",
    "cut": "PostgreSQL ends the connections of a gateway",
    "restart": "PostgreSQL is restarted",
    "crash": "PostgreSQL ends as in a crash, and is started again",
}
_WEIGHTS: dict[Kind, int] = {"kill": 5, "pause": 2, "cut": 3, "restart": 1, "crash": 1}


@dataclass(frozen=True, slots=True)
class Fault:
    after: float
    """Seconds since the last one."""
    kind: Kind
    gateway: int
    lasts: float
    """Seconds until it is mended."""


def faults(seed: int, gateways: int, kinds: tuple[Kind, ...] = tuple(ABOUT)) -> Iterator[Fault]:
    """Without end: first one of each kind, then any."""
    chance = Random(seed)
    first = list(kinds)
    chance.shuffle(first)
    while True:
        kind = first.pop() if first else chance.choices(kinds, [_WEIGHTS[kind] for kind in kinds])[0]
        lasts = chance.uniform(4.5, 6.5) if kind == "pause" else chance.uniform(0.1, 2.0)
        yield Fault(chance.uniform(1.0, 4.0), kind, chance.randrange(gateways), lasts)


@dataclass(frozen=True, slots=True)
class ChaosRequest:
    """One background response, in three model turns with three calls of hosted functions."""

    name: str
    pause: float
    """Seconds between two deltas."""
    followers: int
    """How many clients follow it besides the one that asks."""
    cuts: float
    """How likely a client goes away by itself after an event."""

    @property
    def body(self) -> dict[str, Any]:
        return {
            "input": f"```script\n{json.dumps({'turns': self._turns})}\n```",
            "background": True,
            "stream": True,
            "metadata": {"request": self.name},
            "tools": [{"type": "antiphon:function", "name": name} for name in ("count", "look_up")],
        }

    @property
    def _turns(self) -> list[dict[str, Any]]:
        """The last one is for whatever else the model is asked, such as to go on with what it said."""
        after_calls = {"last": "function_call_output"}
        return [
            {"when": {"turn": 1}, "steps": [self._say("first"), self._call("count", 1)]},
            {
                "when": after_calls | {"turn": 2},
                "steps": [
                    self._say("second"),
                    {"calls": [self._call("count", 2), self._call("look_up", 3)]},
                ],
            },
            {"when": after_calls, "steps": [self._say("third")]},
            {"steps": [self._say("last")]},
        ]

    def _say(self, turn: str) -> dict[str, Any]:
        words = f"This is the {turn} turn of {self.name}, which goes on for a while. "
        return {"text": words, "chunk": 6, "delay": self.pause}

    def _call(self, name: str, number: int) -> dict[str, Any]:
        return {"call": name, "arguments": {"key": f"{self.name}-{number}"}}


def requests(seed: int) -> Iterator[ChaosRequest]:
    """Without end."""
    chance = Random(seed + 1)
    number = 0
    while True:
        number += 1
        yield ChaosRequest(
            f"r{number}", chance.uniform(0.03, 0.2), chance.choice((0, 0, 1)), chance.choice((0, 0, 0.02))
        )
