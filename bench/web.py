"""The web app in chromium: ten thousand deltas, and how long they keep the page from answering."""

import shutil
from typing import Any

import msgspec
from playwright.sync_api import Page, expect, sync_playwright

from antiphon.server.routes.web import is_built
from bench import flood
from bench.contenders import folder
from bench.figures import Recorder
from bench.options import Options

ROUNDS = 3


def run(record: Recorder, options: Options) -> None:
    chromium = shutil.which("chromium")
    if chromium is None or not is_built():
        print("chromium or the built web app is missing (scripts/packages, make web)")
        return
    longest, work, seconds = [], [], []
    with folder() as where, flood.gateway(where) as program, sync_playwright() as playwright:
        program.wait_until_up("/healthz")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(ROUNDS):
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{program.port}")
            page.get_by_role("main").wait_for()
            browser.start_tracing(page=page, categories=["toplevel"])
            seconds.append(_answered(page))
            on_the_clock, at_work = _longest(browser.stop_tracing())
            longest.append(on_the_clock)
            work.append(at_work)
            _check(page)
            page.close()
        browser.close()
    task = record.add(f"longest task of the page, {flood.DELTAS:,} deltas", longest, "ms")
    cpu = record.add("CPU time of the task that took most of it", work, "ms")
    whole = record.add(f"from the question to the end, {flood.DELTAS:,} deltas", seconds, "s")
    print(f"longest task {task} ms, CPU {cpu} ms, the whole answer {whole} s")


class _Event(msgspec.Struct):
    """One entry of chromium's trace; times are in microseconds, of threads that ran and of the clock."""

    name: str = ""
    pid: int = 0
    tid: int = 0
    dur: float = 0
    tdur: float = 0
    args: dict[str, Any] = {}


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents")


def _longest(trace: bytes) -> tuple[float, float]:
    """Milliseconds of the longest task of any page's main thread: on the clock, and of CPU time."""
    events = msgspec.json.decode(trace, type=_Trace).events
    main = {
        (one.pid, one.tid)
        for one in events
        if one.name == "thread_name" and one.args.get("name") == "CrRendererMain"
    }
    tasks = [
        one for one in events if one.name == "ThreadControllerImpl::RunTask" and (one.pid, one.tid) in main
    ]
    return max(one.dur for one in tasks) / 1000, max(one.tdur for one in tasks) / 1000


def _answered(page: Page) -> float:
    """Seconds from the question to the footer of its answer, by the page's own clock."""
    field = page.get_by_role("textbox", name="Message")
    field.fill("Begin.")
    began = page.evaluate("performance.now()")
    field.press("Enter")
    page.get_by_role("button", name="Retry").wait_for(timeout=120_000)
    page.wait_for_function("document.querySelector('.prose') !== null")
    return float(page.evaluate("performance.now()") - began) / 1000


def _check(page: Page) -> None:
    """Nothing is missing: every verse is on the page, and the last words are where the reader is."""
    shown = str(page.evaluate("document.querySelector('.prose').textContent"))
    for n in range(1, flood.verses() + 1):
        assert f"the second voice of {n}" in shown, f"verse {n} was not drawn"
    expect(page.get_by_text(flood.LAST_WORDS)).to_be_in_viewport()
