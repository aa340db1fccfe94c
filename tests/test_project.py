"""The project as a whole: a light import, an honest lock, and a layer rule that bites."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from antiphon.embedded.catalogue import DEFAULT

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def pins(lock: Path) -> dict[str, str]:
    """Each locked package by name, with everything the lock says about it."""
    entries = re.split(r"\n(?=[a-z0-9])", lock.read_text())
    return {entry.split("==")[0]: entry for entry in entries if "==" in entry.split("\n")[0]}


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, antiphon; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = {"asyncio", "httpx", "msgspec", "httptools", "uvicorn", "websockets", "sqlite3", "jsonschema"}
    assert heavy.isdisjoint(loaded.stdout.split())


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_the_lock_pins_by_hash_and_names_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert not re.search(r"://|@|--(?:extra-)?index|--find-links|^/|\s/", text, re.MULTILINE)
    entries = pins(lock)
    assert entries
    assert [name for name, entry in entries.items() if "--hash=sha256:" not in entry] == []


def test_everything_declared_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = [
        *project["project"]["dependencies"],
        *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
        *(line for group in project["dependency-groups"].values() for line in group if isinstance(line, str)),
    ]
    names = {re.split(r"[^a-z0-9-]", line)[0] for line in declared}
    locked = {name for lock in LOCKS for name in pins(lock)}
    assert names - locked == {"antiphon"}, "the extra `all` names the project itself"


def versions(lock: Path) -> dict[str, str]:
    return {name: entry.split()[0] for name, entry in pins(lock).items()}


def test_what_serving_needs_is_what_the_tests_run_with() -> None:
    serve, dev = (versions(ROOT / "requirements" / name) for name in ("serve.txt", "dev.txt"))
    assert serve.items() <= dev.items()
    assert {"uvicorn", "xllamacpp"} <= set(serve)
    assert not {"pytest", "mypy", "openai"} & set(serve)


@pytest.mark.parametrize(("target", "lock"), [("serve", "serve"), ("test", "dev"), ("check", "dev")])
def test_a_target_installs_the_lock_that_it_needs(tmp_path: Path, target: str, lock: str) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "setup").write_text('#!/bin/sh\necho "installs $1"\nexit 1\n')
    (tmp_path / "scripts" / "setup").chmod(0o755)
    done = subprocess.run(["make", target], cwd=tmp_path, capture_output=True, text=True)
    assert [line for line in done.stdout.splitlines() if line.startswith("installs")] == [f"installs {lock}"]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """Every layer, empty, under the project's own rule."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    layers = "spec stream wires config embedded providers catalogue store tools engine bridges server client"
    for layer in ("", *layers.split(), "producer", "compliance", "tui", "cli", "vertice", "vtcode"):
        package = tmp_path / "antiphon" / layer
        package.mkdir()
        (package / "__init__.py").touch()
    return tmp_path


def test_the_layer_rule_accepts_imports_downwards(skeleton: Path) -> None:
    (skeleton / "antiphon/stream/__init__.py").write_text("import antiphon.spec\n")
    (skeleton / "antiphon/server/__init__.py").write_text("import antiphon.engine\n")
    (skeleton / "antiphon/client/__init__.py").write_text("import antiphon.stream\n")
    result = lint_imports(skeleton)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("spec", "antiphon.stream"),
        ("stream", "antiphon.wires"),
        ("stream", "antiphon.config"),
        ("wires", "antiphon.config"),
        ("wires", "antiphon.providers"),
        ("providers", "antiphon.engine"),
        ("tools", "antiphon.engine"),
        ("store", "antiphon.tools"),
        ("server", "antiphon.client"),
        ("bridges", "antiphon.providers"),
        ("providers", "antiphon.bridges"),
        ("client", "antiphon.server"),
        ("client", "antiphon.config"),
        ("client", "antiphon.producer"),
        ("producer", "antiphon.client"),
        ("producer", "antiphon.server"),
        ("compliance", "antiphon.cli"),
        ("tui", "antiphon.cli"),
        ("tui", "antiphon.server"),
        ("cli", "antiphon.vertice"),
        ("vertice", "antiphon.server"),
        ("vtcode", "antiphon.vertice"),
        ("spec", "asyncio"),
        ("stream", "time"),
    ],
)
def test_the_layer_rule_catches_an_import_upwards(skeleton: Path, module: str, forbidden: str) -> None:
    (skeleton / "antiphon" / module / "__init__.py").write_text(f"import {forbidden}\n")
    result = lint_imports(skeleton)
    assert result.returncode == 1, result.stdout
    assert f"antiphon.{module} -> {forbidden}" in result.stdout


@pytest.mark.parametrize(
    ("module", "imported", "is_allowed"),
    [
        ("local", "antiphon.server.local", True),
        ("local", "antiphon.server", False),
        ("local", "antiphon.config", False),
        ("http", "antiphon.server.local", False),
    ],
)
def test_the_client_reaches_the_gateway_by_one_import_that_the_layer_rule_names(
    skeleton: Path, module: str, imported: str, is_allowed: bool
) -> None:
    transport = skeleton / "antiphon/client/transport"
    transport.mkdir()
    (transport / "__init__.py").touch()
    (skeleton / "antiphon/server/local.py").write_text("import antiphon.config\n")
    (transport / f"{module}.py").write_text(f"def later():\n    import {imported}\n")
    result = lint_imports(skeleton)
    assert (result.returncode == 0) == is_allowed, result.stdout


def test_no_module_hides_an_import_of_another_package_from_the_layer_rule() -> None:
    hidden = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "antiphon").rglob("*.py")
        for name in re.findall(r"(?:import_module|__import__)\(\s*[\"'](antiphon[\w.]*)", path.read_text())
        if not name.startswith(".".join(path.relative_to(ROOT).parts[:2]) + ".")
    ]
    assert hidden == []


def test_the_layer_rule_has_no_gap(skeleton: Path) -> None:
    (skeleton / "antiphon/sundry.py").touch()
    result = lint_imports(skeleton)
    assert result.returncode == 1, result.stdout
    assert "antiphon.sundry" in result.stdout


def test_no_test_gets_a_second_try() -> None:
    """Neither by a plugin, nor by a hook of ours that runs a test again and tells of the last run alone."""
    plugins = re.findall(
        r"^(pytest-\w+|flaky)\b", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE
    )
    assert not {"pytest-rerunfailures", "pytest-retry", "flaky"} & {*plugins}
    hooks = [path for path in (ROOT / "tests").rglob("*.py") if "pytest_runtest_" in path.read_text("utf-8")]
    assert hooks == [Path(__file__)]


def test_every_model_of_an_example_is_there() -> None:
    """The embedded one, one of a vendor, or one that the page configures or serves itself."""
    made_up = {"no-such-model", "gemini-3-pro", "m", "tiny"}  # asked of no gateway, or asked for its refusal
    missing = []
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        toml = "".join(text for language, text in blocks if language == "toml")
        for _, text in blocks if page.name != "reference.md" else ():
            for name in re.findall(r"""\bmodel["']?\s*[:=]\s*["']([^"'/]+)["']""", text):
                served = re.search(rf'(App|stream_open_responses)\(.*model="{name}"', text)
                configured = re.search(rf'^"?{re.escape(name)}"? = ', toml, re.MULTILINE)
                if not (served or configured or name in made_up or name == DEFAULT):
                    missing.append((page.name, name))
    assert missing == []


def test_every_page_of_the_docs_is_reached_from_its_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#:]+\.md)\)", index)}
    pages = {*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "README.md"}
    assert linked == pages


@pytest.mark.parametrize(
    ("floors", "passes"),
    [
        (["a/b:80:50"], True),
        (["a/b:81"], False),
        (["a/b:80:51"], False),
        (["a:90"], True),
        (["a:91"], False),
        (["a/b:80", "a:91"], False),
        (["nowhere:0"], False),
    ],
)
def test_a_package_below_its_floor_of_coverage_fails(floors: list[str], passes: bool) -> None:
    """Of `a/b` 8 of 10 lines and 1 of 2 branches are covered, of `a` 18 of 20 lines; `ab` is another."""

    def summary(covered: int, branches: int) -> dict[str, dict[str, int]]:
        counts = {
            "covered_lines": covered,
            "num_statements": 10,
            "covered_branches": branches,
            "num_branches": 2,
        }
        return {"summary": counts}

    report = {"files": {"a/b/c.py": summary(8, 1), "a/d.py": summary(10, 2), "ab/e.py": summary(0, 0)}}
    script = [sys.executable, str(ROOT / "scripts" / "coverage_floor.py"), *floors]
    done = subprocess.run(script, input=json.dumps(report), capture_output=True, text=True)
    assert (done.returncode == 0) == passes, done.stdout + done.stderr


def test_the_lock_of_the_web_app_pins_versions_and_names_no_address() -> None:
    package = json.loads((ROOT / "web" / "package.json").read_text())
    wanted = package["dependencies"] | package["devDependencies"]
    assert [name for name, version in wanted.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    assert {name: lock[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert [name for name, locked in lock.items() if "resolved" in locked] == []
    # Of the binaries for other platforms only the version is known where a mirror does not have them.
    unsure = {name for name, locked in lock.items() if name and "integrity" not in locked}
    assert [
        name for name in unsure if not (lock[name].get("optional") and {"os", "cpu"} & set(lock[name]))
    ] == []


@pytest.mark.parametrize("is_built", [False, True])
def test_without_node_the_set_up_goes_on_and_says_what_is_served(tmp_path: Path, is_built: bool) -> None:
    for folder in ("scripts", "web", ".venv/bin", "bin", "antiphon/server/web"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "web", tmp_path / "scripts")
    (tmp_path / ".venv/bin/python").symlink_to(shutil.which("false") or "")
    for tool in ("cat", "dirname", "find", "sort"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or "")
    if is_built:
        (tmp_path / "antiphon/server/web/index.html").touch()
    done = subprocess.run(
        [shutil.which("sh") or "", "scripts/web", "serve"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Node could not be installed" in done.stderr
    ending = "with the web app as it was built before" if is_built else "without the web app"
    assert f"going on {ending}" in done.stderr


def test_the_changelog_is_one_page() -> None:
    """A line belongs into the section of its area; what was mended before the release is in the history."""
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 80
