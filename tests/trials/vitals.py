"""What processes hold while they work: memory and open files, sampled over time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.faults.programs import open_files, resident

MIB = 1 << 20


class Sample(NamedTuple):
    """One look at one process."""

    at: float
    pid: int
    memory: int
    files: int


@dataclass
class Vitals:
    """Samples of processes by their part in a test; a part may be played by one process after the other."""

    began: float = field(default_factory=time.monotonic)
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def look(self, pids: Mapping[str, int]) -> None:
        at = time.monotonic() - self.began
        for part, pid in pids.items():
            with suppress(FileNotFoundError, ProcessLookupError):  # killed a moment ago
                self.samples.setdefault(part, []).append(Sample(at, pid, resident(pid), open_files(pid)))

    def last_life(self, part: str) -> list[Sample]:
        """The samples of the process that played the part last."""
        every = self.samples[part]
        return [sample for sample in every if sample.pid == every[-1].pid]

    def table(self, rows: int = 10) -> str:
        """Memory in MiB and open files of every part, at a few moments from the beginning to the end."""
        end = max(every[-1].at for every in self.samples.values())
        lines = ["seconds".rjust(8) + "".join(part.rjust(18) for part in self.samples)]
        for i in range(rows + 1):
            at = end * i / rows
            nearest = [min(every, key=lambda sample: abs(sample.at - at)) for every in self.samples.values()]
            cells = [f"{each.memory / MIB:.1f} MiB {each.files:3d} fd" for each in nearest]
            lines.append(f"{at:8.0f}" + "".join(cell.rjust(18) for cell in cells))
        return "\n".join(lines)

    def check_level(self, part: str, memory: int, files: int) -> None:
        """Asserts that the last process of a part held no more in the last third of its life than in the second.

        The first third is for what a process learns once. `memory` (bytes) and `files` may be added.
        """
        life = self.last_life(part)
        second, last = life[len(life) // 3 : 2 * len(life) // 3], life[2 * len(life) // 3 :]
        grown = max(sample.memory for sample in last) - max(sample.memory for sample in second)
        opened = max(sample.files for sample in last) - max(sample.files for sample in second)
        seconds = life[-1].at - life[0].at
        print(
            f"{part}: {grown / MIB:+.2f} MiB and {opened:+d} files from the second to the last third of {seconds:.0f} s"
        )
        assert grown <= memory, f"{part} grows"
        assert opened <= files, f"{part} keeps files open"


def disk(folder: Path) -> int:
    """Bytes that the files of a folder take on disk: Kafka's indexes are larger than what is in them."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_blocks * 512
    return total
