"""The documentation as a site, without building it: its pages, its links, and the check of what is built."""

import re
from pathlib import Path

import pytest

from antiphon.server.endpoints import ENDPOINTS
from scripts import http_reference, site

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "docs"
    site.gather(folder)
    return folder


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """As code hosts make them, and the slugs of mkdocs.yml."""
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(without_code(text))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    """The links of a page that lead to no file, or to no heading of it."""
    wrong = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        if ":" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            wrong.append(link)
    return wrong


def test_every_page_is_in_the_navigation_once(pages: Path) -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (?:[\w ]+: )?(\S+\.md)$", text.partition("nav:")[2], re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(pages)) for page in pages.rglob("*.md"))


def test_every_link_of_the_site_leads_to_a_page_and_its_heading(pages: Path) -> None:
    wrong = {str(page.relative_to(pages)): broken(page) for page in pages.rglob("*.md")}
    assert {page: links for page, links in wrong.items() if links} == {}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_link_of_the_root_leads_somewhere(page: str) -> None:
    assert broken(ROOT / page) == []


def test_the_reference_of_http_has_every_operation_and_object() -> None:
    text = http_reference.page()
    headings = HEADING.findall(text)
    assert {f"`{each.at}`".replace("...", "") for each in ENDPOINTS if each.id} <= set(headings)
    for name in re.findall(r"\]\(#(\w+)\)", text):
        assert name in anchors(text)
    request = text.partition("\n### Request\n")[2].partition("\n### ")[0]
    assert "| `temperature` (optional) | number or null | Sampling temperature" in request


def test_what_is_built_is_checked(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    (folder / "assets" / "javascripts").mkdir(parents=True)
    (folder / "sub").mkdir()
    (folder / "index.html").write_text(
        '<a href="sub/other.html#here">1</a><a href="https://example.com">2</a>'
    )
    (folder / "sub" / "other.html").write_text(
        '<h2 id="here">H</h2><script src="https://unpkg.com/iframe-worker/shim"></script>'
        '<a href="../index.html#nowhere">3</a><a href="missing.html">4</a><img src="https://example.com/a.png">'
    )
    site.keep_local(folder)
    assert 'src="../assets/javascripts/frame_worker.js"' in (folder / "sub" / "other.html").read_text()
    assert sorted(site.mistakes(folder)) == [
        "sub/other.html fetches https://example.com/a.png",
        "sub/other.html links to ../index.html#nowhere, which is not there",
        "sub/other.html links to missing.html, which is not there",
    ]
