"""The pages in a real Chromium: keys, phones, the dark, units that count, a server that goes away.

Skipped where there is no Chromium: `apt-get install chromium`.
"""

import shutil
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from kit.web import furnish
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support import wait_for

from dpq import DPQ, Push
from dpq.web import Access, app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium: apt-get install chromium")

PATIENCE_MS = 60_000


class Served:
    """A dashboard on a port of its own."""

    def __init__(self, site: Any, port: int = 0) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = uvicorn.Server(
            uvicorn.Config(site, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        )
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()
        wait_for(lambda: self.server.started, lambda: "not started")

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--host-resolver-rules=MAP queues.test 127.0.0.1",
            ],
        )
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tabs look often, and see what is there now."""
    monkeypatch.setattr("dpq.web.site.EVERY_MS", 200)
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0.1)
    monkeypatch.setattr("dpq.web.pages.STORY_SECONDS", 0.1)


@pytest.fixture
def served(live: DPQ) -> Iterator[Served]:
    furnish(live)
    served = Served(app(live, access=Access(write=True), badge="test"))
    yield served
    served.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield context.new_page()
    context.close()


def look_at(
    chromium: Browser, served: Served, q: DPQ, scheme: Any, width: int
) -> Iterator[tuple[str, Page]]:
    """Open every page: none is wider than its window, or complains in the console."""
    context = chromium.new_context(viewport={"width": width, "height": 740}, color_scheme=scheme)
    page, faults = context.new_page(), []
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    base = f"{served.url}/q/{q.queue_name}"
    pages = [
        "",
        "/tasks",
        "/tasks?state=dead",
        "/limits",
        "/limit?group=a",
        "/limit/change?group=a&windows=5/s",
        "/dead",
        "/batches",
        "/workers",
        "/events",
    ]
    every = ["", "/workers", "/events", "/recurring", "/server", "/api", "/login"]
    urls = [*(served.url + p for p in every), *(base + p for p in pages)]
    urls += [f"{base}/tasks?recurring=1", f"{base}/tasks/{q.peek(1)[0].id}"]
    for url in urls:
        page.goto(url)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, url
        yield url, page
    assert faults == []
    context.close()


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_every_page(chromium: Browser, served: Served, live: DPQ, width: int) -> None:
    """On a phone, a tablet and a wide screen."""
    assert len(list(look_at(chromium, served, live, "light", width))) > 15


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_axe_finds_nothing(
    chromium: Browser, served: Served, live: DPQ, scheme: Any, width: int
) -> None:
    """Contrast, names, landmarks, headings and tables are as axe-core wants them."""
    axe = Axe()
    for url, page in look_at(chromium, served, live, scheme, width):
        found = axe.run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], url


def test_by_keys_alone(page: Page, served: Served, live: DPQ) -> None:
    """Find a queue, go to its tasks, search, select two, remove them: without a mouse."""
    page.goto(served.url)
    keys = page.keyboard
    keys.press("?")
    expect(page.locator("#keys")).to_be_visible()
    keys.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    keys.press("j")
    keys.press("Enter")
    page.wait_for_url(f"**/q/{live.queue_name}")
    keys.press("g")
    keys.press("t")
    page.wait_for_url("**/tasks")
    keys.press("/")
    keys.type("needle")
    keys.press("Enter")
    page.wait_for_url("**text=needle*")
    expect(page.locator("tbody tr")).to_have_count(1)
    keys.press("j")
    keys.press("x")
    expect(page.locator("[data-count]")).to_have_text("1 selected")
    page.locator("button[value=cancel]").focus()
    keys.press("Enter")
    expect(page.locator("h1", has_text="1 task")).to_be_visible()
    expect(page.locator("button[autofocus]")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("main")).to_contain_text("1 done")
    expect(page.locator("a[autofocus]")).to_be_focused()
    keys.press("Enter")
    page.wait_for_url("**text=needle*")
    expect(page.locator("main")).to_contain_text("Nothing found")


def test_a_page_follows_its_queue(page: Page, served: Served, live: DPQ) -> None:
    """New tasks show by themselves, and what somebody is typing stays."""
    page.goto(f"{served.url}/q/{live.queue_name}")
    tile = page.locator(".tile", has_text="delayed").locator("b")
    before = int(str(tile.text_content()))
    page.locator("input[name=seconds]").fill("17")
    live.push("x", delay=60)
    expect(tile).to_have_text(str(before + 1))
    assert page.locator("input[name=seconds]").input_value() == "17"


def test_a_look_keeps_focus_selection_and_scroll(page: Page, served: Served, live: DPQ) -> None:
    """New rows come into a page under the reader's hands: the row, the words and the place stay."""
    live.push_many([Push(n, max_attempts=99) for n in range(60)])
    for task in live.pop_many(60):
        live.fail(task, f"no {task.payload}", delay=600)
    page.set_viewport_size({"width": 1200, "height": 400})
    page.goto(f"{served.url}/q/{live.queue_name}/limits")
    page.locator("#groups a[data-row]").first.focus()
    focused = page.evaluate("document.activeElement.dataset.key")
    page.evaluate("""() => {
      const scroll = document.querySelector("#groups .scroll");
      const sheet = new CSSStyleSheet();
      sheet.replaceSync("#groups .scroll { width: 20rem }");
      document.adoptedStyleSheets = [sheet];
      scroll.scrollLeft = 40;
      getSelection().selectAllChildren(document.querySelector("#groups th"));
    }""")
    before = page.evaluate(
        "[getSelection().toString(), document.querySelector('#groups .scroll').scrollLeft]"
    )
    for name in ("0", "zz"):
        live.push_many([Push(n, group=name) for n in range(9)])
        expect(page.locator("#groups")).to_contain_text(name)
    after = page.evaluate(
        "[getSelection().toString(), document.querySelector('#groups .scroll').scrollLeft]"
    )
    assert before == after
    assert before[0]
    assert before[1]
    assert page.evaluate("document.activeElement.dataset.key") == focused


def test_a_command_is_copied(page: Page, served: Served, live: DPQ) -> None:
    """The button beside an id puts it on the clipboard."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    id_ = live.peek(1)[0].id
    page.goto(f"{served.url}/q/{live.queue_name}/tasks/{id_}")
    page.locator("[data-copy]").first.click()
    expect(page.locator("[data-copy]").first).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == id_


def test_a_server_that_goes_away_and_comes_back(page: Page, live: DPQ, chromium: Browser) -> None:
    """The page says so, keeps what it showed, and goes on by itself when the server is back."""
    furnish(live)
    site = app(live)
    served = Served(site)
    page.goto(f"{served.url}/q/{live.queue_name}")
    bar = page.locator("#away")
    expect(bar).to_be_hidden()
    served.close()
    expect(bar).to_contain_text("does not answer")
    expect(page.locator(".tile").first).to_be_visible()
    again = Served(site, served.port)
    expect(bar).to_be_hidden()
    again.close()
