"""Scrapy: AutoThrottle above a fixed delay, retries after a 429, and a JOBDIR that outlives it."""

from asking import AT_ONCE, FOLDER, HOST, SHARE, WHAT, filled, mine
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

FOR_EVER = 10_000  # retries


class Asks(Spider):
    """Asks the host for its half of the requests."""

    name = "asks"

    async def start(self):
        for number in mine:
            yield Request(f"{HOST}/ask/{number}", callback=self.parse)

    def parse(self, response):
        return None


if WHAT == "fill":
    filled()
else:
    settings = {
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 1 / SHARE,
        "AUTOTHROTTLE_TARGET_CONCURRENCY": AT_ONCE,
        "DOWNLOAD_DELAY": 1 / SHARE,
        "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
        "RETRY_TIMES": FOR_EVER,
        "RETRY_HTTP_CODES": [429],
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "JOBDIR": f"{FOLDER}/job{WHAT}",
        "LOG_LEVEL": "ERROR",
    }
    process = CrawlerProcess(settings)
    process.crawl(Asks)
    process.start()
