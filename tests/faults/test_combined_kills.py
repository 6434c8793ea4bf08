"""A combiner and samplers that are killed again and again: whoever reads the draws finds every version right."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Partition
from streaminfer.runtime import names
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.loading import produce
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.sampling import flat
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED
from tests.faults.buses import params_with
from tests.faults.chains import Job, serve
from tests.faults.forks import Forked
from tests.faults.outside import Outside
from tests.faults.programs import wait_for

J, CHAINS, DRAWS, WINDOW, SEED = 3, 2, 500, 600, 5
LOADS = (60, 150, 400)
"""Rows after each load: every one makes a segment due."""
SECONDS = 0.8
"""That a chain rests in a segment, so that there is time to kill it."""


def rows() -> list[dict[str, float]]:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(LOADS[-1], 2)).round(6)
    y = (x @ [1.5, -1.0] + rng.normal(0, 0.8, len(x))).round(6)
    return [{"a": a, "b": b, "y": t} for (a, b), t in zip(x.tolist(), y.tolist(), strict=True)]


class Combined:
    """A combiner and two samplers in processes of their own, and a reader of all that they write."""

    def __init__(self, folder: Path, url: str, correct: str, seed: int, kills: int) -> None:
        combine = {"by": "average", "correct": correct, "window": WINDOW}
        inference = {"method": "gibbs", "subposteriors": J, "chains": CHAINS, "draws": DRAWS, "seed": SEED}
        document = {
            "name": f"killed-{correct}",
            "data": {"partitions": 2 * J},
            "model": {"kind": "linear_regression", "features": ["a", "b"], "target": "y", "intercept": False},
            "inference": {**inference, "snapshot_ms": 20, "combine": combine},
        }
        path = folder / f"{correct}.yaml"
        path.write_text(json.dumps(document))
        self.spec, self._random, self._folder, self._kills = load_spec(path), random.Random(seed), folder, kills
        self._rows, self.n_killed = rows(), 0
        self._outside = Outside(J, CHAINS, SEED, WINDOW, correct == "importance")
        self._stack, self._running = ExitStack(), dict[str, Forked]()
        bus = self._bus = self._stack.enter_context(open_bus(url))
        names.create_topics(self.spec, bus)
        self._follower = self._stack.enter_context(closing(Follower(self.spec, bus)))
        assert self.spec.sampling is not None
        reader = DrawsReader(self.spec, self.spec.sampling, flat.size(self.spec.target.shapes), bus, DECLARED)
        self._reader = self._stack.enter_context(closing(reader))
        self.seen: list[Snapshot] = []
        self._job = Job(path, url, folder / f"scratch-{correct}", SECONDS / (2 * DRAWS))

    def __enter__(self) -> Combined:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def read(self) -> None:
        """Snapshots first: all that they are made of is on the bus before them."""
        self.seen += self._follower.poll(0.0)
        while not self._reader.at_end():
            for unit, draws, _ in self._reader.poll(0.2):
                self._outside.take(unit, draws)

    def produce(self, begin: int, end: int) -> None:
        path = self._folder / f"{self.spec.name}-{begin}.ndjson"
        path.write_text("".join(json.dumps(row) + "\n" for row in self._rows[begin:end]))
        for _ in produce.Loader(self.spec, self._bus, path).run():
            pass

    def read_rows(self) -> None:
        """All events of the data topic, for whoever computes outside."""
        topic, n = names.data_topic(self.spec), 0
        starts = {Partition(topic, index): start for index, start in self._bus.starts(topic).items()}
        with self._bus.reader(starts) as reader:
            while n < len(self._rows):
                for record in (each for part in reader.poll(0.5).slices for each in part.records):
                    event = json.loads(record.value or b"")
                    row = [event["a"], event["b"], event["y"]]
                    self._outside.add_row(record.partition.index, record.offset, row)
                    n += 1

    def start(self, name: str) -> None:
        service, _, _ = name.partition("-")
        self._running[name] = self._stack.enter_context(Forked(serve, service, name, self._job))

    def n_events(self) -> int:
        """Of the newest snapshot with all draws of its segments."""
        self.read()
        newest = self.seen[-1] if self.seen else None
        complete = newest is not None and _shown(newest).complete and _shown(newest).combined is not None
        return newest.n_events if newest is not None and complete else 0

    def kill(self, name: str) -> None:
        """-9, and a new process in its place; now and then without the rows of its segment."""
        self._running[name].send(signal.SIGKILL)
        self.n_killed += 1
        if self._random.random() < 0.3:
            shutil.rmtree(self._job.scratch, ignore_errors=True)
        self.start(name)

    def play(self) -> None:
        """Kills while the rows of each load are worked on, as many in each; then peace until they are all in."""
        for name in ("combiner-0", "sampler-0", "sampler-1"):
            self.start(name)
        for number, (begin, end) in enumerate(zip((0, *LOADS), LOADS, strict=False)):
            self.produce(begin, end)
            goal = self._kills * (number + 1) // len(LOADS)
            while self.n_killed < goal:
                time.sleep(self._random.uniform(0.1, 0.8))
                self.read()
                self.kill(self._random.choice(["combiner-0", "combiner-0", "sampler-0", "sampler-1"]))
            wait_for(lambda end=end: self.n_events() == end, f"{end} rows are combined", interval=0.1)  # type: ignore[misc]

    def check(self) -> int:
        """Every version, the first of them 1; how many combinations there were."""
        self.read_rows()
        assert [each.version for each in self.seen] == list(range(1, len(self.seen) + 1))
        checked = set()
        for snapshot in self.seen:
            combined = _shown(snapshot).combined
            if combined is None:
                assert snapshot.n_events == 0
                continue
            if combined.round in checked:
                continue
            checked.add(combined.round)
            wanted, found = self._outside.made(snapshot), PosteriorSnapshot(self.spec, snapshot)
            for told, again in ((found.mean, wanted.mean), (found.sd, wanted.sd)):
                values = np.append(told["weights"], told["noise_variance"])
                np.testing.assert_allclose(values, again, rtol=1e-9)
            assert (combined.k_hat is None) == (wanted.k_hat is None)
            if wanted.k_hat is not None:
                assert combined.k_hat == pytest.approx(wanted.k_hat, rel=1e-6)
                assert combined.log_evidence == pytest.approx(wanted.log_evidence, rel=1e-9)
            assert snapshot.n_events == sum(each.n_events for each in _shown(snapshot).subposteriors)
        return len(checked)


def _shown(snapshot: Snapshot) -> Any:
    assert snapshot.payload.sampled is not None
    return snapshot.payload.sampled.shown


def killed(folder: Path, url: str, correct: str, kills: int) -> None:
    with Combined(folder, url, correct, seed=kills, kills=kills) as combined:
        combined.play()
        assert combined.n_killed == kills
        n_combined = combined.check()
        assert n_combined >= len(LOADS), "each load is combined at least once"


IN_EVERY_RUN: dict[str, list[tuple[str]]] = {"embedded": [("importance",)], "kafka": []}
"""A broker takes a minute for as much. `test_combined` is on Kafka in every run."""
LATER = {"embedded": [("importance",), ("none",)], "kafka": [("importance",), ("none",)]}


@pytest.mark.parametrize(("bus_url", "correct"), params_with(IN_EVERY_RUN), indirect=["bus_url"])
def test_every_version_of_killed_processes_can_be_made_again(tmp_path: Path, bus_url: str, correct: str) -> None:
    killed(tmp_path, bus_url, correct, 6)


@pytest.mark.long
@pytest.mark.parametrize(("bus_url", "correct"), params_with(LATER), indirect=["bus_url"])
def test_more_kills(tmp_path: Path, bus_url: str, correct: str) -> None:
    killed(tmp_path, bus_url, correct, 20)
