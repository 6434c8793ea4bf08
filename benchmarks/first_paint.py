"""What a page weighs and how soon it is painted first: Chromium, told what to do by its own protocol over two pipes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

from benchmarks.processes import Failed

VISITS = 5
PATIENCE_S = 60.0
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe")
ASKED = """JSON.stringify([
  performance.getEntriesByName("first-contentful-paint").map(each => each.startTime),
  [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter(each => !each.name.includes("/v1/")).reduce((sum, each) => sum + each.transferSize, 0)])"""


class Page(NamedTuple):
    """The median of some visits, each with an empty cache."""

    paint_ms: float
    bytes: int


class Chromium:
    """A browser that answers, one question after the other."""

    def __init__(self, asks: BinaryIO, answers: BinaryIO) -> None:
        self._asks, self._answers, self._number, self._rest = asks, answers, 0, b""

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._asks.write(json.dumps(message if session is None else {**message, "sessionId": session}).encode() + b"\0")
        self._asks.flush()
        while (found := self._next()).get("id") != self._number:
            pass
        if "error" in found:
            raise Failed(f"chromium: {method}: {found['error']}")
        return found["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._answers.fileno(), 1 << 16)
            if not data:
                raise Failed("chromium has ended")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def chromium() -> Iterator[Chromium]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise Failed("chromium is missing: apt-get install chromium")
    theirs, ours = os.pipe(), os.pipe()
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (*theirs, *ours)]
    for end in (*theirs, *ours):
        os.close(end)
    os.dup2(ends[0], 3)  # it reads what is asked from 3, and writes its answers to 4
    os.dup2(ends[3], 4)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [program, *FLAGS, f"--user-data-dir={folder}"]
        process = subprocess.Popen(command, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in (3, 4, ends[0], ends[3]):
            os.close(end)
        try:
            with os.fdopen(ends[1], "wb") as asks, os.fdopen(ends[2], "rb") as answers:
                yield Chromium(asks, answers)
        finally:
            process.terminate()
            process.wait()


def visited(browser: Chromium, url: str) -> Page:
    """One visit in a context of its own."""
    context = browser.ask("Target.createBrowserContext")["browserContextId"]
    target = browser.ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
    session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.ask("Page.navigate", session, url=url)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answer = browser.ask("Runtime.evaluate", session, expression=ASKED)["result"].get("value", "[[], 0]")
        paints, size = json.loads(answer)
        if paints:
            browser.ask("Target.disposeBrowserContext", browserContextId=context)
            return Page(paints[0], size)
        time.sleep(0.1)
    raise Failed(f"{url} was not painted within {PATIENCE_S:g} s")


def main(url: str) -> None:
    with chromium() as browser:
        found = sorted(visited(browser, url) for _ in range(VISITS))
    print(json.dumps([found[VISITS // 2].paint_ms, max(each.bytes for each in found)]))


if __name__ == "__main__":
    main(sys.argv[1])
