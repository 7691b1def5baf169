"""The pages in a real Chromium: keys, phones, the dark, units that count, a server that goes away.

Skipped where there is no Chromium: `apt-get install chromium`.
"""

import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn
from hypothesis import settings
from kit.web import furnish
from playwright.sync_api import Browser, Page, expect, sync_playwright
from redis import Redis
from support import wait_for

from dpq import DPQ, Push, RateLimit, TaskState
from dpq.server import Server
from dpq.testing import Clock
from dpq.transport.session import Session
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


SPILLS = """() => {
  const spills = [];
  for (const box of document.querySelectorAll("main .scroll, main .card")) {
    if (box.scrollWidth > box.clientWidth + 1) spills.push(`cut: ${box.id} ${box.className}`);
  }
  for (const cell of document.querySelectorAll("main td, main dd, main .gauge")) {
    const end = cell.getBoundingClientRect().right + 1;
    for (const part of cell.querySelectorAll("*")) {
      if (part.closest("svg, .payload, .key") || part.querySelector(".payload")) continue;
      const range = document.createRange();
      range.selectNodeContents(part);
      const wide = Math.max(0, ...[...range.getClientRects()].map((rect) => rect.right));
      if (wide > end) spills.push(`over its edge: ${part.textContent.trim()}`);
    }
  }
  const heads = [...document.querySelectorAll(".limits thead tr")].map((row) =>
    [...row.children].map((th) => Math.round(th.getBoundingClientRect().left)).join());
  if (new Set(heads).size > 1) spills.push(`columns differ: ${heads.join(" and ")}`);
  return spills;
}"""
"""Tables that are cut or scroll, texts over the edge of their cell, columns that do not align."""

LONG = (
    "https://api.a-very-long-hostname.example-corporation.internal:8443/v2/accounts/1234567/items"
)


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
    monkeypatch.setattr("dpq.web.site.STORY_SHARE", 0)


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
        "/limit/change?group=a&rate.0=5/s",
        "/dead",
        "/workers",
        "/events",
    ]
    every = ["", "/workers", "/events", "/recurring", "/server", "/api"]
    urls = [*(served.url + p for p in every), *(base + p for p in pages)]
    urls += [f"{base}/recurring", f"{base}/tasks/{q.peek(1)[0].id}"]
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


def test_long_names(chromium: Browser, live: DPQ) -> None:
    """Long names, keys, reasons and payloads wrap at each width; no table scrolls, none is cut."""
    live.set_limit([RateLimit(5, 1), RateLimit(90_000, 60, unit="tokens")], group=LONG)
    for n in range(4):
        live.push({"url": LONG * 3}, group=LONG, key=f"{n} {LONG}", max_attempts=1)
    live.fail(live.pop().task, f"ReadTimeout: {LONG}?{'y' * 150}")
    live.delay_group(LONG, 3600)
    live.delay_group(f"by-hand.{LONG}", 3600)
    zone = "America/Argentina/Buenos_Aires"
    live.push({"report": LONG}, group=LONG, key=LONG, cron="30 6 1 */3 *", timezone=zone)
    held = DPQ[Any](live.redis, f"{live.queue_name}-customer-notifications-eu-west-1-production")
    held.push(1)
    held.pause(5000)
    base, served = f"/q/{live.queue_name}", Served(app([live, held], access=Access(write=True)))
    pages = ["", "/events", "/recurring", base, f"{base}/tasks?state=waiting", f"{base}/dead"]
    pages += [f"{base}/tasks?state=dead", f"{base}/tasks?state=all&text=api", f"{base}/recurring"]
    pages += [f"{base}/{each}" for each in ("next", "limits", "workers", "events")]
    pages += [f"{base}/limit?group={quote(LONG, safe='')}"]
    page, found = chromium.new_page(), []
    for url in pages:
        page.goto(served.url + url)
        for width in (360, 1000, 1280, 1440):
            page.set_viewport_size({"width": width, "height": 800})
            found += [f"{url} at {width}: {each}" for each in page.evaluate(SPILLS)]
    page.close()
    served.close()
    assert found == []


def test_every_page_of_a_million_tasks(chromium: Browser, served: Served, live: DPQ) -> None:
    """They show, and say how many there are."""
    if settings.get_current_profile_name() != "soak":
        pytest.skip("make test-all")
    live.push_many(
        Push({"url": f"https://host-{n % 10_000}.example/{n}"}, n % 1000, group=f"g{n % 10_000}")
        for n in range(1_000_000)
    )
    look_at(chromium, served, live, "light", 1280)
    look_at(chromium, served, live, "dark", 360)


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


def test_a_search_goes_on_by_itself(
    page: Page, served: Served, live: DPQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on up to its bound, then at a click; it can be stopped; what it finds is listed."""
    monkeypatch.setattr("dpq.web.pages.LOOK_A_PAGE", 100)
    monkeypatch.setattr("dpq.web.pages.LOOK_MOST", 100)
    monkeypatch.setattr("dpq.web.task_pages.GO_ON", 300)
    live.push_many(Push("straw", -1) for _ in range(900))
    wanted = live.push("the one", -2)
    base = f"{served.url}/q/{live.queue_name}"
    page.goto(f"{base}/limits")
    page.locator("[name=find]").fill("the one")
    page.keyboard.press("Enter")
    told, link = page.locator("[data-told]"), page.locator("a[data-bound]")
    expect(told).to_have_text(re.compile("^Looked at 400 of 9"))
    expect(link).to_have_text("Go on")
    held: list[Any] = []
    page.route("**after=*", lambda route, _: held.append(route))
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-stop]")).to_be_focused()
    wait_for(lambda: held, lambda: "no step")
    page.keyboard.press("Enter")
    expect(link).to_be_focused()
    held[0].continue_()
    page.unroute("**after=*")
    expect(told).to_have_text(re.compile("^Looked at 400 of 9"))
    link.click()
    expect(told).to_have_text(re.compile("^Looked at 700 of 9"))
    link.click()
    expect(told).to_have_text(re.compile(r"^Looked at all 9\d\d tasks: 1 found"))
    expect(page.locator("#found [data-row]")).to_have_text(wanted)
    expect(page.locator("#states")).to_contain_text("1 found")
    expect(link).to_have_count(0)
    page.locator("input[data-all]").check()
    expect(page.locator("[data-count]")).to_have_text("1 selected")


def test_groups_are_suggested_while_one_types(page: Page, served: Served, live: DPQ) -> None:
    """The list of the field has groups that begin so."""
    live.push_many(Push(n, group=f"g{n // 3:03}") for n in range(90))
    page.goto(f"{served.url}/q/{live.queue_name}/tasks")
    page.locator("[name=group]").press_sequentially("g02")
    options = page.locator("#groups option")
    expect(options).to_have_count(10)
    expect(options.first).to_have_attribute("value", "g020")


def test_every_action(page: Page, served: Served, live: DPQ) -> None:
    """Each button of each page does what it says, after a question where it removes something."""
    base = f"{served.url}/q/{live.queue_name}"

    def press(*buttons: str, at: str = "", **fields: str) -> None:
        page.goto(f"{base}{at}")
        for button in buttons:
            named = page.locator("button", has_text=re.compile(f"^{button}$"))
            form = page.locator("main form", has=named).first
            for name, value in fields.items():
                form.locator(f"[name='{name}']").fill(value)
            form.locator(named).first.click()
            fields = {}

    def becomes(state: Callable[[], Any], wanted: Any) -> None:
        wait_for(lambda: state() == wanted, state)

    def state_of(id_: str) -> Any:
        return next((s.value for s in TaskState for t in live.peek(100, s) if t.id == id_), None)

    press("Pause")
    expect(page.locator("main")).to_contain_text("it is paused until")
    press("Resume")
    expect(page.locator("main")).not_to_contain_text("it is paused until")
    fields = {"rate.0": "7/s", "concurrency": "3"}
    press("Look at the change", "Set it", at="/limit?group=n", **fields)
    becomes(lambda: [each.rate for each in live.group("n").windows], [7])
    press("Close", at="/limit?group=n", seconds="600")
    becomes(lambda: live.group("n").reason, "closed by hand")
    press("Open", at="/limit?group=n")
    becomes(lambda: live.group("n").open, True)
    page.goto(f"{base}/limit?group=n")
    page.get_by_text("Remove the limit").click()
    page.get_by_text("Remove it").click()
    becomes(lambda: live.group("n").default, True)
    late = live.push("late", delay=600)
    press("Run now", at=f"/tasks/{late}")
    becomes(lambda: state_of(late), "ready")
    press("Set priority", at=f"/tasks/{late}", priority="4611686018427387904")
    becomes(lambda: live.get(late).priority, 2**62)
    live.pop()
    press("Bury", "Bury", at=f"/tasks/{late}")
    becomes(lambda: state_of(late), "dead")
    press("Replay", at=f"/tasks/{late}")
    becomes(lambda: state_of(late), "ready")
    press("Cancel", "Cancel the tasks", at=f"/tasks/{late}")
    becomes(lambda: state_of(late), None)
    gone = live.dead.list()[0].id
    press("Remove", "Remove", at=f"/tasks/{gone}")
    becomes(lambda: state_of(gone), None)
    page.goto(f"{base}/tasks?state=delayed")
    page.locator("[name=all]").check()
    page.locator("button[value=cancel]").click()
    page.locator("main [name=name]").fill(live.queue_name)
    page.locator("#job button.bad").click()
    expect(page.locator("#job")).to_contain_text("Done:")
    assert live.stats().delayed == 0
    page.goto(f"{served.url}/server")
    page.locator("main button", has_text="Check").first.click()
    expect(page.locator("main")).to_contain_text("no problems")


def test_over_plain_http_from_another_machine(page: Page, live: DPQ) -> None:
    """One logs in and acts, though a browser says `Origin` alone there."""
    token = "0123456789abcdef0123456789abcdef"  # noqa: S105 - for tests
    live.push("x")
    site = Served(app([live], access=Access(write=True, token=token, hosts=("queues.test",))))
    page.goto(f"http://queues.test:{site.port}/q/{live.queue_name}")
    page.fill("input[name=token]", token)
    with page.expect_request("**/login") as sent:
        page.click("main button")
    assert "sec-fetch-site" not in sent.value.all_headers()
    page.goto(f"http://queues.test:{site.port}/q/{live.queue_name}")
    page.click("text=Pause >> nth=0")
    expect(page.locator("main")).to_contain_text("paused")
    site.close()
    assert live.pop().task is None


def test_units_and_times_count_in_the_browser(page: Page, served: Served, live: DPQ) -> None:
    """Units left grow at the limit's pace and times fall, between two readings of the server."""
    page.goto(f"{served.url}/q/{live.queue_name}/limits?way=closed")
    opens = page.locator("#groups time").first
    expect(opens).to_have_text(re.compile("^in "))
    first = opens.text_content()
    expect(opens).not_to_have_text(str(first))
    live.set_limit(2, 1, burst=1000, group="n")
    live.push("x", 2**62, group="n", cost=1000)
    live.pop()
    page.goto(f"{served.url}/q/{live.queue_name}/limit?group=n")
    page.route("**/*", lambda route: route.abort())  # the server says no more
    left = page.locator(".gauge .left")
    before = float(str(left.text_content()))
    assert before < 900
    wait_for(lambda: float(str(left.text_content())) > before, lambda: left.text_content())


def test_a_running_clock_in_one_zone(chromium: Browser, served: Served, live: DPQ) -> None:
    """A page says when a task is due, in UTC whatever the zone of the reader, and counts down."""
    id_ = live.push("x", delay=5000)
    context = chromium.new_context(timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"{served.url}/q/{live.queue_name}/tasks/{id_}")
    due = live.get(id_).visible_until
    assert due
    lead = page.locator(".lead time")
    expect(lead).to_have_text(re.compile(rf"{due:%H:%M} UTC, in 1 h 2\d m$"))
    expect(lead).to_have_attribute("title", re.compile(rf"^{due:%Y-%m-%d %H:%M:%S} UTC; .*GMT"))
    page.route("**/*", lambda route: route.abort())  # the server says no more
    age = page.locator("#life li time")
    first = age.text_content()
    expect(age).to_have_text(re.compile(r"UTC, \d+(\.\d)? s ago$"))
    expect(age).not_to_have_text(str(first))
    context.close()


TURNS = """() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    if (!walk.currentNode.data.includes("\u202e")) continue;
    const node = walk.currentNode.parentElement;
    if (node.checkVisibility() && !getComputedStyle(node).unicodeBidi.includes("isolate")) {
      found.push(node.outerHTML);
    }
  }
  return found;
}"""
"""Elements that let a text turn the direction of what stands beside them."""


def test_charts_by_the_arrow_keys(chromium: Browser, q: DPQ, clock: Clock) -> None:
    """On a phone in the dark: the charts fit, have contrast, and say their values by keys; what is
    pointed at stays so when the page is read again."""
    for n in range(4):
        q.push_many(Push(n) for _ in range(6 * n))
        q._session.run(q._session.operations.remember)
        clock.advance(60)
    served = Served(app(q))
    context = chromium.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{served.url}/q/{q.queue_name}")
    page.locator("nav[aria-label='Length of the history'] a", has_text="24 h").focus()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(CONTRAST) == []
    chart = page.locator("[data-chart]").first
    chart.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    said = re.compile(r"^(\d{4}-\d\d-\d\d )?\d\d:\d\d UTC: in 0\.[1-3]\d*/s, out 0/s$")
    expect(chart.locator("output")).to_have_text(said)
    first = str(chart.locator("output").text_content())
    chart.evaluate("chart => chart.classList.add('old')")
    clock.advance(60)
    q.push("x")
    q._session.run(q._session.operations.remember)
    expect(page.locator("[data-chart].old")).to_have_count(0)
    expect(chart).to_be_focused()
    minute = first.partition(" UTC")[0]
    expect(chart.locator("output")).to_have_text(re.compile(minute))  # still the same one
    page.keyboard.press("ArrowLeft")
    expect(chart.locator("output")).not_to_have_text(re.compile(minute))
    chart.locator("svg").hover(position={"x": 5, "y": 5})
    expect(chart.locator("output")).to_contain_text("in –")  # noqa: RUF001
    context.close()
    served.close()


def test_a_page_follows_its_queue(page: Page, served: Served, live: DPQ) -> None:
    """New tasks show by themselves, and what somebody is typing stays."""
    page.goto(f"{served.url}/q/{live.queue_name}")
    tile = page.locator(".tile", has_text="delayed").locator("b")
    before = int(str(tile.text_content()))
    page.locator("input[name=seconds]").fill("17")
    live.push("x", delay=60)
    expect(tile).to_have_text(str(before + 1))
    assert page.locator("input[name=seconds]").input_value() == "17"


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


def test_the_queues_server_goes_away_and_comes_back(
    page: Page, server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of a server that is not there says what to do, and shows the queue when it is."""
    client = Redis.from_url(server.url)
    with DPQ(client, queue_name) as q:
        q.push("x")
        send_all, away = Session.send_all, threading.Event()

        def perhaps(*args: Any, **named: Any) -> Any:
            if away.is_set():
                raise ConnectionError("refused")
            return send_all(*args, **named)

        monkeypatch.setattr(Session, "send_all", perhaps)
        served = Served(app(q))
        away.set()
        page.goto(f"{served.url}/q/{queue_name}")
        expect(page.locator("main")).to_contain_text("The server does not answer")
        away.clear()
        expect(page.locator(".tile").first).to_be_visible()
        away.set()
        expect(page.locator("#away")).to_contain_text("does not answer")
        away.clear()
        expect(page.locator("#away")).to_be_hidden()
        served.close()
        q.drop()
    client.close()


def test_a_hidden_tab_asks_nothing(page: Page, served: Served, live: DPQ) -> None:
    """A tab that nobody sees stops, and goes on when it is seen."""
    page.goto(f"{served.url}/q/{live.queue_name}")
    asked: list[str] = []
    with page.expect_request("**/q/*"):
        pass
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.unseen, configurable: true});"
        "window.unseen = true"
    )
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(1000)
    assert len(asked) <= 1  # one may have been under way
    page.evaluate("window.unseen = false")
    with page.expect_request("**/q/*"):
        pass
