"""Bus URLs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streaminfer.bus.connect import BusUrlError, open_bus, public_names
from streaminfer.bus.protocol import BusError, Topic
from streaminfer.cli import main


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


@pytest.mark.parametrize("url", ["kafka://alice:hunter2@broker:9092", "https://alice:hunter2@host", "x@hunter2"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    for attempt in (open_bus, public_names):
        with pytest.raises(BusUrlError, match="STREAMINFER_KAFKA_PASSWORD_FILE") as caught:
            attempt(url)
        assert "hunter2" not in str(caught.value)
        assert "alice" not in str(caught.value)


def test_help_does_not_show_credentials(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STREAMINFER_BUS", "kafka://alice:hunter2@broker:9092")
    with pytest.raises(SystemExit):
        main(["snapshot", "--help"])
    assert "hunter2" not in capsys.readouterr().out


def test_a_path_may_have_such_a_character(tmp_path: Path) -> None:
    with open_bus(f"embedded:{tmp_path}/me@home"):
        pass


def test_a_new_bus_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_bus(f"embedded:{tmp_path}/above/bus") as bus:
            bus.create([Topic("t", 1)])
            made = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "above" / "bus").iterdir()}
    finally:
        os.umask(before)
    assert (tmp_path / "above" / "bus").stat().st_mode & 0o777 == 0o700
    assert set(made.values()) == {0o600}
    assert {"bus.sqlite3", "bus.sqlite3-wal", "bus.sqlite3-shm"} <= set(made)


def test_a_bus_that_exists_keeps_its_rights(tmp_path: Path) -> None:
    with open_bus(f"embedded:{tmp_path}/bus"):
        pass
    (tmp_path / "bus").chmod(0o750)
    (tmp_path / "bus" / "bus.sqlite3").chmod(0o640)
    with open_bus(f"embedded:{tmp_path}/bus"):
        pass
    assert (tmp_path / "bus").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "bus" / "bus.sqlite3").stat().st_mode & 0o777 == 0o640
