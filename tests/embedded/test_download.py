"""Downloads from a hub on loopback: resumed, redirected, checked; and what is said when they fail."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.embedded import weights
from antiphon.embedded.catalogue import CATALOGUE, CatalogueModel
from antiphon.embedded.download import ExpectedFile, download, record_path
from antiphon.embedded.gguf import HubSource, WeightsError
from antiphon.embedded.progress import ProgressStep, silent
from tests.embedded.hub import CONTENT, SHA256, Hub

ROW = CatalogueModel(
    HubSource("somebody/Tiny-GGUF", "abc123", "Tiny-Q8_0.gguf", len(CONTENT), SHA256), "MIT", 2048, 1024
)
PART, NOTE = ".tiny.gguf.part", ".tiny.gguf.part.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "models"
    monkeypatch.setenv("ANTIPHON_MODELS_DIR", str(folder))
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that has the model `tiny`."""
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", f"{hub.url}/")
        monkeypatch.setitem(CATALOGUE, "tiny", ROW)
        yield hub


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()} - {".lock"}


def test_a_model_by_its_name(hub: Hub, folder: Path) -> None:
    hub.redirects = True
    steps: list[ProgressStep] = []
    file = weights.pull("tiny", steps.append)
    assert file == folder / "tiny.gguf"
    assert file.read_bytes() == CONTENT
    assert hub.requests[0][0] == "/somebody/Tiny-GGUF/resolve/abc123/Tiny-Q8_0.gguf"
    assert steps[0].total == len(CONTENT)
    assert names(folder) == {"tiny.gguf", ".tiny.gguf.json"}
    assert weights.path("tiny") == weights.pull("tiny") == file
    assert len(hub.requests) == 2


def test_a_connection_that_breaks_is_opened_again(hub: Hub) -> None:
    hub.redirects = True
    hub.cuts = [300_000, 1, 200_000]
    assert weights.pull("tiny").read_bytes() == CONTENT
    assert hub.ranges == [None, "bytes=300000-", "bytes=300001-", "bytes=500001-"]


def test_a_part_is_kept_and_goes_on_with_the_next_command(hub: Hub, folder: Path) -> None:
    hub.cuts = [300_000, 0]
    with pytest.raises(
        WeightsError, match=f"300000 of {len(CONTENT)} bytes are kept: run the same command to resume"
    ):
        weights.pull("tiny")
    assert names(folder) == {PART, NOTE}
    hub.requests.clear()
    steps: list[ProgressStep] = []
    assert weights.pull("tiny", steps.append).read_bytes() == CONTENT
    assert hub.ranges == ["bytes=300000-"]
    assert (steps[0].done or 0) > 300_000
    assert names(folder) == {"tiny.gguf", ".tiny.gguf.json"}


def test_a_part_can_be_removed(hub: Hub, folder: Path) -> None:
    hub.cuts = [300_000, 0]
    with pytest.raises(WeightsError):
        weights.pull("tiny")
    weights.remove("tiny")
    assert names(folder) == set()


def test_a_part_goes_on_from_another_mirror(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.cuts = [300_000, 0]
    with pytest.raises(WeightsError):
        weights.pull("tiny")
    with Hub() as other:
        monkeypatch.setenv("HF_ENDPOINT", other.url)
        assert weights.pull("tiny").read_bytes() == CONTENT
        assert other.ranges == ["bytes=300000-"]


def test_a_server_without_ranges_sends_all_again(hub: Hub) -> None:
    hub.takes_ranges = False
    hub.cuts = [300_000]
    assert weights.pull("tiny").read_bytes() == CONTENT


def test_a_server_that_always_breaks_at_the_same_place_is_given_up(hub: Hub) -> None:
    hub.takes_ranges = False
    hub.cuts = [300_000] * 9
    with pytest.raises(WeightsError, match="broke off"):
        weights.pull("tiny")
    assert len(hub.requests) == 2


def test_a_part_that_was_all_of_it(hub: Hub, folder: Path) -> None:
    """416: there is nothing after what is here."""
    hub.cuts = [300_000, 0]
    with pytest.raises(WeightsError):
        weights.pull("tiny")
    (folder / PART).write_bytes(CONTENT)
    assert weights.pull("tiny").read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file(hub: Hub, folder: Path) -> None:
    hub.cuts = [300_000, 0]
    with pytest.raises(WeightsError):
        weights.pull("tiny")
    (folder / PART).write_bytes(CONTENT + b"more")
    hub.requests.clear()
    assert weights.pull("tiny").read_bytes() == CONTENT
    assert hub.ranges == [f"bytes={len(CONTENT) + 4}-", None]


def test_another_file_of_the_same_size(hub: Hub, folder: Path) -> None:
    hub.content = b"GGUF" + bytes(len(CONTENT) - 4)
    with pytest.raises(WeightsError, match=f"does not have the SHA-256 {SHA256}, so it was thrown away"):
        weights.pull("tiny")
    assert names(folder) == set()


def test_another_size(hub: Hub, folder: Path) -> None:
    hub.content = CONTENT + b"more"
    with pytest.raises(WeightsError, match=f"has {len(CONTENT) + 4} bytes, and the model has {len(CONTENT)}"):
        weights.pull("tiny")
    assert names(folder) == set()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "answered with status 404. Check the address."),
        (403, "answered with status 403. It wants a permission"),
        (503, "answered with status 503. Try again later."),
    ],
)
def test_a_hub_that_says_no(hub: Hub, folder: Path, status: int, said: str) -> None:
    hub.status = status
    with pytest.raises(WeightsError) as raised:
        weights.pull("tiny")
    assert said in str(raised.value)
    assert "HF_ENDPOINT" in str(raised.value)
    assert "antiphon models pull tiny --from PATH_OR_URL" in str(raised.value)
    assert names(folder) == set()


def test_no_room_for_it_is_said_before(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    source = HubSource("somebody/Huge-GGUF", "abc", "Huge.gguf", 2**60, SHA256)
    monkeypatch.setitem(CATALOGUE, "huge", CatalogueModel(source, "MIT", 2048, 1024))
    with pytest.raises(WeightsError, match=r"MiB free, and the model needs .* ANTIPHON_MODELS_DIR"):
        weights.pull("huge")
    assert hub.requests == []


def test_a_known_model_from_a_file(hub: Hub, folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "downloaded.gguf"
    own.write_bytes(CONTENT)
    file = weights.pull("tiny", origin=str(own))
    assert file == folder / "tiny.gguf"
    assert file.resolve() == own.resolve()
    assert weights.path("tiny") == file
    assert hub.requests == []


def test_a_file_that_is_not_the_known_model(hub: Hub, tmp_path: Path) -> None:
    own = tmp_path / "downloaded.gguf"
    own.write_bytes(b"GGUF, but another")
    with pytest.raises(WeightsError, match=f"does not have the SHA-256 {SHA256}, so it is not tiny"):
        weights.pull("tiny", origin=str(own))
    with pytest.raises(WeightsError, match="is not a known name"):
        weights.pull(str(own), origin=str(own))


def test_a_known_model_from_an_address(hub: Hub) -> None:
    with Hub() as elsewhere:
        weights.pull("tiny", origin=f"{elsewhere.url}/a/copy.gguf")
        assert [path for path, _ in elsewhere.requests] == ["/a/copy.gguf"]
    assert weights.path("tiny").read_bytes() == CONTENT
    assert hub.requests == []


def test_what_the_hub_says_of_any_of_its_files_is_held_to(hub: Hub, folder: Path) -> None:
    hub.redirects = True
    hub.linked = SHA256
    address = f"{hub.url}/somebody/Other-GGUF/resolve/main/other.gguf"
    assert weights.pull(address).read_bytes() == CONTENT
    weights.remove("other")
    hub.linked = "0" * 64
    with pytest.raises(WeightsError, match="does not have the SHA-256 0000"):
        weights.pull(address)
    assert names(folder) == set()


def test_a_plain_address_goes_on_only_while_the_file_is_the_same(hub: Hub, tmp_path: Path) -> None:
    wanted, part = ExpectedFile(f"{hub.url}/file.gguf"), tmp_path / "part"
    hub.cuts = [300_000, 0]
    with pytest.raises(WeightsError, match="are kept"):
        download(wanted, part, silent)
    hub.content, hub.etag = b"GGUF" + CONTENT, '"two"'
    download(wanted, part, silent)
    assert part.read_bytes() == hub.content
    assert not record_path(part).exists()


def test_without_a_sign_of_sameness_nothing_is_kept(hub: Hub, tmp_path: Path) -> None:
    hub.etag = None
    hub.cuts = [300_000]
    with pytest.raises(WeightsError, match=f"ended after 300000 of {len(CONTENT)} bytes. Try again."):
        download(ExpectedFile(f"{hub.url}/file.gguf"), tmp_path / "part", silent)
    assert list(tmp_path.glob("part*")) == []


@pytest.fixture(scope="module")
def patient_hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(min_value=1, max_value=len(CONTENT) // 2), max_size=5))
def test_however_it_is_cut_the_file_is_whole(
    cuts: list[int], patient_hub: Hub, tmp_path_factory: pytest.TempPathFactory
) -> None:
    part = tmp_path_factory.mktemp("cut") / "part"
    patient_hub.cuts = cuts
    checksum = download(ExpectedFile(f"{patient_hub.url}/file.gguf", len(CONTENT), SHA256), part, silent)
    assert checksum == SHA256 == hashlib.sha256(part.read_bytes()).hexdigest()


def test_every_row_of_the_catalogue_is_complete() -> None:
    for name, row in CATALOGUE.items():
        assert re.fullmatch("[0-9a-f]{64}", row.source.sha256), name
        assert row.licence in {"Apache-2.0", "MIT"}, name
        assert row.memory(2048) > row.source.size, name
        if isinstance(row.source, HubSource):
            assert re.fullmatch("[0-9a-f]{40}", row.source.revision), name
            assert row.source.file.endswith(".gguf"), name
    assert len({row.source.sha256 for row in CATALOGUE.values()}) == len(CATALOGUE)
