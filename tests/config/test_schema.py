"""What the configuration lists by name is what the rest of the program knows."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from antiphon import config
from antiphon.config.kinds import DialectName
from antiphon.config.upstreams import UpstreamTimeouts
from antiphon.providers.registry import TYPES
from antiphon.stream.dialects import AUTO, DIALECTS


def test_every_dialect_can_be_configured() -> None:
    assert set(get_args(DialectName)) == {AUTO, *DIALECTS}


def test_an_answer_that_is_not_streamed_may_take_longer_to_begin() -> None:
    limits = UpstreamTimeouts(first_byte=1, whole=2)
    assert limits.for_answer(stream=True) is limits
    assert limits.for_answer(stream=False) == UpstreamTimeouts(first_byte=2, whole=2, total=2)


def test_the_configuration_knows_no_provider_by_name() -> None:
    """Neither as a text nor as a class; documentation may, and a dialect has its name."""
    folder = Path(config.__file__).parent
    names = {f"{kind}{end}" for kind in TYPES for end in ("", "settings", "provider")} - set(DIALECTS)
    found = [
        f"{file.name}:{line}: {word}"
        for file in sorted(folder.glob("*.py"))
        for line, word in words(ast.parse(file.read_text(encoding="utf-8")))
        if word.lower() in names
    ]
    assert found == []


def test_a_planted_name_is_found() -> None:
    tree = ast.parse(
        '"""Chat."""\nclass ChatSettings: ...\nif kind == "llama": from x import OllamaProvider\n'
    )
    assert [word for _, word in words(tree)] == ["ChatSettings", "kind", "llama", "OllamaProvider"]


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts, the classes and the names that a module uses, with their lines."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.lineno, node.id
        elif isinstance(node, ast.alias):
            yield node.lineno, node.name
