"""The documentation as a site that needs no network: `make docs`.

The pages of `docs/`, the changelog and the reference of HTTP go to `build/docs`; the generator of `.docs`
makes `build/site` of them; and what came out is checked: every link leads somewhere, nothing is fetched.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from scripts import http_reference

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
_GENERATOR = ROOT / ".docs" / "bin" / "zensical"
_FRAME_WORKER = Path(__file__).parent / "frame_worker.js"
_SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the generator has its pages fetch, so that the search works in pages that no server serves."""
_FETCHED = frozenset({"script", "img", "iframe", "source", "video", "audio"})


def main() -> int:
    gather(PAGES)
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run([_GENERATOR, "build", "--strict", "--clean"], cwd=ROOT)
    if done.returncode:
        return done.returncode
    keep_local(SITE)
    wrong = [*mistakes(SITE)]
    for mistake in wrong:
        print(f"docs: {mistake}", file=sys.stderr)
    if not wrong:
        print(f"docs: {len([*SITE.rglob('*.html')])} pages, every link checked: {SITE / 'index.html'}")
    return 1 if wrong else 0


def gather(pages: Path) -> None:
    """All pages in one folder, those that are written by hand and those that are made."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        (pages / name.lower()).write_text(_moved(text), encoding="utf-8")
    (pages / "http-reference.md").write_text(http_reference.page(), encoding="utf-8")


def _moved(text: str) -> str:
    """The links of a page of the root, as they are in `docs/`."""
    return re.sub(r"\]\(([^):#]+)", lambda link: f"]({_in_docs(link[1])}", text)


def _in_docs(target: str) -> str:
    return target.removeprefix("docs/") if target.startswith("docs/") else target.lower()


def keep_local(site: Path) -> None:
    """Replaces the one script that pages would fetch from a server by a file of the site."""
    own = site / "assets" / "javascripts" / _FRAME_WORKER.name
    shutil.copy(_FRAME_WORKER, own)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(_SHIM, os.path.relpath(own, page.parent)), encoding="utf-8")


class _Links(HTMLParser):
    """What a page links to, what it fetches, and the places in it that can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _FETCHED and "src" in given:
            self.fetched.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.fetched.append(given.get("href", ""))


@cache
def _read(page: Path) -> _Links:
    found = _Links()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def mistakes(site: Path) -> Iterator[str]:
    """Links of a built site that lead nowhere, and what its pages would fetch from elsewhere."""
    for page in sorted(site.rglob("*.html")):
        if page.name == "404.html":  # its links begin at the root of whatever server shows it
            continue
        found = _read(page)
        for target in found.fetched:
            if urlsplit(target).scheme not in ("", "data") or urlsplit(target).netloc:
                yield f"{page.relative_to(site)} fetches {target}"
        for link in {*found.links, *found.fetched}:
            if not _leads_somewhere(page, link):
                yield f"{page.relative_to(site)} links to {link}, which is not there"


def _leads_somewhere(page: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if file.is_dir():
        file /= "index.html"
    if not file.is_file():
        return False
    return not parts.fragment or file.suffix != ".html" or unquote(parts.fragment) in _read(file).anchors


if __name__ == "__main__":
    sys.exit(main())
