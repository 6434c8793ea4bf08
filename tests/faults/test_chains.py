"""Chains that are killed again and again publish, bit by bit, the draws of chains that were never disturbed."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import fit, load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.models.model import Matrix
from streaminfer.runtime import names
from streaminfer.runtime.api.draws import DrawsOnBus, Selection
from streaminfer.runtime.api.snapshot import events_of
from streaminfer.runtime.loading import produce
from streaminfer.sampling import flat
from streaminfer.sampling.segments import Segment
from streaminfer.spec import Spec
from streaminfer.wire.avro import DECLARED
from tests.faults.buses import kafka_later, params_with
from tests.faults.chains import SESSION_S, Job, serve
from tests.faults.forks import Forked
from tests.faults.programs import Programs, document, wait_for
from tests.simulation.undisturbed import Undisturbed

KILLS, MORE_KILLS = 8, 20
"""In every run, and with all methods."""
FIRST, ALL = 60, 150
"""Rows of the two segments."""
CORRECTED = "sgld_corrected"
"""Steps of sgld that a test accepts."""
SECONDS = 3.0
"""That a chain rests in a segment, so that there is time to kill it."""


def rows_of(method: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng(4)
    if method == "sgrld":
        return [{"c": "abc"[i]} for i in rng.choice(3, ALL, p=[0.2, 0.3, 0.5])]
    x = rng.normal(size=(ALL, 2)).round(6)
    y = rng.random(ALL) < 1 / (1 + np.exp(-(0.5 + x @ [1.5, -1.0])))
    return [{"a": a, "b": b, "y": int(each)} for (a, b), each in zip(x.tolist(), y, strict=True)]


def write_spec(path: Path, method: str, **changes: Any) -> Path:
    model: dict[str, Any] = {"kind": "logistic_regression", "features": ["a", "b"], "target": "y"}
    if method == "sgrld":
        model = {"kind": "categorical", "field": "c", "categories": ["a", "b", "c"]}
    inference: dict[str, Any] = {"method": method, "chains": 2, "draws": 60, "snapshot_ms": 20, **changes}
    if method == CORRECTED:
        inference |= {"method": "sgld", "correct": {"rule": "bernstein_serfling", "error": 0.2}, "step": {"size": 1.0}}
    if method.startswith("sg") or method == "subsampled_mh":
        inference |= {"minibatch": 16, "thin": 64, "warmup": 640}
    if method == "poisson_mh":
        inference |= {"thin": 1024, "warmup": 64}
    if method == "flymc":
        inference |= {"thin": 16, "warmup": 160}
    document = {"name": path.stem, "data": {"partitions": 1}, "model": model, "inference": inference}
    path.write_text(json.dumps(document))
    return path


class Chains:
    """A master and two samplers with two chains, whose rows come in two parts."""

    def __init__(self, folder: Path, url: str, method: str, seed: int, kills: int) -> None:
        self._kills = kills
        self.path = write_spec(folder / f"killed-{method.replace('_', '-')}.yaml", method)
        self.spec, self._random, self._folder = load_spec(self.path), random.Random(seed), folder
        self.rows = rows_of(method)
        self.stops = {kills // 2} if kills == KILLS else {kills // 4, 3 * kills // 4}
        """After so many kills a process is stopped past its session: that takes ten seconds."""
        self._stack = ExitStack()
        self._bus = self._stack.enter_context(open_bus(url))
        names.create_topics(self.spec, self._bus)
        job = Job(self.path, url, folder / f"scratch-{method}", SECONDS / self._n_blocks())
        self._job, self._running = job, dict[str, Forked]()
        self.n_killed = self.n_stopped = 0

    def _n_blocks(self) -> int:
        """About as many as a chain has in a segment."""
        settings = self.spec.sampling
        assert settings is not None
        many = settings.method in {"mh", "mala", "gibbs"}
        return 2 * settings.draws * (settings.thin or 1) if many else 70

    def __enter__(self) -> Chains:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def produce(self, begin: int, end: int) -> None:
        path = self._folder / f"{self.path.stem}-{begin}.ndjson"
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows[begin:end]))
        for _ in produce.Loader(self.spec, self._bus, path).run():
            pass

    def start(self, name: str) -> None:
        service, _, _ = name.partition("-")
        self._running[name] = self._stack.enter_context(Forked(serve, service, name, self._job))

    def commits(self) -> int:
        """Records of draws and snapshots so far."""
        return sum(self._bus.ends(names.topic(self.spec, "draws")).values())

    def moves(self) -> None:
        """Waits until a chain has committed something since now, if there is anything left to do."""
        before, looked_at = self.commits(), time.monotonic()

        def moved() -> bool:
            nonlocal looked_at
            if self.commits() > before:
                return True
            if time.monotonic() - looked_at < 2.0:
                return False
            looked_at = time.monotonic()
            return self.is_complete()

        wait_for(moved, "a chain moves", interval=0.05)

    def is_complete(self) -> bool:
        """Whether all chains have all draws of all rows."""
        settings, draws = self.spec.sampling, self.draws()
        assert settings is not None
        return [len(draws.get((chain, 1), [])) for chain in range(2)] == [settings.draws] * 2

    def draws(self) -> dict[tuple[int, int], Matrix]:
        """By chain and segment, as users read them."""
        found: dict[tuple[int, int], list[Matrix]] = {}
        for segment in (0, 1):
            reader = DrawsOnBus(self.spec, self._bus, DECLARED, Selection(segment))
            for block in reader.all():
                found.setdefault((block.chain, segment), []).append(block.values)
            reader.close()
        return {place: np.concatenate(parts) for place, parts in found.items()}

    def kill(self, name: str) -> None:
        """-9, and a new process in its place; now and then without the rows of its segment."""
        self._running[name].send(signal.SIGKILL)
        self.n_killed += 1
        if self._random.random() < 0.4:
            shutil.rmtree(self._job.scratch, ignore_errors=True)
        self.start(name)

    def stop(self, name: str) -> None:
        """Past its session, so that another process may have its chain; then it wakes up.

        Nobody can write to an embedded bus whose lock it holds: then once more.
        """
        for _ in range(5):
            before, victim = self.commits(), self._running[name]
            victim.send(signal.SIGSTOP)
            until = time.monotonic() + 4 * SESSION_S
            while time.monotonic() < until and self.commits() == before and not self.is_complete():
                time.sleep(0.2)
            if self.commits() > before or self.is_complete():
                time.sleep(SESSION_S + 0.5)
                victim.send(signal.SIGCONT)
                self.n_stopped += 1
                return
            victim.send(signal.SIGCONT)
            wait_for(lambda at=before: self.commits() > at or self.is_complete(), "its transaction ends")
        raise AssertionError("it was stopped inside a transaction each time")

    def play(self) -> None:
        """Kills in the first segment, between the segments and in the second; then peace."""
        self.produce(0, FIRST)
        for name in ("master-0", "sampler-0", "sampler-1"):
            self.start(name)
        wait_for(lambda: self.commits() > 0, "a chain begins")
        self.produce(FIRST, ALL)
        while self.n_killed < self._kills:
            self.moves()
            time.sleep(self._random.uniform(0.0, 0.1))
            self.kill(self._random.choice(["sampler-0", "sampler-0", "sampler-1", "sampler-1", "master-0"]))
            if self.n_killed in self.stops:
                self.stop(self._random.choice(["sampler-0", "sampler-1"]))
        wait_for(self.is_complete, "all draws are there", timeout=240)


def undisturbed(spec: Spec, rows: Sequence[dict[str, Any]]) -> Undisturbed:
    """Chains on the first rows, then on all."""
    assert spec.sampling is not None
    numbers = events_of(spec.event_fields, list(rows)).numbers
    ends = [FIRST, ALL]
    made = Undisturbed(spec, spec.sampling, lambda segment: spec.target.rows(numbers[: ends[segment.number]]))
    for number in range(2):
        made.add(Segment(number, ()))
    return made


def check(spec: Spec, rows: Sequence[dict[str, Any]], found: dict[tuple[int, int], Matrix]) -> None:
    wanted = undisturbed(spec, rows)
    for chain in range(2):
        for segment in range(2):
            np.testing.assert_array_equal(found[chain, segment], wanted.of(chain, segment).values)


def killed(folder: Path, url: str, method: str, seed: int, kills: int) -> None:
    with Chains(folder, url, method, seed, kills) as chains:
        chains.play()
        assert (chains.n_killed, chains.n_stopped) == (kills, len(chains.stops))
        check(chains.spec, chains.rows, chains.draws())


IN_EVERY_RUN = {"embedded": [("mh sgld flymc",)], "kafka": [("poisson_mh",)]}
"""One that reads all events, one that goes along gradients, and two that decide on subsets."""
EVERY = ("mh mala gibbs", "sgld sghmc sgnht", f"sgrld subsampled_mh {CORRECTED}", "poisson_mh flymc")
LATER = {bus: [(methods,) for methods in EVERY] for bus in IN_EVERY_RUN}


def killed_side_by_side(folder: Path, url: str, methods: str, kills: int) -> None:
    """Chains that rest leave room for others."""
    with ThreadPoolExecutor() as pool:
        for each in [pool.submit(killed, folder, url, method, i, kills) for i, method in enumerate(methods.split())]:
            each.result()


@pytest.mark.parametrize(("bus_url", "methods"), params_with(IN_EVERY_RUN), indirect=["bus_url"])
def test_killed_chains_publish_the_same_draws(tmp_path: Path, bus_url: str, methods: str) -> None:
    killed_side_by_side(tmp_path, bus_url, methods, KILLS)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("bus_url", "methods"), params_with(LATER), indirect=["bus_url"])
def test_chains_of_every_method_that_are_killed_more_often(tmp_path: Path, bus_url: str, methods: str) -> None:
    killed_side_by_side(tmp_path, bus_url, methods, MORE_KILLS)


@kafka_later
@pytest.mark.parametrize("method", ["gibbs"])
def test_services_and_fit_publish_the_same_draws(programs: Programs, bus_url: str, method: str) -> None:
    """`up --until-idle` twice, with more rows in between, ends each time when all rows are in a complete segment."""
    path, rows, found = write_spec(programs.folder / "peaceful.yaml", method), rows_of(method), {}
    for segment, (begin, end) in enumerate([(0, FIRST), (FIRST, ALL)]):
        data = programs.folder / f"{begin}.ndjson"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows[begin:end]))
        programs.run("up", path, "--data", data, "--until-idle", "--bus", bus_url)
        assert document(path, bus_url)["n_events"] == end
        for draw in programs.run("draws", path, "--json", "--bus", bus_url).documents:
            assert draw["segment"] == segment
            found.setdefault((draw["chain"], segment), []).append(draw["parameters"]["weights"])
    spec = load_spec(path)
    check(spec, rows, {place: np.array(values) for place, values in found.items()})
    fitted: Any = fit(spec, rows[:FIRST])
    together = np.concatenate([found[0, 0], found[1, 0]])
    np.testing.assert_array_equal(fitted.snapshot.payload.sampled.draws, together)
    assert flat.size(spec.target.shapes) == together.shape[1]
