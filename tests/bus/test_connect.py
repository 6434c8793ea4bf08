"""Bus URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaminfer.bus.connect import BusUrlError, open_bus
from streaminfer.bus.protocol import BusError, Topic


def test_an_embedded_bus_is_a_file_in_a_directory_that_is_made(tmp_path: Path) -> None:
    with open_bus(f"embedded:{tmp_path}/deep/er") as bus:
        bus.create([Topic("t", 1)])
        assert (tmp_path / "deep" / "er" / "bus.sqlite3").is_file()
    with open_bus(f"embedded:{tmp_path}/deep/er") as bus:
        assert list(bus.topics()) == ["t"]


@pytest.mark.parametrize("url", ["", "embedded", "redis://there", "/some/path", "Embedded:x", ":x"])
def test_an_unknown_scheme_is_named_with_rule_and_remedy(url: str) -> None:
    with pytest.raises(BusUrlError) as caught:
        open_bus(url)
    message = str(caught.value)
    assert repr(url) in message
    assert "must start with a known scheme" in message
    assert "embedded:PATH" in message
    assert isinstance(caught.value, ValueError)


def test_an_embedded_bus_needs_a_path() -> None:
    with pytest.raises(BusUrlError, match="directory"):
        open_bus("embedded:")


def test_a_directory_that_cannot_be_made_is_a_bus_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BusError, match="file"):
        open_bus(f"embedded:{tmp_path}/file/bus")
