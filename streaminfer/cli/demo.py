"""watch a posterior follow a stream while its processes are killed, and compare it with the exact answer

Parcels arrive; how long a delivery takes depends on distance, weight and rain. Three workers and a master learn it
from the stream. Some of them are killed on purpose, in the middle of their work. On a bus of yours (--bus) it
has topics of its own, delivery-…, which stay there.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus
from streaminfer.cli.common import ABOUT, print_table, whole
from streaminfer.cli.terminal import fitting, raw
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.loading.produce import publish_rows
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.role import needed
from streaminfer.runtime.running.process import StopSignal
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.runtime.supervising.job import Job, Status
from streaminfer.runtime.supervising.supervisor import Supervisor, children_of
from streaminfer.services import ROLES
from streaminfer.spec import Spec, load_spec

SPEC: Final = """\
name: {name}
data: {{format: json, partitions: 4}}
model:
  kind: linear_regression
  features: [distance_km, weight_kg, rain]
  target: minutes
inference: {{method: svb, minibatch: 64}}
"""
NAMES: Final = ("start", "per km", "per kg", "rain", "noise variance")
TRUTH: Final = np.array([12.0, 2.4, 0.8, 5.0])
NOISE: Final = 4.0
SCALE: Final = np.array([0.5, 0.06, 0.16, 0.7])
"""Half the width of each axis of the plot."""
PLOT: Final = 41
ENOUGH: Final = 10
"""Events before the noise variance, and so any interval, has a finite spread."""


def arguments(parser: argparse.ArgumentParser) -> None:
    some, few = whole(100, 10_000_000), whole(0, 1000)
    parser.add_argument("--events", metavar="N", type=some, default=40_000, help="parcels (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=whole(1, 3600),
        default=16,
        help="seconds over which they are sent (default: %(default)s)",
    )
    parser.add_argument("--kills", metavar="K", type=few, default=8, help="processes killed (default: %(default)s)")
    parser.add_argument("--bus", metavar="URL", help="the bus (default: an embedded one, in a temporary folder)")
    parser.add_argument("--http", metavar="HOST:PORT", help="where the dashboard is (default: a free port on loopback)")
    parser.add_argument("--stay", action="store_true", help="go on until Ctrl-C, to look at the dashboard")
    parser.add_argument("--seed", type=int, default=1, help="seed of the data and the kills (default: %(default)s)")


def command(options: argparse.Namespace) -> int:
    data = parcels(np.random.default_rng(options.seed), options.events)
    with tempfile.TemporaryDirectory(prefix="streaminfer-demo-") as folder:
        path = Path(folder) / "delivery.yaml"
        # On a bus that stays, an earlier demo may have been: its events are not these.
        path.write_text(SPEC.format(name=f"delivery-{uuid.uuid4().hex[:8]}" if options.bus else "delivery"))
        url = options.bus or f"embedded:{folder}/bus"
        often = counted(options.kills, "time")
        print(
            f"{len(data):,} parcels in {options.seconds:g} s. 3 workers and 1 master, of which one is killed {often}."
        )
        address = options.http or f"127.0.0.1:{_free_port()}"
        print(f"{ABOUT}, and ─●─ its 95% interval, with │ at the truth.")
        print(f"The dashboard is at http://{address}/ while it runs.\n")
        with open_bus(url) as bus:
            spec = load_spec(path)
            roles = needed(ROLES, spec)
            job = Job(spec, bus, roles, children_of(roles, spec, 3, str(path), url, 0, address))
            play = Play(spec, bus, job.supervisor, data, options)
            screen = Screen()
            for status in job.run(StopSignal()):
                play.tick(status)
                screen.show(play, status)
                if play.finished(status):
                    screen.show(play, status, last=True)
                    if not options.stay:
                        break
            found = PosteriorSnapshot(spec, job.follower.snapshot) if job.follower.snapshot else None
    return report(found, data, play.killed)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def parcels(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """(n, 4): distance, weight, rain, minutes, rounded as a person would note them."""
    distance = rng.gamma(2.0, 3.0, n).round(2)
    weight = rng.exponential(2.0, n).round(2)
    rain = (rng.random(n) < 0.3).astype(float)
    design = np.column_stack([np.ones(n), distance, weight, rain])
    minutes = (design @ TRUTH + rng.normal(0.0, NOISE, n)).round(2)
    return np.column_stack([distance, weight, rain, minutes])


class Play:
    """The stream at its pace, and the killings, at moments spread over it."""

    def __init__(
        self, spec: Spec, bus: Bus, supervisor: Supervisor, data: NDArray[np.float64], options: argparse.Namespace
    ) -> None:
        self.spec, self._bus, self._supervisor, self._data = spec, bus, supervisor, data
        self._rng = random.Random(options.seed)  # noqa: S311 (whom to kill is not a secret)
        self._started: float | None = None
        self._seconds = options.seconds
        gaps = [(i + self._rng.uniform(0.2, 0.8)) / max(1, options.kills) for i in range(options.kills)]
        self._moments = [options.seconds * gap for gap in gaps]
        self._mark: IdleMark | None = None
        self.sent = 0
        self.killed: list[str] = []

    def tick(self, status: Status) -> None:
        if self._started is None:
            if status.snapshot is None:
                return  # no snapshot yet: the processes are still starting
            self._started = time.monotonic()
        elapsed = time.monotonic() - self._started
        due = min(len(self._data), int(len(self._data) * elapsed / self._seconds))
        if due > self.sent:
            publish_rows(self.spec, self._bus, _rows(self._data[self.sent : due]))
            self.sent = due
        while self._moments and elapsed >= self._moments[0]:
            self._moments.pop(0)
            self._kill()
        if self.sent == len(self._data) and self._mark is None:
            self._mark = IdleMark(self.spec, self._bus)

    def finished(self, status: Status) -> bool:
        return self._mark is not None and self._mark.reached(status.snapshot)

    def _kill(self) -> None:
        """kill -9, workers and master in turn."""
        masters = len(self.killed) % 3 == 2
        wanted = "master" if masters else "worker"
        alive = [c for c in self._supervisor.children if c.alive and c.name.startswith(wanted)]
        if alive:
            victim = self._rng.choice(alive)
            assert victim.process is not None  # noqa: S101 (alive)
            victim.process.kill()
            self.killed.append(victim.name)


def _rows(data: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    for distance, weight, rain, minutes in data.tolist():
        yield {"distance_km": distance, "weight_kg": weight, "rain": int(rain), "minutes": minutes}


class Screen:
    """The estimates with their 95% intervals, redrawn in place on a terminal, now and then elsewhere."""

    def __init__(self) -> None:
        self._stream = raw(sys.stdout)
        self._live = self._stream.isatty()
        self._shown_at = 0.0
        self._height = 0

    def show(self, play: Play, status: Status, last: bool = False) -> None:
        now = time.monotonic()
        if status.snapshot is None or status.snapshot.n_events < ENOUGH:
            return
        if not last and now - self._shown_at < (0.2 if self._live else 2.0):
            return
        self._shown_at = now
        lines = self._lines(play, PosteriorSnapshot(play.spec, status.snapshot))
        if self._live and self._height:
            self._stream.write(f"\x1b[{self._height}A")
        for line in lines:
            self._stream.write(f"{fitting(line)}\x1b[K\n" if self._live else f"{line}\n")
        self._stream.flush()
        self._height = len(lines)

    def _lines(self, play: Play, found: PosteriorSnapshot) -> list[str]:
        killed = f", {len(play.killed)} killed, last {play.killed[-1]}" if play.killed else ""
        head = f"{found.n_events:>7,} of {play.sent:,} parcels, version {found.version}{killed}"
        mean, sd = found.mean["weights"], found.sd["weights"]
        rows = [
            f"  {NAMES[i]:<8} {interval(mean[i], sd[i], TRUTH[i], SCALE[i])} {mean[i]:8.3f} ± {sd[i]:.3f}"
            for i in range(4)
        ]
        return [head, *rows]


def interval(mean: float, sd: float, centre: float, scale: float) -> str:
    """A 95% interval on an axis around the truth, which the bar in the middle marks."""
    cells = [" "] * PLOT
    ends = (mean - 1.96 * sd, mean, mean + 1.96 * sd)
    low, middle, high = (round((x - centre) / scale * (PLOT // 2)) + PLOT // 2 for x in ends)
    for i in range(max(0, low), min(PLOT - 1, high) + 1):
        cells[i] = "─"
    cells[PLOT // 2] = "┼" if cells[PLOT // 2] == "─" else "│"
    if 0 <= middle < PLOT:
        cells[middle] = "●"
    return "".join(cells)


def exact(data: NDArray[np.float64]) -> NDArray[np.float64]:
    """The batch posterior means by the textbook: weights (4), then the noise variance; default prior of the model."""
    design = np.column_stack([np.ones(len(data)), data[:, :3]])
    target = data[:, 3]
    precision = np.diag([1e-6, 1.0, 1.0, 1.0]) + design.T @ design
    weights = np.linalg.solve(precision, design.T @ target)
    rate = 1.0 + 0.5 * (target @ target - weights @ precision @ weights)
    return np.append(weights, rate / (1.0 + len(data) / 2 - 1))


def report(found: PosteriorSnapshot | None, data: NDArray[np.float64], killed: list[str]) -> int:
    """The stream's posterior beside the exact one; 1 if they differ."""
    if found is None or found.n_events != len(data):
        print(f"\nended early: {found.n_events if found else 0:,} of {len(data):,} parcels", file=sys.stderr)
        return 1
    got = np.append(found.mean["weights"], found.mean["noise_variance"])
    sds = np.append(found.sd["weights"], found.sd["noise_variance"])
    want, truth = exact(data), np.append(TRUTH, NOISE**2)
    kills = counted(len(killed), "kill") + (f" ({' '.join(killed)})" if killed else "")
    print(f"\n{counted(found.n_events, 'parcel')}, {kills}, none lost, none counted twice:\n")
    table = [
        [NAMES[i], f"{truth[i]:g}", f"{got[i]:.9f}", f"{sds[i]:.4f}", f"{want[i]:.9f}", f"{abs(got[i] - want[i]):.1e}"]
        for i in range(5)
    ]
    print_table(["", "truth", "from the stream", "sd", "exact batch", "difference"], table)
    worst = float(np.max(np.abs(got - want) / np.abs(want)))
    print(f"\nworst relative difference {worst:.1e} ({'exact' if worst < 1e-9 else 'NOT exact'}, at most 1e-9)")
    return 0 if worst < 1e-9 else 1
