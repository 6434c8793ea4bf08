"""Topics in shards, with several workers and partitions, while everything is killed: every word is in them once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.faults.identical import Approximate, lda
from tests.faults.programs import Programs
from tests.faults.test_kills import play


@dataclass(frozen=True)
class Counted(Approximate):
    """By svb each word is divided among topics, so their rows sum to the words there are."""

    def check(self, document: dict[str, Any]) -> None:
        super().check(document)
        words = [word for (text,) in self.rows for word in text.split()]
        natural, vocabulary = np.array(document["natural"]), document["parameters"]["vocabulary"]
        assert vocabulary == sorted(set(words))
        places = {word: i for i, word in enumerate(vocabulary)}
        counts = np.bincount([places[word] for word in words], minlength=len(places))
        np.testing.assert_allclose(natural.sum(axis=0) - 0.01 * len(natural), counts, rtol=1e-9)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_workers_and_masters_of_topics_lose_no_word_and_repeat_none(programs: Programs, bus_url: str) -> None:
    case = lda(24_000)
    sharded = Counted({**case.model, "shards": 2}, case.header, case.rows, case.natural, case.parameters)
    play(programs, bus_url, sharded, 5, seed=12, partitions=3, minibatch=200)
