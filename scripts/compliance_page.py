"""`docs/compliance.md`: the tables of rules on it are written from the catalogue, by
`python -m scripts.compliance_page`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from antiphon.compliance.catalog import OBSERVED, ServerRule, catalog
from antiphon.compliance.checklist import SERVER
from antiphon.compliance.client.verdicts import RULES

PAGE: Final = Path(__file__).parents[1] / "docs" / "compliance.md"


def put_between(page: Path, name: str, text: str) -> None:
    page.write_text(replaced(page.read_text(encoding="utf-8"), name, text), encoding="utf-8")


def replaced(page: str, name: str, text: str) -> str:
    """The page with this text between the two marks of that name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, also_found, after = rest.partition(end)
    if not found or not also_found:
        raise ValueError(f"the page has no marks {begin.strip()} and {end}")
    return f"{before}{begin}\n{text.strip()}\n\n{end}{after}"


def tables() -> dict[str, str]:
    """Every generated part of the page, by its mark."""
    return {
        "rules": "\n".join(_rules()),
        "checklist": "\n".join(_checklist()),
        "clients": "\n".join(_clients()),
    }


def _rules() -> Iterator[str]:
    groups: dict[str, list[ServerRule]] = {}
    for rule in catalog().values():
        groups.setdefault(rule.group, []).append(rule)
    yield f"{len(catalog())} rules, {len(OBSERVED)} of which are judged on everything that is sent in a run."
    for group, rules in groups.items():
        yield f"\n### {group}\n"
        yield "| rule | | what it says | from | transports | proved by |"
        yield "|---|---|---|---|---|---|"
        for rule in rules:
            only = f" ({rule.specs[0]} only)" if len(rule.specs) == 1 else ""
            yield (
                f"| `{rule.id}` | {rule.level} | {rule.says}{only} | {rule.source} "
                f"| {', '.join(rule.transports)} | {rule.proof} |"
            )


def _checklist() -> Iterator[str]:
    yield "| | a server | rules |"
    yield "|---|---|---|"
    for line in SERVER:
        yield f"| {line.number} | {line.says} | {', '.join(f'`{rule}`' for rule in line.rules)} |"


def _clients() -> Iterator[str]:
    yield "| rule | | what it says | line |"
    yield "|---|---|---|---|"
    for rule in RULES.values():
        yield f"| `{rule.id}` | {rule.level} | {rule.says} | {rule.line or ''} |"


def page() -> str:
    """The page as it must be."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables().items():
        text = replaced(text, name, table)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
