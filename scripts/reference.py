"""What users may rely on, read from the source: `docs/surface.txt`, `docs/reference.md` and a stub.

`python -m scripts.reference` writes them. The first has one public name a line, so that a change of the
surface shows in a diff; the second is for reading, and takes its words from the docstrings; the third tells
type checkers where the names of the package are defined, which Python finds out when they are used.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import antiphon
from scripts.sync_client import formatted

ROOT = Path(__file__).parent.parent
SURFACE = ROOT / "docs" / "surface.txt"
PAGE = ROOT / "docs" / "reference.md"
STUB = ROOT / "antiphon" / "__init__.pyi"

# Packages that are public as a whole: what they export is the vocabulary of another project.
VOCABULARIES = ("antiphon.vertice", "antiphon.vtcode")
# Names that are public in their modules, because they belong to one use or would be too general elsewhere.
BY_PATH = {
    "antiphon.bridges.encoder": "Encoder JsonLines ServerSentEvents",
    "antiphon.bridges.vscode": (
        "DataPart PartStream TextPart ToolCallPart ToolResultPart VsCodeRequest assistant to_request user"
    ),
    "antiphon.client.resources.conversations": "AsyncConversationItems AsyncConversations AsyncModels",
    "antiphon.client.resources.responses": "AsyncResponses",
    "antiphon.client.sync.resources": "ConversationItems Conversations Models Responses",
    "antiphon.config": "ConfigErrors HttpSettings ProviderSettings ToolSettings load",
    "antiphon.providers.base": "Capabilities Environment Provider Sink Turn UpstreamError answer_from",
    "antiphon.providers.exchange": "Call Parser ask",
    "antiphon.providers.history": "speeches",
    "antiphon.providers.registry": "TYPES",
    "antiphon.store": "NewResponse SqliteStore",
    "antiphon.stream.dialects": "by_name solicited",
    "antiphon.tools.base": (
        "Function HostedCall HostedTool Outcome Resumed Scope ToolEnvironment ToolFailure ToolSession"
    ),
    "antiphon.tools.citations": "Source",
    "antiphon.tools.registry": "TOOLS",
}
GROUPS = {
    "Client": ("antiphon.client", "antiphon.wires.hashbrown"),
    "Agents, tools, tasks": ("antiphon.client.agent", "antiphon.client.tools", "antiphon.wires.tools"),
    "Your own agent as an endpoint": ("antiphon.producer",),
    "Items": ("antiphon.spec.items", "antiphon.spec.codec"),
    "Content parts": ("antiphon.spec.content",),
    "Requests and responses": ("antiphon.spec",),
    "Tools, tool choices, formats": ("antiphon.spec.tools",),
    "Events": ("antiphon.spec.events",),
    "Errors of the protocol": ("antiphon.spec.errors",),
    "Deltas": ("antiphon.stream.deltas",),
    "Providers": ("antiphon.providers.base", "antiphon.stream.sinks"),
}

_OR = " or "
_CUT = "# ---"

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Entry:
    """A public name: where it is defined, what kind it is, its signature, and what its docstring says."""

    name: str
    module: str
    kind: str
    signature: str
    doc: str
    members: "tuple[Entry, ...]" = ()


@cache
def _module(name: str) -> tuple[ast.Module, bool]:
    path = ROOT.joinpath(*name.split("."))
    is_package = path.is_dir()
    file = path / "__init__.py" if is_package else path.with_suffix(".py")
    file = STUB if name == "antiphon" else file
    tree = ast.parse(file.read_text(encoding="utf-8"))
    _Unqualified(tree).visit(tree)
    return tree, is_package


class _Unqualified(ast.NodeTransformer):
    """Writes `base.Item` as `Item`, imported from `base`: a reader knows names, and not what we import."""

    def __init__(self, tree: ast.Module) -> None:
        self._body = tree.body
        self._modules = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("antiphon")
            for alias in node.names
        }

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node:
            case ast.Attribute(value=ast.Name(id=id), attr=attr) if id in self._modules and attr[0].isupper():
                home = self._modules[id]
                if home.rpartition(".")[2].islower() and not attr.isupper():  # a class of a module
                    self._body.append(ast.ImportFrom(home, [ast.alias(attr)], 0))
                    return ast.Name(attr)
        self.generic_visit(node)
        return node


def _statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """The statements of a module or a class, each with the string that follows it."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        said = after.value if isinstance(after, ast.Expr) else None
        doc = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
        yield node, doc
        if isinstance(node, ast.If):
            for inner in node.body:
                yield inner, doc


def _names(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def find(module: str, name: str) -> tuple[str, list[Definition], str]:
    """Where a name is defined: the module, its definitions (overloads are several), and its docstring."""
    tree, _ = _module(module)
    found: list[Definition] = []
    doc = ""
    for node, after in _statements(tree.body):
        if _names(node) == name:
            assert isinstance(node, Definition)
            found.append(node)
            doc = _doc(node) or after or doc
        elif isinstance(node, ast.ImportFrom) and node.module and not found:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return find(node.module, alias.name)
    if not found:
        raise LookupError(f"{module} has no {name}")
    return module, found, doc


def _doc(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return ast.get_docstring(node) or ""
    return ""


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool = False) -> str:
    arguments = ast.unparse(node.args)
    if method and not any(ast.unparse(each) == "staticmethod" for each in node.decorator_list):
        arguments = arguments.partition(", ")[2] if ", " in arguments else ""
        arguments = arguments.removeprefix("/, ")
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({arguments}){result}"


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(ast.unparse(each).rpartition(".")[2] == name for each in node.decorator_list)


def _bases(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """The class and those of ours that it is made from, the furthest first."""
    for base in node.bases:
        name = ast.unparse(base).partition("[")[0]
        try:
            home, found, _ = find(module, name)
        except (LookupError, FileNotFoundError):
            continue
        for each in found:
            if isinstance(each, ast.ClassDef):
                yield from _bases(home, each)
    yield module, node


def _members(module: str, node: ast.ClassDef) -> dict[str, Entry]:
    members: dict[str, Entry] = {}
    for home, each in _bases(module, node):
        made = " ".join(map(ast.unparse, [*each.keywords, *each.decorator_list, *each.bases]))
        field = "keyword" if "kw_only=True" in made or "TypedDict" in made else "field"
        for inner, after in _statements(each.body):
            name = _names(inner)
            if not name or (name.startswith("_") and name != "__init__"):
                continue
            match inner:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    if _decorated(inner, "setter") or (_decorated(inner, "overload") and name in members):
                        continue
                    is_property = _decorated(inner, "property") or _decorated(inner, "cached_property")
                    kind = "property" if is_property else _kind(inner)
                    signature = _function(inner, method=True)
                    signature = signature.removeprefix("() -> ") if is_property else signature
                    members[name] = Entry(name, home, kind, signature, _doc(inner))
                case ast.Assign(value=ast.Call(args=[ast.Attribute(value=ast.Name(id=there), attr=attr)])):
                    members[name] = _operation(name, home, there, attr)
                case ast.AnnAssign():
                    default = f" = {ast.unparse(inner.value)}" if inner.value else ""
                    kind = ast.unparse(inner.annotation)
                    fixed = "constant" if kind.startswith("ClassVar") else field
                    members[name] = Entry(name, home, fixed, kind + default, after)
    return members


def _operation(name: str, home: str, there: str, attr: str) -> Entry:
    """A method that is declared by the generator of its statements, as `chat = reads(chats.get)`."""
    (module,) = (
        f"{node.module}.{alias.name}"
        for node in _module(home)[0].body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if there == (alias.asname or alias.name)
    )
    _, (node,), doc = find(module, attr)
    assert isinstance(node, ast.FunctionDef)
    arguments, _, result = _function(node).rpartition(" -> ")
    found = result.removeprefix("Steps[").removesuffix("]")
    return Entry(name, home, "async function", f"{arguments} -> {found}", doc)


def _fields(members: dict[str, Entry]) -> str:
    """The arguments of a class that is declared by its fields."""
    plain = [f"{each.name}: {each.signature}" for each in members.values() if each.kind == "field"]
    named = [f"{each.name}: {each.signature}" for each in members.values() if each.kind == "keyword"]
    return f"({', '.join([*plain, *(['*', *named] if named else [])])})"


def _kind(node: Definition) -> str:
    match node:
        case ast.ClassDef():
            return "class"
        case ast.AsyncFunctionDef():
            return "async function"
        case ast.FunctionDef():
            return "function"
    return "alias"


def entry(module: str, name: str) -> Entry:
    home, found, doc = find(module, name)
    node = found[0]
    match node:
        case ast.ClassDef():
            members = _members(home, node)
            made = members.pop("__init__", None)
            signature = made.signature.removesuffix(" -> None") if made else _fields(members)
            return Entry(name, home, "class", signature, doc, tuple(members.values()))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            shown = [each for each in found[:-1] or found if isinstance(each, type(node))]
            return Entry(name, home, _kind(node), _OR.join(map(_function, shown)), doc)
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return Entry(name, home, "alias", ast.unparse(value), doc)
    raise LookupError(f"{module}.{name} is none of what a surface is made of")


def surface() -> dict[str, Entry]:
    """Every public name with its address, in the order of the alphabet."""
    homes = {name: f"antiphon.{name}" for name in antiphon.__all__ if not name.startswith("__")}
    found = {address: entry("antiphon", name) for name, address in homes.items()}
    by_path = {module: names.split() for module, names in BY_PATH.items()}
    by_path |= {module: import_module(module).__all__ for module in VOCABULARIES}
    for module, names in by_path.items():
        found |= {f"{module}.{name}": entry(module, name) for name in names}
    return dict(sorted(found.items()))


def surface_text() -> str:
    """One name a line: its address, its kind, its signature; the members of a class after it."""

    def lines() -> Iterator[str]:
        for address, each in surface().items():
            yield f"{address}  {each.kind}  {each.signature}"
            for member in each.members:
                yield f"{address}.{member.name}  {member.kind}  {member.signature}"

    return "\n".join(lines()) + "\n"


def _group(each: Entry) -> str:
    fitting = [
        (len(prefix), title)
        for title, prefixes in GROUPS.items()
        for prefix in prefixes
        if each.module == prefix or each.module.startswith(f"{prefix}.")
    ]
    return max(fitting)[1]


def _formatted(entries: list[Entry]) -> list[str]:
    """The signature of each as code."""
    text = f"\n{_CUT}\n".join(map(_code, entries))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(ROOT / "reference.py"), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return [
        code.replace(": ...\n", "\n").replace("def class_", "class ").strip()
        for code in f"{done.stdout}\n".split(f"{_CUT}\n")
    ]


def _code(each: Entry) -> str:
    if each.kind == "alias":
        return f"{each.name} = {each.signature}"
    word = {"class": "def class_", "function": "def "}.get(each.kind, "async def ")
    return "\n".join(f"{word}{each.name}{overload}: ..." for overload in each.signature.split(_OR))


def _described(address: str, each: Entry, code: str) -> Iterator[str]:
    name = address.removeprefix("antiphon.")
    yield f"### `{name}`\n"
    yield f"{each.doc}\n"
    yield "```python"
    yield code
    yield "```\n"
    shown = [
        member for member in each.members if member.kind not in ("field", "keyword", "constant") or member.doc
    ]
    for member in shown:
        doc = " ".join(member.doc.split("\n\n")[0].split())
        call = member.signature if "function" in member.kind else f": {member.signature}"
        word = "async " if member.kind == "async function" else ""
        yield f"- `{word}{member.name}{call}`{': ' if doc else ''}{doc}"
    if shown:
        yield ""


def page() -> str:
    """The page as it must be."""
    everything = surface()
    codes = dict(zip(everything, _formatted(list(everything.values())), strict=True))
    by_group: dict[str, list[str]] = {title: [] for title in GROUPS}
    for address, each in everything.items():
        if address == f"antiphon.{each.name}":
            by_group[_group(each)].append(address)
    homes = {address: address.rpartition(".")[0] for address in everything}
    by_path = [
        address
        for address, each in everything.items()
        if homes[address] not in ("antiphon", *VOCABULARIES) and f"antiphon.{each.name}" not in everything
    ]
    vocabularies = [
        (f"`{home}`", [address for address in everything if homes[address] == home]) for home in VOCABULARIES
    ]
    parts = [
        "<!-- Written by `python -m scripts.reference`; change the docstrings instead. -->\n",
        "# Reference\n",
        "Everything that you may rely on. `from antiphon import …` gives what stands under the first "
        "headings. `antiphon.vertice` and `antiphon.vtcode` have the names of two other projects, and the "
        "last heading those that are public in modules of their own. Whatever is not here may change. The "
        "same list, one name a line: [surface.txt](surface.txt).\n",
    ]
    for title, addresses in [*by_group.items(), *vocabularies, ("Modules", by_path)]:
        parts.append(f"## {title}\n")
        for address in addresses:
            parts.extend(_described(address, everything[address], codes[address]))
    return "\n".join(parts).rstrip() + "\n"


def stub() -> str:
    """The public names for type checkers, each imported from its module."""
    lines = [f"from {module} import {name} as {name}" for name, module in antiphon._HOMES.items()]
    head = "# Written by `python -m scripts.reference`; change the names in `__init__.py` instead."
    private = ["__version__: str", "__all__: list[str]", "_HOMES: dict[str, str]"]
    return formatted("\n".join([head, "", *lines, "", *private]) + "\n")


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    SURFACE.write_text(surface_text(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
