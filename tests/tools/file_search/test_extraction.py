"""Reading files in a child process: what comes out, and that no file holds the gateway up."""

import asyncio
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest

from antiphon.tools.file_search.extraction import Extractor, Unreadable
from tests.tools.file_search.documents import docx, pdf

READER = 20.0, 100_000


async def read(tmp_path: Path, name: str, content: bytes, seconds: float = 20.0, limit: int = 100_000) -> str:
    path = tmp_path / "content"
    path.write_bytes(content)
    return await Extractor(seconds, limit).text(path, name)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.txt", "wörds\n".encode(), "wörds\n"),
        ("a.txt", "wörds".encode("utf-16"), "wörds"),
        ("noname", b"\xef\xbb\xbfwith a mark", "with a mark"),
        ("a.py", b"print(1)", "print(1)"),
        (
            "a.html",
            b"<html><head><title>T</title><style>p{}</style></head><body><p>One &amp; <b>two</b></p><p>Three",
            "T\nOne & two\nThree",
        ),
        ("a.docx", docx("One\nTwo", ("a", "b"), ("c", "d")), "One\nTwo\na | b\nc | d\n"),
    ],
    ids=["utf-8", "utf-16", "mark", "code", "html", "docx"],
)
async def test_the_text_of_a_file(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    assert await read(tmp_path, name, content) == text


async def test_the_pages_of_a_pdf(tmp_path: Path) -> None:
    text = await read(tmp_path, "whatever", pdf("First (page)\nSecond page"))
    assert text.split("\n\n")[:2] == ["First (page)", "Second page"]


def archive(**files: bytes) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return out.getvalue()


BROKEN: dict[str, tuple[str, bytes, str, str]] = {
    "image": ("a.png", b"\x89PNG\r\n\x1a\n\0\0", "unsupported_file", "no text"),
    "latin": ("a.txt", b"latin \xe4", "unsupported_file", "UTF-8"),
    "empty": ("a.txt", b"", "invalid_file", "no text in it"),
    "long": ("a.txt", b"x" * 100_001, "invalid_file", "more than 100,000 bytes"),
    "pdf": ("a.pdf", b"%PDF-1.7\n" + b"\0" * 100, "invalid_file", "could not be read"),
    "scan": ("a.pdf", pdf(""), "invalid_file", "no text in it"),
    "zip": ("a.docx", archive(readme=b"x"), "unsupported_file", "no DOCX"),
    "docx": ("a.docx", archive(**{"word/document.xml": b"<a/>"}), "invalid_file", "could not be read"),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_file_that_cannot_be_read(tmp_path: Path, kind: str) -> None:
    name, content, code, words = BROKEN[kind]
    with pytest.raises(Unreadable, match=words) as refused:
        await read(tmp_path, name, content)
    assert refused.value.code == code


async def test_an_archive_that_is_large_unpacked_is_not_unpacked(tmp_path: Path) -> None:
    """It says that it has 2 GB."""
    made = bytearray(archive(**{"word/document.xml": b"<a/>"}))
    listed = made.index(b"PK\x01\x02")
    made[listed + 24 : listed + 28] = (2**31 - 1).to_bytes(4, "little")
    with pytest.raises(Unreadable, match="too large unpacked"):
        await read(tmp_path, "a.docx", bytes(made))


async def test_a_pdf_that_takes_too_long_ends(tmp_path: Path) -> None:
    """Its only page says a word a million times, in a stream that is small."""
    packed = zlib.compress(b"BT /F1 12 Tf " + b"(x) Tj 0 0 Td " * 1_000_000 + b"ET", 9)
    plain = b"<< /Length 32 >>\nstream\nBT /F1 12 Tf 72 720 Td (x) Tj ET\nendstream"
    stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(packed), packed)
    content = pdf("x")
    assert plain in content
    with pytest.raises(Unreadable, match=r"could not|took more|memory"):
        await read(tmp_path, "a.pdf", content.replace(plain, stream), seconds=1)


async def test_a_reader_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "content"
    path.write_bytes(b"text")
    reading = asyncio.ensure_future(Extractor(*READER).text(path, "a.txt"))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
