"""Every example is run: the programs in `examples/`, and the Python on the pages about the library.

The programs ask a gateway with the `script` provider. A line `#> text` at the end of an example, or a block
of `text` right after a block of Python on a page, is what it prints.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.providers.presets import PRESETS
from tests.server.curl import Shell
from tests.server.servers import Serving, configure

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [
    ROOT / "docs" / f"{name}.md"
    for name in ("tutorial", "client", "agents", "producer", "origins", "many-machines")
]
PAGES.append(ROOT / "README.md")
SCREEN = 50
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
DEADLINE = 60.0

CONFIG = f"""
default_model = "demo"
[providers.demo]
type = "script"
file = "{ROOT / "tests" / "example_answers.toml"}"
[models]
"demo" = "demo/script"
"small" = "demo/script"
"smollm2-135m-instruct" = "demo/script"
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(configure(tmp_path_factory.mktemp("examples"), CONFIG)) as serving:
        yield serving


@pytest.fixture
def environment(gateway: Serving, tmp_path: Path) -> dict[str, str]:
    """What a user would set, and a folder with a configuration file for a gateway inside the program."""
    (tmp_path / "antiphon.toml").write_text(CONFIG + "[local]\nenabled = false\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_BASE_URL", "_API_KEY"))}
    return kept | {
        "ANTIPHON_BASE_URL": f"{gateway.url}/v1",
        "ANTIPHON_STORE__PATH": str(tmp_path / "data"),
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
    }


def run(program: Path, folder: Path, environment: dict[str, str]) -> str:
    """What the program prints; it must end well and complain about nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    printed = run(example, tmp_path, environment)
    assert printed
    text = example.read_text(encoding="utf-8")
    assert "127.0.0.1:" not in text, "an example takes its address from the environment"
    expected = re.findall(r"^#> ?(.*)$", text, re.MULTILINE)
    if expected:
        assert printed.splitlines() == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_on_a_page_runs(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """All blocks of a page in one program, from the top to the bottom, as a reader would try them."""
    blocks = [block for block in BLOCK.findall(page.read_text(encoding="utf-8")) if block[0] == "python"]
    assert blocks
    marks = [f"print('\\n--- {n}')\n" for n in range(len(blocks))]
    program = tmp_path / "page.py"
    program.write_text("\n".join(mark + block[1] for mark, block in zip(marks, blocks, strict=True)), "utf-8")
    printed = re.split(r"\n--- \d+\n", run(program, tmp_path, environment))[1:]
    for (_, text, expected), said in zip(blocks, printed, strict=True):
        if expected:
            assert said.splitlines() == expected.splitlines(), text


def test_the_commands_of_the_readme_work(gateway: Serving) -> None:
    """All but the vendor's model itself, which is another's here."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= SCREEN, "the README is one screen"
    blocks = [block for language, block, _ in BLOCK.findall(text) if language == "sh"]
    variables = {preset.api_key_env: name for name, preset in PRESETS.items()}
    shell = Shell(gateway.client())
    for command in re.sub(r"\\\n", "", "".join(blocks)).splitlines():
        word, _, rest = command.partition(" ")
        if word == "export":
            vendor = variables[rest.partition("=")[0]]
        elif word == "make":
            assert f"\n{rest}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
        else:
            named = re.search(r'"model": "(\w+)/', command)
            assert named is None or named[1] == vendor
            answer = shell.run(re.sub(r'"model": "[^"]*"', '"model": "demo"', command))
            assert answer.status_code == 200, command


def test_the_commands_of_the_tutorial_work(
    gateway: Serving, tmp_path: Path, environment: dict[str, str]
) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    shell = Shell(gateway.client())
    for command in [text for language, text, _ in blocks if language == "sh"]:
        if command.startswith("curl"):
            assert shell.run(command).status_code == 200, command
        elif command.startswith("make "):
            assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
        else:
            (toml,) = [text for language, text, _ in blocks if language == "toml"]
            (tmp_path / "antiphon.toml").write_text(toml, encoding="utf-8")
            typed = command.replace(".venv/bin/antiphon", f"{sys.executable} -m antiphon")
            done = subprocess.run(typed, shell=True, cwd=tmp_path, env=environment, capture_output=True)
            assert done.returncode == 0, done.stderr
            assert b"configuration is good" in done.stdout
