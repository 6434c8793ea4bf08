"""The folder and files of segments' rows: private, bounded, checked, and removed when their time is over."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from streaminfer.runtime.sampling import scratch
from streaminfer.runtime.sampling.scratch import Check, RowsFile
from streaminfer.runtime.service import Fatal

ROWS = np.arange(12.0).reshape(4, 3)


def written(name: str, rows: np.ndarray = ROWS) -> RowsFile:
    file = RowsFile(name, 3)
    assert file.lock()
    file.begin(len(rows))
    file.add(rows, len(rows))
    file.end(0)
    file.close()
    return file


def right(file: RowsFile) -> bool:
    about = file.about()
    assert about is not None
    check = Check(file.path, about)
    while (found := check.step()) is None:
        pass
    if found:
        file.compared(check)
    else:
        check.close()
    return found


def test_the_folder_and_its_files_are_private(scratch_folder: Path) -> None:
    before = os.umask(0)
    try:
        file = written("a")
    finally:
        os.umask(before)
    assert file.path.parent == scratch_folder / f"streaminfer-{os.getuid()}"
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    modes = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in file.path.parent.iterdir()}
    assert modes == {".rows": 0o600, ".json": 0o600, ".lock": 0o600}


def test_a_folder_that_others_may_read_is_closed_to_them(scratch_folder: Path) -> None:
    path = scratch_folder / f"streaminfer-{os.getuid()}"
    path.mkdir(parents=True)
    path.chmod(0o755)
    assert stat.S_IMODE(scratch.folder().stat().st_mode) == 0o700


def test_a_link_in_the_place_of_the_folder_is_refused(scratch_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    scratch_folder.mkdir()
    (scratch_folder / f"streaminfer-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        Fatal, match=r"must be a folder of the user \d+, who alone may write there \(got a link of .*set"
    ):
        scratch.folder()


def test_the_folder_of_somebody_else_is_refused(scratch_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.getuid()
    (scratch_folder / f"streaminfer-{mine + 1}").mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(Fatal, match=rf"got a folder of the user {mine}\): remove it, or set STREAMINFER_SCRATCH"):
        scratch.folder()


def test_a_folder_that_cannot_be_made_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(Fatal, match=r"cannot be made: .*set STREAMINFER_SCRATCH to a folder"):
        scratch.folder()


def test_a_flipped_byte_is_found() -> None:
    file = written("a")
    assert right(file)
    file.close()
    data = bytearray(file.path.read_bytes())
    data[17] ^= 1
    file.path.write_bytes(data)
    assert not right(file)


def test_a_file_that_is_not_whole_is_not_there() -> None:
    file = written("a")
    os.truncate(file.path, 80)
    assert file.about() is None


def test_a_file_that_vanishes_is_missing_and_not_empty() -> None:
    file = written("a")
    about = file.about()
    assert about is not None
    file.remove()
    assert file.about() is None
    with pytest.raises(FileNotFoundError):
        Check(file.path, about)


def test_a_file_that_was_found_right_stays_so_whoever_removes_it() -> None:
    file = written("a")
    about = file.about()
    assert about is not None
    assert right(file)
    shutil.rmtree(file.path.parent)
    assert (file.mapped(about) == ROWS).all()
    file.close()


def test_rows_that_are_mapped_survive_a_new_writing() -> None:
    file = written("a")
    about = file.about()
    assert about is not None
    assert right(file)
    mapped = file.mapped(about)
    written("a", ROWS[:1] + 7)
    assert (mapped == ROWS).all()
    file.close()


def test_rows_outside_a_window_are_left_out() -> None:
    file = RowsFile("a", 3)
    file.begin(4)
    file.add(ROWS, 4)
    file.keep(np.array([False, True, False, True]), np.ones(4, dtype=np.intp))
    about = file.end(0)
    assert (file.mapped(about) == ROWS[[1, 3]]).all()
    file.close()
    assert right(file)
    file.close()
    assert {path.suffix for path in file.path.parent.iterdir()} == {".rows", ".json"}


def test_one_process_writes_at_a_time() -> None:
    first, second = RowsFile("a", 3), RowsFile("a", 3)
    assert first.lock()
    assert not second.lock()
    first.close()
    assert second.lock()
    second.close()


def test_room_is_looked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100 << 20))
    file = RowsFile("a", 50)
    with pytest.raises(
        Fatal, match=r"need 381 MiB more, with 64 MiB left free, and only 100 MiB are free: make room, or set STREAM"
    ):
        file.begin(10**6)
    assert not file.path.exists()


def test_what_nobody_has_opened_for_a_day_is_removed() -> None:
    old, half, new = written("old"), written("half"), written("new")
    half.path.with_suffix(".json").unlink()
    for file in (old, half):
        for path in file.path.parent.glob(f"{file.path.stem}.*"):
            os.utime(path, (1e9, 1e9))
    scratch.remove_old()
    assert {path.stem for path in new.path.parent.iterdir()} == {"new"}


def test_the_rows_of_earlier_segments_are_removed() -> None:
    kept = [written("x-3-a"), written("x-12-a"), written("xx-1-a")]
    gone = [written("x-2-b"), written("x-1-a")]
    scratch.remove_earlier("x", 3)
    assert all(file.path.exists() for file in kept)
    assert not any(file.path.exists() for file in gone)
