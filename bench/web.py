"""The web app in chromium: ten thousand deltas, and how long they keep the page from answering."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from antiphon.server.routes.web import is_built
from bench.contenders import folder
from bench.figures import Recorder
from bench.options import Options
from bench.processes import Program, free_port

ROUNDS = 3
DELTAS = 10_000
_WORDS = r"Ten words. \n\n- and this \n\n"  # a paragraph and a list: two blocks for each 25 characters
_CONFIG = """
default_model = "demo/flood"
[providers.demo]
type = "script"
file = "script.toml"
[local]
enabled = false
[server]
discover = false
[store]
path = "{data}"
"""
_SCRIPT = f'[[turns]]\nsteps = [{{ text = "{_WORDS}", chunk = 10, times = {DELTAS * 10 // 25} }}]\n'
_WATCH = """
window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries()))
  .observe({ type: "longtask", buffered: true });
"""
_LONGEST = "(asked) => Math.max(0, ...window.tasks.filter((t) => t.startTime > asked).map((t) => t.duration))"


def run(record: Recorder, options: Options) -> None:
    chromium = shutil.which("chromium")
    if chromium is None or not is_built():
        print("chromium or the built web app is missing (scripts/browser, make web)")
        return
    longest, seconds, size = [], [], 0
    with folder() as where, _gateway(where) as program, sync_playwright() as playwright:
        program.wait_until_up("/healthz")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(ROUNDS):
            page = browser.new_page()
            page.add_init_script(_WATCH)
            page.goto(f"http://127.0.0.1:{program.port}")
            page.get_by_role("main").wait_for()
            asked = float(page.evaluate("performance.now()"))
            seconds.append(_answered(page))
            longest.append(float(page.evaluate(_LONGEST, asked)))
            size = int(page.evaluate("document.querySelector('.prose').innerText.length"))
            page.close()
        browser.close()
    task = record.add(f"longest task of the page, {DELTAS:,} deltas", longest, "ms")
    whole = record.add(f"from the question to the end, {DELTAS:,} deltas", seconds, "s")
    print(f"longest task {task} ms, the whole answer {whole} s, {size:,} characters")


def _gateway(where: Path) -> Program:
    (where / "script.toml").write_text(_SCRIPT)
    config = where / "antiphon.toml"
    config.write_text(_CONFIG.format(data=where / "data"))
    port = free_port()
    command = [sys.executable, "-m", "antiphon", "serve", "--config", str(config), "--port", str(port)]
    return Program("gateway", command, port, log=where / "output.log")


def _answered(page: Page) -> float:
    """Seconds from the question to the footer of its answer, by the page's own clock."""
    field = page.get_by_role("textbox", name="Message")
    field.fill("Begin.")
    began = page.evaluate("performance.now()")
    field.press("Enter")
    page.get_by_role("button", name="Answer again").wait_for(timeout=120_000)
    page.wait_for_function("document.querySelector('.prose') !== null")
    return float(page.evaluate("performance.now()") - began) / 1000
