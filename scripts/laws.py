"""Laws over the syntax tree of the package: who changes a state, makes an event, and asks a provider.

    python scripts/laws.py antiphon

1. Only `lifecycle` changes the status of a response, an item or a part. The machines that keep a state of
   their own (Composer, open items) take each new one from its tables.
2. Only the Composer, with its open items, makes an event or numbers one.
3. Only `engine.attempt` calls `answer`, `embed` or `count_tokens` of a provider, and only there, and in the
   packages of providers, is there a class that answers as a provider does.

The decoder and the Reader are excepted, by name, because they repeat what another server has sent. So are the
packages that offer the names of other projects: there a caller makes a response, or single events, by hand,
through the decoder, and numbers them. Exits with 1 and one line for each violation.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

LIFECYCLE = "antiphon.stream.lifecycle"
EVENTS = "antiphon.spec.events"
COMPOSING = {"antiphon.stream.composer", "antiphon.stream.open_items"}
"""They make events, and keep a state."""
KEEPING_STATE = COMPOSING | {"antiphon.stream.plain_answer", "antiphon.stream.resume_state"}
READING = {
    "antiphon.spec.tolerant_decoder",
    "antiphon.stream.reader",
    "antiphon.stream.assembly",
    "antiphon.stream.partial_items",
}
"""They tell what another server wrote."""
STATUS_OF_ITS_OWN = {
    "antiphon.spec.errors": "the status of an HTTP answer",
    "antiphon.spec.response": "complete, fail and incomplete of a response that is made without a stream",
    "antiphon.compliance.probe": "the status of an HTTP answer",
    "antiphon.vertice.types": "complete, fail and end of a response that is made without a stream",
}
MOVES = {"step", "advance", "complete"}
"""The functions of `lifecycle` that give a new state."""

SETTERS = {"setattr", "__setattr__", "force_setattr"}

ATTEMPT = "antiphon.engine.attempt"
ASKING = {"answer", "embed", "count_tokens"}
"""What a provider can be asked."""
GATEWAY = (
    "antiphon.bridges.",
    "antiphon.catalogue.",
    "antiphon.engine.",
    "antiphon.server.",
    "antiphon.tools.",
)
"""The packages that have providers at hand."""
ANSWERING = {
    "attempt": "the functions of `engine.attempt`",
    "upstreams": "the same functions, as a hosted tool has them",
    "token_counts": "the functions of `engine.token_counts`, which call those of `engine.attempt`",
    "exchange": "the answer to an HTTP request",
    "endpoint": "an endpoint of the API, in its description",
    "each": "an endpoint of the API, in its description",
    "messages": "a route",
    "stored_responses": "the answer to an HTTP request",
    "self": "the answer to an HTTP request, in the exchange or the application itself",
    "self._app": "the answer to an HTTP request",
    "gateway.audits": "an answer is judged",
    "StandaloneSearch(tool, upstreams)": "the answer to a search beside a response",
}
"""Whose functions of these names are no provider's."""

Violation = tuple[int, str]


class Laws(ast.NodeVisitor):
    """The violations in one module."""

    def __init__(self, module: str, event_classes: set[str]) -> None:
        self.found: list[Violation] = []
        self._module = module
        self._event_classes = event_classes
        self._events: set[str] = set()  # names of the module of events here
        self._classes: set[str] = set()  # names of event classes here
        self._changes_status = module == LIFECYCLE or module in READING or module in STATUS_OF_ITS_OWN
        self._is_gateway = module.startswith(GATEWAY) and module != ATTEMPT
        self._makes_events = module == EVENTS or module in COMPOSING or module in READING

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        package, _, name = EVENTS.rpartition(".")
        for alias in node.names:
            here = alias.asname or alias.name
            if node.module == package and alias.name == name:
                self._events.add(here)
            elif node.module == EVENTS and alias.name in self._event_classes:
                self._classes.add(here)

    def visit_Import(self, node: ast.Import) -> None:
        self._events |= {alias.asname or alias.name for alias in node.names if alias.name == EVENTS}

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            whole = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            if whole and len(target.elts) == len(node.value.elts):  # type: ignore[attr-defined]
                for part, value in zip(target.elts, node.value.elts, strict=True):  # type: ignore[attr-defined]
                    self._assigned(part, value)
            else:
                self._assigned(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assigned(node.target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._assigned(node.target, node)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._assigned(node.target, node.iter)
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_withitem(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._assigned(node.optional_vars, node.context_expr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        keywords = {word.arg: word.value for word in node.keywords}
        if name == "replace" and not self._is_nothing(keywords.get("status")):
            self._status(node, called)
        if name in SETTERS and len(node.args) > 1:
            attribute = ast.unparse(node.args[1])
            if attribute in ("'status'", "'state'"):
                self._status(node, called)
            elif attribute == "'sequence_number'" and not self._makes_events:
                self._add(node, f"{called}(...) numbers an event, which only the Composer does")
        if not self._makes_events:
            if (owner in self._events and name in self._event_classes) or called in self._classes:
                self._add(node, f"{called}(...) makes an event, which only the Composer does")
            elif "sequence_number" in keywords:
                self._add(node, f"{called}(...) numbers an event, which only the Composer does")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._is_gateway and node.attr in ASKING and isinstance(node.ctx, ast.Load):
            owner = ast.unparse(node.value)
            if owner not in ANSWERING:
                self._add(node, f"{owner}.{node.attr} asks a provider, which only engine.attempt does")
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for method in node.body if self._is_gateway else ():
            match method:
                case ast.AsyncFunctionDef(name="answer", args=ast.arguments(args=[_, first, second])):
                    if (first.arg, second.arg) == ("turn", "sink"):
                        self._add(method, f"{node.name} answers as a provider, and belongs to the providers")
        self.generic_visit(node)

    def _assigned(self, target: ast.expr, value: ast.AST) -> None:
        for node in ast.walk(target):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            is_own = ast.unparse(node.value) == "self"
            if node.attr == "status" and not (is_own and not self._module.startswith("antiphon.spec.")):
                self._status(node, f"{ast.unparse(node)} = ...")
            elif node.attr == "state" and self._module in KEEPING_STATE and not self._is_from_tables(value):
                self._add(node, f"{ast.unparse(node)} = {ast.unparse(value)} is not a move of lifecycle")
            elif node.attr == "sequence_number" and not self._makes_events:
                self._add(node, f"{ast.unparse(node)} numbers an event, which only the Composer does")

    def _is_from_tables(self, value: ast.AST) -> bool:
        """A move of `lifecycle`, the state before the first move, or a state that another machine had."""
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="lifecycle"), attr=name)):
                return name in MOVES
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                return (owner, name) == ("lifecycle", "ABSENT") or (owner, name) == ("sent", "state")
        return False

    def _is_nothing(self, value: ast.expr | None) -> bool:
        """No status is given, or it is left out of what goes to another server."""
        return value is None or (isinstance(value, ast.Constant) and value.value is None)

    def _status(self, node: ast.AST, what: str) -> None:
        if not self._changes_status:
            self._add(node, f"{what} changes a status, which only lifecycle does")

    def _add(self, node: ast.AST, what: str) -> None:
        self.found.append((getattr(node, "lineno", 0), what))


def violations(package: Path) -> Iterator[str]:
    """One line for each violation in the modules of this package folder."""
    events = package.joinpath(*EVENTS.split(".")[1:]).with_suffix(".py")
    classes = {
        node.name for node in ast.walk(ast.parse(events.read_text())) if isinstance(node, ast.ClassDef)
    }
    for path in sorted(package.rglob("*.py")):
        module = ".".join([package.name, *path.relative_to(package).with_suffix("").parts])
        laws = Laws(module, classes)
        laws.visit(ast.parse(path.read_text()))
        for line, what in laws.found:
            yield f"{path}:{line}: {what}"


def main() -> int:
    package = Path(sys.argv[1])
    found = [*violations(package)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
