"""Draws the tables as pages of the documentation: `python -m scripts.stream_pages [docs]`."""

import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, groupby
from pathlib import Path

from antiphon.stream import lifecycle as lc
from antiphon.stream.rules import RESPONSE_RULES, RULES, SPECIFICATION, StreamRule

_MADE = "<!-- Written by `python -m scripts.stream_pages`; change the tables instead. -->"


def diagram(table: lc.Table) -> str:
    """One table as a Mermaid state diagram; states that cannot be left end it."""
    lines = ["```mermaid", "stateDiagram-v2"]
    reached = {state for row in table.values() for state in row.values()}
    for state, row in table.items():
        start = "[*]" if state == lc.ABSENT else state
        for trigger, target in row.items():
            label = trigger if isinstance(trigger, str) else " as ".join(trigger)
            lines.append(f"    {start} --> {target} : {label}")
        if not row and state in reached:
            lines.append(f"    {state} --> [*]")
    return "\n".join([*lines, "```"])


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"


def _alike(tables: Mapping[str, lc.Table]) -> list[list[str]]:
    """The part types, those that share a table together."""
    groups: dict[int, list[str]] = {}
    for name, table in tables.items():
        groups.setdefault(id(table), []).append(name)
    return list(groups.values())


def lifecycle_page() -> str:
    sections = [
        _MADE,
        "# Lifecycles",
        "What may happen to a response, an item, a part and the arguments of a call, and in which order. "
        "`antiphon/stream/lifecycle.py` holds these tables; the Composer can move only through them and the "
        "Auditor judges by them.",
        "## Response",
        "`created` and `failing` are moments of the stream, not statuses on the wire. A `cancelled` response "
        "is understood when another server sends one; no event of the specification leads there.",
        diagram(lc.RESPONSE),
        "## Item",
        "Items of the specification's kinds:",
        diagram(lc.ITEM),
        "Extension items (`slug:name`) may also fail:",
        diagram(lc.VENDOR_ITEM),
        "## Part",
        *chain.from_iterable(
            (f"### {_code(names)} in `{kind}`", diagram(lc.PARTS[kind][names[0]]))
            for kind, tables in lc.PARTS.items()
            for names in _alike(tables)
        ),
        "## Arguments of a call",
        *chain.from_iterable((f"### `{kind}`", diagram(table)) for kind, table in lc.CALLS.items()),
        "## Events by level",
        _table(("level", "events"), ((level, _code(events)) for level, events in lc.LEVELS.items())),
        "## Events by kind of item",
        "Besides `response.output_item.added` and `response.output_item.done`, which every item has.",
        _table(("item", "events"), ((f"`{k}`", _code(v)) for k, v in sorted(lc.EVENTS_OF.items()))),
        "## Texts",
        "Which event extends a text, which one gives it whole, and under which keys.",
        _table(
            ("extended by `delta` of", "given whole by", "key", "index"),
            (
                (f"`{c.delta}`", f"`{c.done}`", f"`{c.key}`", f"`{c.index}`" if c.index else "")
                for c in lc.CHANNELS
            ),
        ),
    ]
    return "\n\n".join(sections) + "\n"


def rules_page() -> str:
    sections = [
        _MADE,
        "# Rules of a stream",
        f"What the Auditor holds every stream to, by specification {SPECIFICATION}. Ids are stable. "
        "The last column names what asks for it: a section of the "
        "[specification](https://www.openresponses.org/specification), or a schema of its OpenAPI document.",
    ]
    for group, rules in groupby(RULES.values(), key=lambda rule: rule.id.partition(".")[0]):
        sections += [f"## {group}", _rules(rules)]
    sections += [
        "## Whole responses",
        "A response that was not streamed is held to the rules on keys and on the types of items and parts, "
        "and to these.",
        _rules(RESPONSE_RULES.values()),
    ]
    return "\n\n".join(sections) + "\n"


def _rules(rules: Iterable[StreamRule]) -> str:
    rows = ((f"`{r.id}`", r.level, r.summary, r.area) for r in rules)
    return _table(("rule", "level", "says", "from"), rows)


PAGES: Mapping[str, Callable[[], str]] = {"lifecycle.md": lifecycle_page, "rules.md": rules_page}


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0] if arguments else "docs")
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
