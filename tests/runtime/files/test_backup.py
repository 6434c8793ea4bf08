"""Backups: of every kind of posterior, put back where it was lost, and never over a newer one."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from streaminfer import parse_spec
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output, Record
from streaminfer.bus.recorded import framing
from streaminfer.bus.recorded.framing import FileFault
from streaminfer.runtime import names
from streaminfer.runtime.files.backup import Backup, NothingToBackUp, back_up, load
from streaminfer.runtime.files.restore import restore
from streaminfer.runtime.files.writing import remove_unfinished, replace_file
from streaminfer.runtime.service import Fatal
from tests.golden import driving, records
from tests.golden.steady import SteadyBus
from tests.runtime.files.golden_buses import Golden, shown


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory: nothing here is about disks."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.mark.parametrize("kind", records.kinds())
def test_what_was_lost_is_as_it_was_and_goes_on(kind: str, folder: Path) -> None:
    (folder / "kept").mkdir()
    (folder / "lost").mkdir()
    kept, lost = Golden(kind, folder / "kept"), Golden(kind, folder / "lost")
    path = folder / "backup"
    with lost.open() as bus:
        there = shown(lost.spec, bus)
        written = back_up(lost.spec, bus, path)
    lost.lose(*names.state_topics(lost.spec))
    with lost.open() as bus:
        back = restore(lost.spec, SteadyBus(bus), load(lost.spec, path), new_log=False)
        assert back.version >= written.version
        assert_same(shown(lost.spec, bus), there)
        lost.go_on(bus)
        after = shown(lost.spec, bus)
    with kept.open() as bus:
        kept.go_on(bus)
        assert_same(after, shown(kept.spec, bus))


def test_an_older_posterior_is_replaced_and_a_newer_one_is_not(folder: Path) -> None:
    golden, path = Golden("keyed", folder), folder / "backup"
    with golden.open() as bus:
        steady = SteadyBus(bus)
        back_up(golden.spec, bus, path)
        there, before = shown(golden.spec, bus), bus.ends("golden.posterior")
        with pytest.raises(Fatal, match=r"is not older than the backup: version .* Nothing was changed"):
            restore(golden.spec, steady, load(golden.spec, path), new_log=False)
        assert bus.ends("golden.posterior") == before
    golden.lose(*names.state_topics(golden.spec))
    with golden.open() as bus:
        master = driving.master(golden.story.spec, SteadyBus(bus), golden.clock)
        for _ in range(20):  # starts over from the prior
            master.step(0.0)
        master.close()
        assert shown(golden.spec, bus) != there
        restore(golden.spec, SteadyBus(bus), load(golden.spec, path), new_log=False)
        assert_same(shown(golden.spec, bus), there)


def test_a_restore_that_was_killed_is_done_again(folder: Path) -> None:
    golden, path = Golden("keyed", folder), folder / "backup"
    with golden.open() as bus:
        back_up(golden.spec, bus, path)
        there = shown(golden.spec, bus)
    golden.lose(*names.state_topics(golden.spec))
    with golden.open() as bus:
        rows = [record for record in _rows(golden, path) if record.partition.index == 0]
        bus.publish([Output(each.partition.topic, each.value, each.key, 0) for each in rows[:3]])
        restore(golden.spec, SteadyBus(bus), load(golden.spec, path), new_log=False)
        assert_same(shown(golden.spec, bus), there)


def _rows(golden: Golden, path: Path) -> list[Record]:
    found = framing.read(path).records
    return [each for records in found.values() for each in records if (each.key or b"").startswith(b"key/")]


def test_a_new_log_is_learned_from_its_start(folder: Path) -> None:
    golden, path = Golden("linear_regression", folder), folder / "backup"
    with golden.open() as bus:
        back_up(golden.spec, bus, path)
        before = n_seen(shown(golden.spec, bus))
    with EmbeddedBus(folder / "other", clock=golden.clock) as bus:
        backup = load(golden.spec, path)
        with pytest.raises(Fatal, match=r"learned from another topic of this name .* --new-log"):
            restore(golden.spec, SteadyBus(bus), replaced_id(backup), new_log=False)
        restore(golden.spec, SteadyBus(bus), backup, new_log=True)
        golden.go_on(bus)
        found = shown(golden.spec, bus)
        assert n_seen(found) > before
        assert n_seen(found) - before == sum(found["frontier"].values())


def n_seen(document: dict[str, Any]) -> int:
    return int(document["n_events"] + document["n_dead_lettered"])


def replaced_id(backup: Backup) -> Backup:
    """The same of another topic than that of the steady bus."""
    kept = [
        each._replace(snapshot=replace(each.snapshot, frontier=replace(each.snapshot.frontier, topic_id="other")))
        for each in backup.shards
    ]
    backup.shards = kept
    return backup


@pytest.mark.parametrize("kind", ["window_events", "logistic_svi"])
def test_what_belongs_to_positions_cannot_go_on_with_a_new_log(kind: str, folder: Path) -> None:
    golden, path = Golden(kind, folder), folder / "backup"
    with golden.open() as bus:
        back_up(golden.spec, bus, path)
    with EmbeddedBus(folder / "other") as bus, pytest.raises(Fatal, match="--new-log is not possible"):
        restore(golden.spec, bus, load(golden.spec, path), new_log=True)


def test_another_spec_is_told_what_differs(folder: Path) -> None:
    golden, path = Golden("linear_regression", folder), folder / "backup"
    with golden.open() as bus:
        back_up(golden.spec, bus, path)
    other = parse_spec({**golden.story.spec, "model": {**golden.story.spec["model"], "features": ["a"]}})
    with pytest.raises(Fatal, match=r"made with another spec .*model.features"):
        load(other, path)
    renamed = parse_spec({**golden.story.spec, "name": "silver"})
    with pytest.raises(Fatal, match="is a backup of 'golden', and the spec is called 'silver'"):
        load(renamed, path)


def test_a_damaged_file_is_refused(folder: Path) -> None:
    golden, path = Golden("window_events", folder), folder / "backup"
    with golden.open() as bus:
        back_up(golden.spec, bus, path)
    data = path.read_bytes()
    for broken in (data[:-1], data + b"x", b"", data[:40], data[:300] + b"\xff" + data[301:], b"PK" + data):
        path.write_bytes(broken)
        with pytest.raises(FileFault, match="not a file of records, or damaged"):
            load(golden.spec, path)


@pytest.mark.parametrize(
    "head",
    [
        b'{"about": ' + b"[" * 200_000 + b"]" * 200_000 + b', "topics": {}}',
        b'{"about": {}, "topics": {"a": Infinity}}',
        b'{"about": {}, "topics": {"a": 1e999}}',
        b'{"about": {}, "topics": {"a": true}}',
        b'{"about": {}, "topics": {"a": 2000}}',
        b'{"about": {}, "topics": []}',
        b"[]",
        b"\xff",
    ],
    ids=["deep", "infinite", "overflow", "truth", "many", "list", "no object", "no text"],
)
def test_a_hostile_head_is_refused(head: bytes, folder: Path) -> None:
    """With right lengths and checksums."""
    path = folder / "backup"
    path.write_bytes(framing.MAGIC + framed(head) + framed(framing.END + bytes(8)))
    with pytest.raises(FileFault, match="not a file of records, or damaged"):
        framing.read(path)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + zlib.crc32(payload).to_bytes(4, "big") + payload


def test_a_spec_in_a_file_need_not_be_text(folder: Path) -> None:
    golden, path = Golden("linear_regression", folder), folder / "backup"
    about = b'{"kind": "backup", "name": "golden", "fingerprint": "x", "spec": "\\ud800"}'
    head = b'{"about": %b, "topics": {}}' % about
    path.write_bytes(framing.MAGIC + framed(head) + framed(framing.END + bytes(8)))
    with pytest.raises(Fatal, match="made with another spec"):
        load(golden.spec, path)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_umask_says_who_may_read_a_file(mask: int, mode: int, folder: Path) -> None:
    before = os.umask(mask)
    try:
        replace_file(folder / "f", [b"x"])
    finally:
        os.umask(before)
    assert (folder / "f").stat().st_mode & 0o777 == mode
    assert [each.name for each in folder.iterdir()] == ["f"]


def test_what_others_left_in_a_shared_folder_is_passed_over(folder: Path) -> None:
    left = folder / ".golden.snapshot.x.part"
    left.mkdir()
    os.utime(left, (0, 0))
    remove_unfinished(folder / "golden.snapshot")
    assert left.exists()


def test_without_a_posterior_there_is_nothing_to_back_up(folder: Path) -> None:
    golden = Golden("keyed", folder)
    golden.lose(*names.state_topics(golden.spec))
    with EmbeddedBus(folder / "empty") as bus, pytest.raises(NothingToBackUp, match="nothing to back up"):
        back_up(golden.spec, bus, folder / "backup")
    assert not (folder / "backup").exists()


def assert_same(found: Any, expected: Any) -> None:
    """Numbers to rounding: increments that were under way are made again, so scores may be under another base."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected.keys() - {"score", "drift"}:
            assert_same(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    else:
        assert found == expected
