"""`antiphon setup` on files that others have prepared, and on files of somebody else."""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.cli.setup import safe_files
from tests.cli.conftest import Result
from tests.cli.setup.test_setup import FILES, OLD
from tests.server.servers import DEADLINE

Run = Callable[..., Result]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
NOBODY = 65534


def put(place: Path, client: str, data: bytes) -> Path:
    file = place / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("client", ["codex", "claude"])
def test_a_pipe_in_place_of_the_file_is_refused_at_once(place: Path, client: str) -> None:
    """Reading it waited for ever: nobody writes into it."""
    file = place / FILES[client]
    file.parent.mkdir(parents=True)
    os.mkfifo(file)
    command = [sys.executable, "-m", "antiphon", "setup", client, "--print"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"antiphon: cannot read {file}: it is not a regular file\n"


def test_a_pipe_in_place_of_a_second_file_or_of_the_key_is_not_waited_for(place: Path) -> None:
    (place / ".claude").mkdir()
    os.mkfifo(place / FILES["claude"])
    command = [sys.executable, "-m", "antiphon", "setup", "claude", "--project", "--print"]
    assert subprocess.run(command, capture_output=True, timeout=DEADLINE).returncode == 0
    (place / ".config/antiphon").mkdir(parents=True)
    os.mkfifo(place / ".config/antiphon/token", 0o600)
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert (result.returncode, "token: it is not a regular file" in result.stderr) == (1, True), result


@pytest.mark.parametrize(
    ("client", "text", "said"),
    [
        (
            "claude",
            "{" + ",".join(f'"k{n}":1' for n in range(5_010)) + "}",
            "more than 5,000 lines or values",
        ),
        ("codex", "".join(f"k{n} = 1\n" for n in range(5_010)), "more than 5,000 lines or values"),
        ("codex", ".".join("a" * 600) + " = 1\n", "a line of it has more than 500 dots"),
        ("claude", '{"x": "' + "x" * safe_files.MAX_BYTES + '"}', "it has more than 524,288 bytes"),
        ("codex", "a = " + "[" * 4_000 + "]" * 4_000 + "\n", "it is nested too deep"),
    ],
    ids=["values", "lines", "dots", "bytes", "depth"],
)
def test_a_file_that_would_take_minutes_is_refused(
    run: Run, place: Path, client: str, text: str, said: str
) -> None:
    file = put(place, client, text.encode())
    for more in ([], ["--print"]):
        result = run("setup", client, *more)
        assert (result.code, result.out, said in result.err) == (1, "", True), result.err
    assert file.read_text() == text


@needs_root
@pytest.mark.parametrize("client", FILES)
def test_the_owner_keeps_a_file_that_root_changes(run: Run, place: Path, client: str) -> None:
    """It belonged to root afterwards, and its user could not read it any more."""
    file = put(place, client, OLD[client].encode())
    file.chmod(0o600)
    os.chown(file, NOBODY, NOBODY)
    assert run("setup", client).code == 0
    assert (file.stat().st_uid, file.stat().st_gid, file.stat().st_mode & 0o777) == (NOBODY, NOBODY, 0o600)
    assert run("setup", client, "--undo").code == 0
    assert (file.stat().st_uid, file.stat().st_gid, file.stat().st_mode & 0o777) == (NOBODY, NOBODY, 0o600)
    assert file.read_bytes() == OLD[client].encode()


@needs_root
def test_what_root_makes_in_the_home_of_a_user_belongs_to_that_user(run: Run, place: Path) -> None:
    os.chown(place, NOBODY, NOBODY)
    assert run("setup", "codex").code == 0
    made = [one for one in place.rglob("*") if one.is_file()]
    assert len(made) == 3, made  # the file, the list of models and the record
    for one in made:
        assert (one.stat().st_uid, one.parent.stat().st_uid) == (NOBODY, NOBODY), one


@pytest.mark.parametrize("names", ["of this process", "guessed"])
def test_a_link_at_the_temporary_name_is_not_followed(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    file = put(place, "codex", OLD["codex"].encode())
    victim = place / "victim"
    victim.write_text("precious")
    if names == "guessed":
        monkeypatch.setattr(secrets, "token_hex", lambda size: "0123")
    link = file.with_name(f".{file.name}.{os.getpid() if names == 'of this process' else '0123'}.new")
    link.symlink_to(victim)
    assert run("setup", "codex").code == (1 if names == "guessed" else 0)
    assert victim.read_text() == "precious"
    assert not file.is_symlink()


COMMENTS = {
    "a block": ("claude", "{ /* apiKey\n   = SECRETOLD */ }\n"),
    "a block with stars": ("claude", "/*\n * bearer\n * SECRETOLD\n */\n{}\n"),
    "two lines of JSON": ("opencode", '// the token:\n// SECRETOLD\n{"model": "x"}\n'),
    "two lines of TOML": ("codex", '# api_key:\n# SECRETOLD\nmodel = "x"\n'),
}


@pytest.mark.parametrize("case", COMMENTS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_secret_in_a_comment_of_several_lines_is_not_shown(
    run: Run, place: Path, case: str, newline: str, mark: str
) -> None:
    client, text = COMMENTS[case]
    file = put(place, client, (mark + text.replace("\n", newline)).encode())
    before = file.read_bytes()
    printed, written = run("setup", client, "--print"), run("setup", client)
    assert (printed.code, written.code) == (0, 0), written.err
    assert "SECRETOLD" not in printed.out + printed.err + written.out + written.err
    assert b"SECRETOLD" in file.read_bytes()
    run("setup", client, "--undo")
    assert file.read_bytes() == before


def test_a_key_that_was_kept_with_a_byte_order_mark_is_read_without(run: Run, place: Path) -> None:
    file = place / ".config/antiphon/token"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xef\xbb\xbfsk-the-key\r\n")
    file.chmod(0o600)
    assert run("token").out == "sk-the-key\n"
    assert "sk-the-key" not in run("setup", "claude", "--plain-key").out
