"""The worked example of docs/drift.md prints what the page says, and its links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.docs.pages import BLOCK, ROOT, matches

PAGE = ROOT / "docs" / "drift.md"


def test_the_example_prints_what_the_page_says() -> None:
    found = BLOCK.findall(PAGE.read_text())
    ((_, code),) = [block for block in found if block[0] == "python"]
    expected = found[found.index(("python", code)) + 1][1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert matches(expected, done.stdout), done.stdout


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE.read_text())
    assert len(targets) >= 4
    for target in targets:
        assert (PAGE.parent / target).exists(), target
