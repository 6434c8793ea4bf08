"""The picture of the dashboard: it is made by real services, and the one that is kept is such a picture."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.http.picture import HEIGHT, KEPT, ROOT, WIDTH, take


def size_of(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def test_the_readme_has_the_picture() -> None:
    assert "(docs/dashboard.png)" in (ROOT / "README.md").read_text()
    assert size_of(KEPT) == (WIDTH, HEIGHT)


@pytest.mark.long
@pytest.mark.xdist_group("browser")
def test_the_picture_is_of_a_posterior_that_was_measured(chromium: Any, tmp_path: Path) -> None:
    said = take(tmp_path / "dashboard.png", chromium)
    assert "trusted" in said
    assert "really holds" in said
    assert size_of(tmp_path / "dashboard.png") == (WIDTH, HEIGHT)
