"""Pages as text: by the standard library, and by a child process that outlives a page that hangs it."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.tools.base import ToolFailure
from antiphon.tools.web_search.page_reader import decode, read_plainly
from antiphon.tools.web_search.pages import PageReader, PageReaders
from tests.tools.search_servers import ARTICLE


def test_a_page_without_what_is_around_its_words() -> None:
    title, text = read_plainly(ARTICLE)
    assert title == "The old & the new bridge"
    assert text.startswith("The bridge\n\nThe bridge was opened in 1894")
    assert "Home" not in text
    assert "alert" not in text


def test_tables_and_lines_are_kept_apart() -> None:
    page = "<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>a<br>b<p>c</p>"
    assert read_plainly(page)[1].split() == ["1", "2", "3", "a", "b", "c"]


@given(st.text() | st.text(alphabet="<>/pdivscrt!-& \n").map(lambda text: text * 3))
def test_whatever_a_page_is_it_is_read(page: str) -> None:
    title, text = read_plainly(page)
    assert len(title) + len(text) <= len(page) * 8 + 8


@pytest.mark.parametrize(
    ("page", "charset"),
    [
        ("schön".encode(), ""),
        ("schön".encode("latin-1"), "iso-8859-1"),
        (b"<meta charset='latin-1'>" + "schön".encode("latin-1"), ""),
        ("schön".encode(), "no-such-charset"),
    ],
)
def test_the_characters_of_a_page(page: bytes, charset: str) -> None:
    assert decode(page, charset).endswith("schön")


async def test_the_child_reads_many_pages_and_ends_with_the_reader() -> None:
    reader = PageReader()
    try:
        both = [reader.read(ARTICLE.encode(), is_html=True, charset="") for _ in range(2)]
        (title, text), again = await asyncio.gather(*both)
        child = reader._child
        assert child is not None
        plain = await reader.read(b"<b>words</b>", is_html=False, charset="utf-8")
        assert reader._child is child
    finally:
        await reader.close()
    assert (title, text) == again
    assert "244 metres" in text
    assert plain == ("", "<b>words</b>")
    assert child.returncode is not None


async def test_a_child_that_dies_or_hangs_is_replaced() -> None:
    reader = PageReader()
    try:
        await reader.read(b"words", is_html=False, charset="")
        child = reader._child
        assert child is not None
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(b"words", is_html=False, charset="")
        assert child.returncode is not None
        await reader.read(b"words", is_html=False, charset="")
        last = reader._child
        assert last is not None
        os.kill(last.pid, signal.SIGSTOP)
        reading = asyncio.ensure_future(reader.read(b"words", is_html=False, charset=""))
        await asyncio.sleep(0)
        os.kill(last.pid, signal.SIGKILL)
        with pytest.raises(ToolFailure):
            await reading
        assert await reader.read(b"words", is_html=False, charset="") == ("", "words")
    finally:
        await reader.close()


async def test_pages_are_read_without_trafilatura(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trafilatura.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    reader = PageReader()
    try:
        read = await reader.read(ARTICLE.encode(), is_html=True, charset="")
    finally:
        await reader.close()
    assert read == read_plainly(ARTICLE)


SLOW_READER = """
import pathlib, time
def extract(page, include_comments):
    while "slow" in page and not pathlib.Path({go!r}).exists():
        time.sleep(0.01)
    return "read"
"""


async def test_pages_that_are_slow_to_read_make_no_other_tenant_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    (tmp_path / "trafilatura.py").write_text(SLOW_READER.format(go=str(go)), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    readers = PageReaders()
    try:
        slow = [
            asyncio.ensure_future(readers.read(b"<p>slow</p>", "alice", is_html=True, charset=""))
            for _ in range(4)
        ]
        assert await readers.read(b"<p>fast</p>", "bob", is_html=True, charset="") == ("", "read")
        assert not any(one.done() for one in slow)
        go.touch()
        assert await asyncio.gather(*slow) == [("", "read")] * 4
    finally:
        await readers.close()
