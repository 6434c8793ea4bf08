"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
BLANK = "about:blank"
PATIENCE = 30_000
"""Milliseconds that a test waits for the page: others may use the machine."""


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise FileNotFoundError("the tests of the page need Chromium: apt-get install chromium (`make test` does so)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield found
        found.close()


class Visit:
    """A page that was opened, with all that it said and asked for."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.said, self.hosts = page, [], set()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: (self.said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        if address != BLANK:
            page.goto(address)

    def open(self, address: str, is_alive: Callable[[], bool]) -> None:
        """Opens what will be served soon."""
        end = time.monotonic() + 4 * PATIENCE / 1000
        while not _answers(address):
            assert is_alive(), "who is to serve it has ended"
            assert time.monotonic() < end, f"nobody serves {address}"
            time.sleep(0.2)
        self.page.goto(address)

    def text(self, place: str) -> str:
        return str(self.page.inner_text(place))

    def wait(self, place: str, text: str) -> None:
        self.page.locator(place, has_text=text).first.wait_for()


def _answers(address: str) -> bool:
    try:
        with urlopen(f"{address}healthz", timeout=5) as answer:  # noqa: S310 (ours)
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def visit(browser: Any, address: str, width: int = 1200, scheme: str = "light") -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        yield Visit(page, address)
    finally:
        page.close()
