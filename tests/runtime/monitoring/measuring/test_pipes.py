"""What goes through the pipes between a monitor and its child, and the share of a core that the child takes."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streaminfer.runtime.monitoring.measuring import frames
from streaminfer.runtime.monitoring.measuring.frames import BrokenPipe, Frame, Incoming
from streaminfer.runtime.monitoring.measuring.pacing import BURST_S, Bucket

SENT = [Frame(b"a", b""), Frame(b"b", b"x" * 100_000), Frame(b"c", b"\x00")]


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_messages_come_out_as_they_went_in(size: int) -> None:
    data = b"".join(map(frames.packed, SENT))
    incoming, found = Incoming(), []
    for at in range(0, len(data), size):
        found += incoming.take(data[at : at + size])
    assert found == SENT
    stream = io.BytesIO(data)
    assert [frames.read(stream) for _ in range(4)] == [*SENT, None]


def test_a_message_that_is_cut_off_is_the_end() -> None:
    data = frames.packed(SENT[1])
    assert frames.read(io.BytesIO(data[:3])) is None
    assert frames.read(io.BytesIO(data[:-1])) is None
    assert list(Incoming().take(data[:-1])) == []


def test_nobody_is_made_to_hold_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    data = frames.packed(Frame(b"a", b"12345"))
    monkeypatch.setattr(frames, "MOST", 4)
    with pytest.raises(BrokenPipe, match="a message of 5 bytes is larger than 4"):
        list(Incoming().take(data[:5]))
    with pytest.raises(BrokenPipe, match="larger than 4"):
        frames.read(io.BytesIO(data))
    with pytest.raises(BrokenPipe, match="larger than 4"):
        frames.packed(Frame(b"a", b"12345"))


def test_parts_of_a_message() -> None:
    parts = [b"", b"a", b"bc" * 1000]
    joined = frames.joined(parts)
    assert frames.parted(joined) == parts
    for cut in (joined[:-1], joined[:-2001]):
        with pytest.raises(BrokenPipe, match="in the middle of a"):
            frames.parted(cut)


def test_a_bucket_fills_with_time_up_to_a_burst() -> None:
    bucket = Bucket(0.1, now=100.0, seconds=0.0)
    assert bucket.look(110.0, 0.0) == pytest.approx(1.0)
    assert bucket.look(110.0, 4.0) == pytest.approx(-3.0)
    assert bucket.look(140.0, 4.0) == pytest.approx(0.0)
    assert bucket.look(1e6, 4.0) == BURST_S
    # a long time with much work is not a long time without any
    assert Bucket(0.1, 0.0, 0.0).look(1000.0, 99.0) == pytest.approx(1.0)


BUSY = """
import os, sys, time
from streaminfer.runtime.monitoring.measuring.pacing import Pace
parent = os.getppid()
Pace({share}, {seconds}, parent, lambda: os._exit(3))
print("on", flush=True)
end = time.monotonic() + {last}
while time.monotonic() < end:
    sum(range(10_000))
"""


def test_a_process_takes_its_share_of_a_core() -> None:
    share, last = 0.25, 6.0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", BUSY.format(share=share, seconds=0.0, last=last)], check=False, cwd=Path.cwd()
    )
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == 0
    # what it took to start is a debt that is slept off
    assert used < 1.2 * share * seconds + 0.3


def test_a_process_ends_when_its_parent_is_gone() -> None:
    busy = BUSY.format(share=1.0, seconds=3.0, last=60.0)
    starter = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {busy!r}], stdout=subprocess.PIPE); \
p.stdout.readline(); print(p.pid, flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", starter], check=True, capture_output=True, text=True)
    pid = int(done.stdout)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    os.kill(pid, 9)
    raise AssertionError("it goes on without its parent")
