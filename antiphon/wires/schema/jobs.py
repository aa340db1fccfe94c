"""What a child process is asked to check, and what stands for an answer that never came."""

from typing import Any

import msgspec

COSTLY = "it takes too long to check"
UNCHECKED = "it could not be checked: "
"""How an objection to a text begins that says nothing about the text."""


class Job(msgspec.Struct):
    """Is this a schema? With a value: does it fit? With a text: does that follow this format of a tool?"""

    schema: dict[str, Any]
    values: list[Any] = []
    text: str | None = None


def describe_unchecked(job: Job) -> str:
    """The result of a job that could not be finished."""
    if job.text is not None:
        return f"{UNCHECKED}{COSTLY}"
    return f"the schema could not be applied: {COSTLY}" if job.values else COSTLY
