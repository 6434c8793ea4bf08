"""Topics by the real processes: the rate of absorbing documents, and the bytes of what workers send."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks import ours, topic_spec
from benchmarks.corpus import Corpus, given
from benchmarks.measure import Samples
from benchmarks.ours import Ours
from benchmarks.processes import Failed
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Partition
from streaminfer.runtime import names
from streaminfer.runtime.following.shards import Shards
from streaminfer.variational.lda.words import head_of
from streaminfer.variational.snapshot import Snapshot

SHARDS = 2
RATE, SPARSE, DENSE = "streaminfer", "increments, sparse", "increments, dense"


def measure(folder: Path, url: str, corpus: Corpus) -> Samples:
    """One worker and a master for each shard, until all documents are in the topics."""
    mine = ours.written(folder, url, lambda name: topic_spec.text_of(name, corpus, SHARDS))
    with open_bus(url) as bus, ExitStack() as stack:
        topic_spec.load(bus, corpus)
        names.create_topics(mine.spec, bus)
        shards = stack.enter_context(closing(Shards(mine.spec, bus)))
        ours.start(stack, mine, topic_spec.PARTITIONS, workers=1)
        first, last = _follow(shards, corpus.documents)
        _check(mine, shards, corpus)
        sent = _bytes(bus, names.topic(mine.spec, "increments"))
    done = ours.outcome(first, last, corpus.documents, float("nan"))
    minibatches = corpus.documents / corpus.minibatch
    return {RATE: done.rate, SPARSE: sent / minibatches, DENSE: 8.0 * corpus.topics * corpus.words}


def _follow(shards: Shards, documents: int) -> tuple[Snapshot, Snapshot]:
    """The first snapshot of all shards with documents, and the first with all of them."""
    deadline = time.monotonic() + ours.PATIENCE_S
    first: Snapshot | None = None
    while time.monotonic() < deadline:
        shards.poll(0.02)
        found = shards.snapshot
        if found is not None and found.n_events and first is None:
            first = found
        if found is not None and first is not None and found.n_events >= documents:
            return first, found
    raise Failed(f"the topics did not get {documents} documents within {ours.PATIENCE_S:g} seconds")


def _check(mine: Ours, shards: Shards, corpus: Corpus) -> None:
    """Every word of every document was counted once."""
    total = given(corpus).learned.counts.sum()
    counted = sum(head_of(mine.spec.model, each.payload.statistics).n_words for each in shards.snapshots)
    if counted != total:
        raise Failed(f"{counted} words in the topics of {total:g}")


def _bytes(bus: Bus, topic: str) -> int:
    """All records of a topic, also of minibatches that had to be learned again."""
    ends = bus.ends(topic)
    places = {Partition(topic, index): at for index, at in bus.starts(topic).items()}
    size = 0
    with bus.reader(places) as reader:
        while any(reader.position(place) < ends[place.index] for place in places):
            for part in reader.poll(1.0).slices:
                size += sum(len(record.value or b"") for record in part.records)
    return size
