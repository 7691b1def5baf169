"""A Scrapy spider that follows all links, and writes down each page that its callback has seen.

python scrapy_spider.py START_URL FILE SETTINGS: the settings are JSON.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class Tree(scrapy.Spider):
    name = "tree"
    start_urls = [sys.argv[1]]  # noqa: RUF012 - as Scrapy has it

    def parse(self, response: Any) -> Iterator[Any]:
        yield from response.follow_all(css="a")
        with open(sys.argv[2], "a", encoding="utf-8") as pages:
            print(response.url.rpartition("/")[2], file=pages)


process = CrawlerProcess(json.loads(sys.argv[3]))
process.crawl(Tree)
process.start()
