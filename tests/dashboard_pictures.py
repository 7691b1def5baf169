"""Take the pictures of the dashboard for README.md, light and dark, from a living crawl.

python tests/dashboard_pictures.py [DIRECTORY]   (or `make pictures`; docs/ if none is given)

It runs examples/crawler.py, looks at the fourth crawl for some seconds, and then takes each page.
It needs Chromium (`apt-get install chromium`). Tests do not run it: pictures differ each time.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
RATE = "12"  # pages a second: slow enough that the last crawl takes half a minute
WIDTH, HEIGHT = 1200, 640
LOOK_S = 6.0  # rates and lines begin when somebody looks
COLOURS = 96
MOST_BYTES = 150_000

PAGES = {"next": "q/{}/next", "limits": "q/{}/limits", "queue": "q/{}", "overview": ""}


def main(directory: Path) -> None:
    """Crawl, look, and take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        sys.exit("there is no Chromium: apt-get install chromium")
    command = [sys.executable, str(ROOT / "examples" / "crawler.py"), "--rate", RATE]
    crawl = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}
    )
    try:
        url = wait_for(crawl, r"Dashboard while this runs: (http://\S+/)")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            watching, light, dark = (
                browser.new_page(
                    viewport={"width": WIDTH, "height": HEIGHT},
                    color_scheme=scheme,  # type: ignore[arg-type]
                )
                for scheme in ("light", "light", "dark")
            )
            wait_for(crawl, r"^(4 of 4)")
            wait_for(crawl, r"done ([1-9]\d)/")
            watching.goto(url)
            name = str(watching.locator("[data-row]").first.text_content())
            watching.wait_for_timeout(LOOK_S * 1000)
            for named, path in PAGES.items():
                for scheme, page in (("light", light), ("dark", dark)):
                    page.goto(url + path.format(name))
                    save(page, directory / f"dashboard-{named}-{scheme}.png")
            browser.close()
    finally:
        crawl.terminate()
        crawl.communicate()


def wait_for(crawl: "subprocess.Popen[str]", pattern: str) -> str:
    """Read what the crawl says until a line has a pattern; return its group."""
    assert crawl.stdout
    for line in crawl.stdout:
        if found := re.search(pattern, line):
            return found[1]
    sys.exit("the crawl ended early")


def save(page: Page, path: Path) -> None:
    """Save a page with few colours: a small file."""
    foot = page.evaluate("document.querySelector('footer').getBoundingClientRect().bottom")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": min(HEIGHT, foot)}
    page.screenshot(path=path, clip=clip)  # type: ignore[arg-type]
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {size} bytes")
    if size > MOST_BYTES:
        sys.exit(f"{path} has {size} bytes: at most {MOST_BYTES} may be in the repository")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
