"""A rig for topics of words, and documents for it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.following.shards import Shards, rows_of
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.lda.words import ShardRows
from tests.runtime.rig import Rig

Rows = list[dict[str, Any]]
SERIAL: dict[str, Any] = {"linger_ms": 0, "max_staleness": 0}
PLACES = ["lake", "hill", "wood", "path", "peak", "road"]
MEALS = ["soup", "rice", "bean", "salt", "fish", "bread"]


def word_spec(partitions: int = 1, model: dict[str, Any] | None = None, **inference: Any) -> Spec:
    """Nothing lingers, every change is published at once."""
    return parse_spec(
        {
            "name": "demo",
            "data": {"partitions": partitions},
            "model": {"kind": "lda", "field": "words", "topics": 3, **(model or {})},
            "inference": {"minibatch": 8, "linger_ms": 0, "snapshot_ms": 1, **inference},
        }
    )


def documents(n: int, seed: int = 1, rare: bool = True) -> Rows:
    """Documents of two subjects; each has a word that was never used before, and some are objects, or empty."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        subject = PLACES if rng.random() < 0.5 else MEALS
        words = [subject[j] for j in rng.integers(0, 6, rng.integers(3, 15))]
        words += [f"rare-{seed}-{i}"] * rare
        if i % 17 == 16:
            words = []
        rows.append({"words": {word: words.count(word) for word in words} if i % 3 == 0 else words})
    return rows


def n_words(rows: Rows) -> int:
    """All words of documents, repeated ones as often as they are there."""
    return sum(sum(each.values()) if isinstance(each, dict) else len(each) for each in (row["words"] for row in rows))


class WordRig(Rig):
    """Documents on the data topic, and the topics that come of them."""

    def send_rows(self, rows: Rows, partition: int = 0) -> None:
        self.send(*[json.dumps(row).encode() for row in rows], partition=partition)

    def found(self) -> PosteriorSnapshot:
        found = Connection(self.bus).snapshot(self.spec)
        assert found is not None
        return found

    def blocks(self) -> list[ShardRows]:
        shards = Shards(self.spec, self.bus, rows=rows_of(self.spec))
        shards.catch_up()
        blocks = shards.blocks
        shards.close()
        return blocks

    def assert_all_words(self, rows: Rows) -> None:
        """By svb every word of every document is in the topics once: rows sum to the words there are."""
        found = self.found()
        assert found.n_events == len(rows)
        assert found.topics is not None
        prior = self.spec.words.concentration * len(found.vocabulary) * len(found.topics.natural)
        np.testing.assert_allclose(found.topics.natural.sum() - prior, n_words(rows), rtol=1e-9)
        for block in self.blocks():
            rows_of_all = block.arena.statistics[: len(block.arena)]
            np.testing.assert_allclose(
                block.snapshot.payload.statistics[: rows_of_all.shape[1]], rows_of_all.sum(axis=0), rtol=1e-9
            )
