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
from kit.web import furnish
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support import wait_for

from dpq import DPQ, Push
from dpq.web import Access, app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium: apt-get install chromium")

PATIENCE_MS = 60_000

CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => {
      c /= 255;
      return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("main *, header *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.checkVisibility() || node.tagName === "OPTION") continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${node.tagName} ${node.textContent.trim()} ${ratio.toFixed(2)}`);
  }
  return poor;
}"""
"""Texts whose contrast is below what WCAG 2 asks for (AA)."""

UNNAMED = """() => [
  ...document.querySelectorAll("input:not([type=hidden]), select, button, a, meter"),
]
  .filter((n) => n.checkVisibility() && !(n.getAttribute("aria-label") || n.title
    || n.textContent.trim() || (n.labels && [...n.labels].some((l) => l.textContent.trim()))))
  .map((n) => n.outerHTML)"""
"""Fields, links and buttons without a name for those who do not see them."""


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
    monkeypatch.setattr("dpq.web.site.STORY_SECONDS", 0.1)


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


def look_at(chromium: Browser, served: Served, q: DPQ, scheme: Any, width: int) -> None:
    """No page is wider than its window, complains in the console, or has poor contrast or names."""
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
        "/workers",
        "/events",
    ]
    every = ["", "/workers", "/events", "/recurring", "/server", "/api"]
    urls = [*(served.url + p for p in every), *(base + p for p in pages)]
    urls += [f"{base}/tasks?recurring=1", f"{base}/tasks/{q.peek(1)[0].id}"]
    for url in urls:
        page.goto(url)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, url
        assert page.evaluate(CONTRAST) == [], url
        assert page.evaluate(UNNAMED) == [], url
    assert faults == []
    context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360), ("light", 360)])
def test_every_page(chromium: Browser, served: Served, live: DPQ, scheme: Any, width: int) -> None:
    """On a wide screen and on a phone, in the light and in the dark."""
    look_at(chromium, served, live, scheme, width)


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
