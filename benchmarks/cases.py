"""What is measured: regressions on 16 features, keyed posteriors, mixtures, topic models, samplers, measures."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from benchmarks import (
    combiner_cases,
    costs,
    http_cases,
    keyed_cases,
    latency,
    latent_cases,
    loading_cases,
    measuring_cases,
    ours,
    sampler_cases,
    subset_cases,
    topic_cases,
)
from benchmarks.contenders.task import Outcome, Task
from benchmarks.measure import Aim, Case, Ratio, Samples, rate
from benchmarks.processes import Failed, contend
from benchmarks.proof import EXACT, ROOM
from benchmarks.workload import Workload, load, matrix
from streaminfer.bus.connect import open_bus

OURS, BARE, RIVER, QUIX = "streaminfer", "bare loop", "River", "Quix Streams"
RATE = 5_000
ROWS = {"minibatch": 16}
"""Records of 512 events: a minibatch of 8,192."""


@dataclass(frozen=True)
class Sizes:
    """Events of a run, by who runs: some seconds. `keys` with an event each, `keyed` events, LDA's `documents`.

    Samplers take `steps`; combiners have the draws of so many `subposteriors`.
    """

    avro: int
    rows: int
    json: int
    river: int
    quix: int
    keys: int
    keyed: int
    documents: int
    steps: int
    subposteriors: int
    seconds: float
    repetitions: int


# Multiples of 16 partitions times a minibatch, so that no minibatch has to linger.
QUICK = Sizes(
    avro=65_536, rows=1 << 20, json=32_768, river=10_000, quix=10_000, keys=50_000, keyed=1 << 18,
    documents=8_192, steps=32_000, subposteriors=10, seconds=4, repetitions=1,
)  # fmt: skip
FULL = Sizes(
    avro=262_144, rows=1 << 21, json=131_072, river=50_000, quix=40_000, keys=1_000_000, keyed=1 << 20,
    documents=24_576, steps=128_000, subposteriors=100, seconds=15, repetitions=5,
)  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """Where the cases run. `kafka` is the address of a broker, None if nothing is measured on Kafka."""

    folder: Path
    sizes: Sizes
    kafka: str | None
    broker: int | None = None
    """The broker's process, if it runs here."""

    @property
    def kafka_url(self) -> str:
        return f"kafka://{self.kafka}"

    @property
    def embedded_url(self) -> str:
        return f"embedded:{self.folder / 'bus'}"

    def ours(self, url: str, work: Workload, workers: int = 1) -> Outcome:
        self._load(url, work)
        mine = ours.prepare(self.folder, url, work, ROWS if work.form == "rows" else {})
        return checked(OURS, work, ours.absorb(mine, work, workers))

    def bare(self, work: Workload, loops: int = 1) -> Outcome:
        """The bare loop, or several that share the partitions and run at once."""
        self._load(self.kafka_url, work)
        task = Task(work, str(self.kafka))
        shares = [tuple(range(i, work.partitions, loops)) for i in range(loops)]
        with ThreadPoolExecutor(loops) as threads:
            found = list(threads.map(lambda share: contend("bare_kafka", replace(task, partitions=share)), shares))
        return checked(BARE, work, together(found))

    def bare_embedded(self, work: Workload) -> Outcome:
        self._load(self.embedded_url, work)
        return checked(BARE, work, contend("bare_embedded", Task(work, str(self.folder / "bus"))))

    def bare_steps(self, work: Workload) -> Outcome:
        return checked(BARE, work, contend("bare_steps", Task(work)))

    def river(self, work: Workload) -> Outcome:
        return checked(RIVER, work, contend("river", Task(work)))

    def quix(self) -> Outcome:
        work = Workload("avro", self.sizes.quix)
        self._load(self.kafka_url, work)
        return checked(QUIX, work, contend("quix", Task(work, str(self.kafka), label=f"quix-{uuid.uuid4().hex[:12]}")))

    def _load(self, url: str, work: Workload) -> None:
        with open_bus(url) as bus:
            load(bus, work)


@cache
def _squares(work: Workload) -> float:
    return float(np.sum(matrix(work)[:, -1] ** 2))


def checked(who: str, work: Workload, outcome: Outcome) -> Outcome:
    """A rate counts only where the sums show that all of the work was done."""
    if not np.isclose(outcome.sum_of_squares, _squares(work), rtol=ROOM.get(work.kind, EXACT)):
        raise Failed(f"{who}: the sum of y² is {outcome.sum_of_squares!r}, of the events it is {_squares(work)!r}")
    return outcome


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """What several did at once, from the first beginning to the last end."""
    return Outcome(
        sum(each.events for each in outcomes),
        min(each.began for each in outcomes),
        max(each.ended for each in outcomes),
        sum(each.sum_of_squares for each in outcomes),
    )


def cases(bench: Bench) -> Iterator[Case]:
    """Every case that can be measured here, in the order of the table."""
    sizes = bench.sizes
    avro, rows, json = Workload("avro", sizes.avro), Workload("rows", sizes.rows), Workload("json", sizes.json)
    river = rate(RIVER, lambda: bench.river(Workload("memory", sizes.river)))
    if bench.kafka is not None:
        url = bench.kafka_url
        one = rate(OURS, lambda: bench.ours(url, avro))
        yield Case(
            "a",
            "Kafka, one Avro record an event, one worker",
            "events/s",
            {OURS: one, BARE: rate(BARE, lambda: bench.bare(avro)), RIVER: river, QUIX: rate(QUIX, bench.quix)},
            [_over(BARE, 0.7), _over(RIVER, 1.0), _over(QUIX, 4.0)],
        )
        yield Case(
            "b",
            "Kafka, format rows (512 events a record), one worker",
            "events/s",
            {OURS: rate(OURS, lambda: bench.ours(url, rows)), BARE: rate(BARE, lambda: bench.bare(rows)), RIVER: river},
            [_over(BARE), _over(RIVER, 20.0)],
        )
    yield Case(
        "c",
        "embedded, one JSON record an event, one worker",
        "events/s",
        {
            OURS: rate(OURS, lambda: bench.ours(bench.embedded_url, json)),
            BARE: rate(BARE, lambda: bench.bare_embedded(json)),
            RIVER: river,
        },
        [_over(BARE), _over(RIVER, 1.5)],
    )
    if bench.kafka is not None:
        yield two_workers(bench, avro)
        yield delay("e1", "Kafka", bench, bench.kafka_url)
    yield delay("e2", "embedded", bench, bench.embedded_url)
    if bench.kafka is not None:
        yield keyed_cases.many("f1", "Kafka", bench.folder, bench.kafka_url, sizes.keys)
    yield keyed_cases.many("f2", "embedded", bench.folder, bench.embedded_url, sizes.keys)
    if bench.kafka is not None:
        yield growth(bench)
        yield keyed_cases.growth("g2", "Kafka", bench.folder, bench.kafka_url, sizes.keyed)
    yield from topic_cases.cases(bench.folder, bench.embedded_url, sizes.documents)
    embedded = partial(bench.ours, bench.embedded_url)
    yield from latent_cases.cases(embedded, bench.bare_steps, bench.river, sizes.json, sizes.river)
    yield from sampler_cases.cases(bench.folder, bench.embedded_url, sizes.steps)
    yield from combiner_cases.cases(bench.folder, bench.embedded_url, sizes.subposteriors, sizes.steps)
    yield from measuring_cases.cases()
    yield from subset_cases.cases(bench.folder, bench.embedded_url, sizes.steps)
    kafka = None if bench.kafka is None else bench.kafka_url
    yield from costs.cases(bench.folder, bench.embedded_url, kafka, bench.broker, avro, rows, json)
    yield from loading_cases.cases(bench.folder, bench.embedded_url, kafka, sizes.avro)
    yield http_cases.case("w", bench.folder, bench.embedded_url, RATE, sizes.seconds)


def two_workers(bench: Bench, work: Workload) -> Case:
    two, both = f"{OURS}, two workers", "two bare loops"
    return Case(
        "d",
        "Kafka, one Avro record an event, two workers",
        "events/s",
        {
            OURS: rate(OURS, lambda: bench.ours(bench.kafka_url, work)),
            two: rate(two, lambda: bench.ours(bench.kafka_url, work, workers=2)),
            both: rate(both, lambda: bench.bare(work, loops=2)),
        },
        [Ratio("of one worker", two, OURS), Ratio(f"of {both}", two, both, Aim(">=", 0.85))],
    )


def delay(letter: str, where: str, bench: Bench, url: str) -> Case:
    return Case(
        letter,
        f"{where}, from append to visible snapshot at {RATE:,} events/s",
        "ms",
        {OURS: lambda: latency.measure(bench.folder, url, RATE, bench.sizes.seconds)},
        aims={"p50": Aim("<=", 150), "p99": Aim("<=", 500)},
    )


def growth(bench: Bench) -> Case:
    """The same with more or fewer features and partitions; 16 and 4 are those of the other cases."""
    base = Workload("avro", bench.sizes.avro)
    others = [*(replace(base, d=d) for d in (4, 16, 64)), *(replace(base, partitions=p) for p in (1, 16))]
    named = {f"d = {work.d}, {work.partitions} partitions": work for work in others}

    def run(name: str, work: Workload) -> Callable[[], Samples]:
        return rate(name, lambda: bench.ours(bench.kafka_url, work))

    standard = f"d = {base.d}, {base.partitions} partitions"
    return Case(
        "g1",
        "Kafka, one Avro record an event, one worker: growth",
        "events/s",
        {name: run(name, work) for name, work in named.items()},
        [Ratio(f"{name} of {standard}", name, standard) for name in named if name != standard],
    )


def _over(peer: str, at_least: float | None = None) -> Ratio:
    return Ratio(f"of {peer}", OURS, peer, None if at_least is None else Aim(">=", at_least))
