"""The file of the embedded bus: durability, the lock, foreign and damaged files, forks, descriptors."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import BusError, Full, Output, Partition, Topic, Unavailable
from streaminfer.bus.sqlite import schema
from streaminfer.bus.sqlite.store import FILE_NAME, Store


def test_every_commit_is_synced_to_a_write_ahead_log(tmp_path: Path) -> None:
    store = Store(tmp_path, 1.0)
    with store.read() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_held_lock_is_waited_for_up_to_the_deadline(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path, busy_s=0.3) as bus, closing(sqlite3.connect(tmp_path / FILE_NAME)) as holder:
        bus.create([Topic("t", 1)])
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(Unavailable, match="locked"):
            bus.publish([Output("t", b"x")])
        assert 0.3 <= time.monotonic() - began < 10
        assert bus.ends("t") == {0: 0}, "reading does not need the lock"
        holder.rollback()
        bus.publish([Output("t", b"x")])
        assert bus.ends("t") == {0: 1}


def test_a_lock_released_in_time_is_no_error(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 1)])
        taken, release = threading.Event(), threading.Event()

        def hold() -> None:
            with closing(sqlite3.connect(tmp_path / FILE_NAME)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                taken.set()
                release.wait(10)
                time.sleep(0.1)
                holder.rollback()

        thread = threading.Thread(target=hold)
        thread.start()
        taken.wait(10)
        release.set()
        assert bus.publish([Output("t", b"x")]) == [0]
        thread.join()


def test_a_full_disk_is_unavailable_and_nothing_is_written(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 1)])
        with bus._store.read() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
        bus._store._usable().execute(f"PRAGMA max_page_count = {pages + 20}")
        with pytest.raises(Full, match="disk is full: free some space on its disk"):
            bus.publish([Output("t", b"x" * 1000) for _ in range(1000)])
        assert bus.ends("t") == {0: 0}
        bus._store._usable().execute("PRAGMA max_page_count = 1000000")
        assert bus.publish([Output("t", b"x")]) == [0]


def test_a_read_only_bus_is_unavailable_and_says_so(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 1)])
        bus._store._usable().execute("PRAGMA query_only = 1")
        with pytest.raises(
            Unavailable, match="readonly database: its directory, or the file system, cannot be written"
        ):
            bus.publish([Output("t", b"x")])
        bus._store._usable().execute("PRAGMA query_only = 0")
        assert bus.publish([Output("t", b"x")]) == [0]


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.ENOSPC, Full), (errno.EDQUOT, Full), (errno.EROFS, Unavailable), (errno.EACCES, BusError)]
)
def test_a_directory_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[BusError]
) -> None:
    def mkdir(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(BusError, match="the directory of the bus cannot be created") as caught:
        EmbeddedBus(tmp_path / "new")
    assert type(caught.value) is kind


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_foreign_or_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(BusError, match="damaged or not a bus") as caught:
        EmbeddedBus(tmp_path)
    assert FILE_NAME in str(caught.value)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_file_damaged_later_is_a_bus_error(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 1)])
        bus.publish([Output("t", b"x" * 1000) for _ in range(1000)])
    path = tmp_path / FILE_NAME
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xa5" * (len(data) - 8192)
    path.write_bytes(data)
    with pytest.raises(BusError, match=FILE_NAME), EmbeddedBus(tmp_path) as bus:
        bus.reader({Partition("t", 0): 0}).poll(0)


def test_another_programs_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("CREATE TABLE accounts (id INTEGER)")
        other.commit()
    content = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(BusError, match="not a bus"):
        EmbeddedBus(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_another_version_of_the_tables_is_refused(tmp_path: Path) -> None:
    EmbeddedBus(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as newer:
        newer.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        newer.commit()
    with pytest.raises(BusError, match=f"version {schema.VERSION + 1}.*reads version {schema.VERSION}"):
        EmbeddedBus(tmp_path)


def test_topics_of_a_file_from_before_get_an_id_once(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 1), Topic("u", 1)])
        bus.publish([Output("t", b"x")])
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as file, file:
        file.execute("ALTER TABLE topics DROP COLUMN id")
    with EmbeddedBus(tmp_path) as bus, EmbeddedBus(tmp_path) as other:
        given = bus.topic_id("t")
        assert len({given, bus.topic_id("u"), ""}) == 3
        assert other.topic_id("t") == given
        assert bus.ends("t") == {0: 1}
    with EmbeddedBus(tmp_path) as bus:
        assert bus.topic_id("t") == given


def test_many_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    program = (
        "import sys; from streaminfer.bus.connect import open_bus; from streaminfer.bus.protocol import Topic\n"
        "with open_bus(sys.argv[1]) as bus: bus.create([Topic('t', 2)])"
    )
    command = [sys.executable, "-c", program, f"embedded:{tmp_path}/new"]
    root = Path(__file__).parents[2]
    children = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    errors = [child.communicate(timeout=60)[1] for child in children]
    assert errors == [""] * 6
    with EmbeddedBus(tmp_path / "new") as bus:
        assert bus.topics() == {"t": Topic("t", 2)}


FORK = """
import os, sys
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import BusError, Output, Topic
bus = open_bus(sys.argv[1])
bus.create([Topic("t", 1)])
member = bus.member("g", ["t"])
if os.fork() == 0:
    try:
        bus.publish([Output("t", b"child")])
    except BusError as error:
        print(error, flush=True)
    member.close()
    bus.close()
    os._exit(0)
os.wait()
assert len(member.poll(1).assigned) == 1, "the child's close must not end the parent's membership"
print(bus.publish([Output("t", b"parent")]))
bus.close()
"""


def test_a_forked_child_may_not_use_its_parents_bus(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORK, f"embedded:{tmp_path}"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert "fork" in child
    assert parent == "[0]"


def test_another_thread_gets_a_clear_error(tmp_path: Path) -> None:
    caught: list[BaseException] = []
    with EmbeddedBus(tmp_path) as bus:

        def use() -> None:
            try:
                bus.topics()
            except BusError as error:
                caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    (error,) = caught
    assert "thread" in str(error)


def test_close_releases_the_file_descriptors(tmp_path: Path) -> None:
    def held() -> list[str]:
        targets = (Path("/proc/self/fd") / fd for fd in os.listdir("/proc/self/fd"))
        return [os.readlink(target) for target in targets if os.path.lexists(target) and _points_into(target, tmp_path)]

    bus = EmbeddedBus(tmp_path)
    bus.create([Topic("t", 1)])
    assert held()
    bus.close()
    assert held() == []


def _points_into(link: Path, directory: Path) -> bool:
    return os.readlink(link).startswith(str(directory))
