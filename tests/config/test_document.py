"""Files that cannot be read as a configuration at all."""

from pathlib import Path

import pytest

from antiphon.config import ConfigErrors, load
from antiphon.providers.registry import TYPES


@pytest.mark.parametrize("content", [b"a = 1\n# caf\xe9\n", b"\xef\xbb\xbfa = 1\n# caf\xe9\n"])
def test_not_utf8(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigErrors) as caught:
        load(file, {}, types=TYPES)
    assert str(caught.value) == f"{file}:2:6: not valid UTF-8; save the file as UTF-8"


def test_unreadable_files(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "missing.toml", "cannot read the configuration file: No such file or directory"),
        (tmp_path, "cannot read the configuration file: Is a directory"),
        (Path("/dev/zero"), "too large for a configuration file: more than 1048576 bytes"),
        (Path("a\0b"), "cannot read the configuration file: embedded null byte"),
    ):
        with pytest.raises(ConfigErrors) as caught:
            load(path, {}, types=TYPES)
        assert str(caught.value) == f"{path}: {reason}"
