"""Makes docs/dashboard.png, the picture of the dashboard: `python -m tests.http.picture`.

Real services learn the prices of the README's tour; the picture is taken once the monitor has measured the posterior.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from tests.http.browsing import browser, visit

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs" / "dashboard.png"
WIDTH, HEIGHT = 1200, 1180
CHECKS = {"coverage", "calibration", "audit"}
PATIENCE = 180.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a dashboard with everything measured."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    examples = ROOT / "docs" / "examples"
    command = [sys.executable, "-m", "streaminfer", "up", examples / "prices.yaml", "--data", examples / "prices.csv",
               "--workers", "2", "--bus", f"embedded:{folder}/bus", "--http", address]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT) as up:
        try:
            _wait(f"http://{address}")
            yield f"http://{address}/"
        finally:
            up.terminate()


def _wait(site: str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            with urlopen(f"{site}/v1/posteriors/prices/metrics", timeout=5) as answer:  # noqa: S310 (ours)
                if {each["check"] for each in json.load(answer)["measurements"]} >= CHECKS:
                    return
        except (URLError, OSError, ValueError):
            pass
        time.sleep(0.5)
    raise TimeoutError(f"nothing was measured within {PATIENCE:g} s")


def take(path: Path, chromium: Any) -> str:
    """Writes the picture, and tells the text of the verdict."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder)) as address,
        visit(chromium, address, WIDTH) as seen,
    ):
        seen.wait("#parameters", "9")
        seen.wait("#computed", "coverage")
        seen.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        seen.page.wait_for_timeout(1000)
        seen.page.screenshot(path=str(path))
        return seen.text("#verdict")


if __name__ == "__main__":
    with browser() as found:
        print(take(KEPT, found))
