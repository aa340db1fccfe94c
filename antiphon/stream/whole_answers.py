"""Checks a response that was not streamed: its keys, and whether its fields fit its status."""

from collections.abc import Mapping
from typing import Any, Final

from antiphon.spec.items import CORE_TYPES
from antiphon.stream.json_shapes import RESOURCES, Judge, show

_OLDEST_YEAR: Final = 1_600_000_000
_MILLISECONDS: Final = 100_000_000_000


def check_resource(body: Mapping[str, Any], judge: Judge) -> bool:
    """Report violations in a response or a compaction to the judge; False if it is neither."""
    kind = str(body.get("object"))
    if (shape := RESOURCES.get(kind)) is None:
        return False
    shape.check(body, "", judge)
    check_figures(body, judge)
    if kind == "response":
        _check_consistent(body, judge)
    return True


def check_figures(response: Mapping[str, Any], judge: Judge) -> None:
    """The tokens and the times of a response, wherever it stands."""
    usage = response.get("usage")
    if isinstance(usage, dict):
        _check_usage(usage, judge)
    begun, ended = response.get("created_at"), response.get("completed_at")
    if isinstance(begun, int) and not _OLDEST_YEAR < begun < _MILLISECONDS:
        judge.report("response.times", f"created_at is {begun}, which is no time in seconds")
    if isinstance(begun, int) and isinstance(ended, int) and ended < begun:
        judge.report("response.times", f"completed_at {ended} is before created_at {begun}")


def _check_consistent(response: Mapping[str, Any], judge: Judge) -> None:
    status = response.get("status")
    for key, wanted in (
        ("completed_at", status == "completed"),
        ("error", status == "failed"),
        ("incomplete_details", status == "incomplete"),
    ):
        is_set = response.get(key) is not None
        may_be = key == "completed_at" and status in ("failed", "incomplete", "cancelled")
        if is_set != wanted and not may_be:
            judge.report(
                "response.consistent", f"{key} is {'set' if is_set else 'null'}, it is {show(status)}"
            )
    output = response.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    # An extension may end in a status of its own, and its failure need not be the response's.
    statuses = [item.get("status") for item in items if str(item.get("type")) in CORE_TYPES]
    if status == "completed" and any(one not in ("completed", None) for one in statuses):
        judge.report(
            "response.consistent", f"it is completed, its items are {', '.join(map(show, statuses))}"
        )
    if status == "incomplete" and "in_progress" in statuses:
        judge.report("response.consistent", "it has ended with an item in progress")


def _check_usage(usage: Mapping[str, Any], judge: Judge) -> None:
    given, said, total = (usage.get(key) for key in ("input_tokens", "output_tokens", "total_tokens"))
    if isinstance(given, int) and isinstance(said, int) and isinstance(total, int) and given + said != total:
        judge.report("usage.adds_up", f"{given} and {said} are not {total}")
    for side, detail in (("input", "cached_tokens"), ("output", "reasoning_tokens")):
        details, whole = usage.get(f"{side}_tokens_details"), usage.get(f"{side}_tokens")
        part = details.get(detail) if isinstance(details, dict) else None
        if isinstance(part, int) and isinstance(whole, int) and part > whole:
            judge.report("usage.adds_up", f"{part} {detail} of {whole} {side} tokens")
