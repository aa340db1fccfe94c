"""What every test of connections watches."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def nothing_alarming(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that a client does is an error of the server."""
    yield
    assert [record for record in caplog.get_records("call") if record.levelno >= logging.WARNING] == []
