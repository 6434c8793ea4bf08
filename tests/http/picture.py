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
from collections.abc import Callable, Iterator
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
PARTS, N_EVENTS = 6, 600
PATIENCE = 180.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a dashboard with everything measured."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    spec, bus = ROOT / "docs" / "examples" / "prices.yaml", ("--bus", f"embedded:{folder}/bus")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}
    command = [sys.executable, "-m", "streaminfer"]
    with subprocess.Popen([*command, "up", spec, "--workers", "2", *bus, "--http", address], **quiet) as up:
        try:
            _wait(f"http://{address}/v1/posteriors", lambda found: bool(found["posteriors"]))
            for part in parts(folder):
                subprocess.run([*command, "produce", spec, part, *bus], check=True, **quiet)
                time.sleep(1.5)
            _wait(f"http://{address}/v1/posteriors/prices/metrics", was_measured)
            yield f"http://{address}/"
        finally:
            up.terminate()


def parts(folder: Path) -> Iterator[Path]:
    """The data of the tour, in some files: so the picture shows how intervals narrow."""
    head, *rows = (ROOT / "docs" / "examples" / "prices.csv").read_text().splitlines(keepends=True)
    for i in range(PARTS):
        part = folder / f"{i}.csv"
        part.write_text(head + "".join(rows[len(rows) * i // PARTS : len(rows) * (i + 1) // PARTS]))
        yield part


def was_measured(found: Any) -> bool:
    """Whether all checks are of the last version."""
    newest = {each["check"]: each["n_events"] for each in found["measurements"]}
    return newest.keys() >= CHECKS and all(newest[each] == N_EVENTS for each in ("coverage", "calibration"))


def _wait(url: str, is_there: Callable[[Any], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310 (ours)
                if is_there(json.load(answer)):
                    return
        except (URLError, OSError, ValueError):
            pass
        time.sleep(0.5)
    raise TimeoutError(f"{url} has not what is wanted after {PATIENCE:g} s")


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
