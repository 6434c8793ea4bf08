"""Topics of documents from a file through `up --until-idle`: every word once, and as good as a fit without a bus."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import connect, fit, load_spec
from tests.faults.buses import params_with
from tests.faults.programs import Programs, document

ROWS = [("svb", 1, 1), ("svb", 3, 2), ("svi", 3, 1)]
"""Method, workers, shards."""
Rows = list[dict[str, list[str]]]
IN_EVERY_RUN = {"embedded": [ROWS[0], ROWS[2]], "kafka": [ROWS[1]]}
LATER = {bus: [each for each in ROWS if each not in rows] for bus, rows in IN_EVERY_RUN.items()}
N, SUBJECTS, WORDS = 3000, 4, 30
TOPICS = 12
"""More than there are subjects, so that few orders of the documents end with two subjects in one topic."""
MOST_LOST = 0.12
"""Nats a word. Fits of the same documents in 16 orders differ by 0.016 (sd, svb; svi 0.003): two by 5 sd at most."""


def corpus(n: int, seed: int) -> list[list[str]]:
    """Documents of one or two subjects, each subject with words of its own and a few of all."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        theta = rng.dirichlet(np.full(SUBJECTS, 0.15))
        subjects = rng.choice(SUBJECTS, rng.integers(5, 40), p=theta)
        ranks = np.minimum(rng.geometric(0.12, len(subjects)), WORDS)
        common = rng.random(len(subjects)) < 0.2
        found.append(
            [f"all{r}" if c else f"s{s}w{r}" for s, r, c in zip(subjects.tolist(), ranks.tolist(), common, strict=True)]
        )
    return found


def write(folder: Path, documents: list[list[str]], method: str, shards: int) -> tuple[Path, Path]:
    model = {"kind": "lda", "field": "words", "topics": TOPICS, "shards": shards}
    inference = {"method": method, "minibatch": 250, "linger_ms": 0}
    spec, data = folder / "spec.yaml", folder / "data.ndjson"
    spec.write_text(json.dumps({"name": "topics", "data": {"partitions": 3}, "model": model, "inference": inference}))
    bad: list[Any] = [{"words": "text"}, {"words": ["a", ""]}, {"words": {"a": 0}}]
    rows = [{"words": words} for words in documents]
    data.write_text("".join(json.dumps(row) + "\n" for row in [*rows[:50], *bad, *rows[50:]]))
    return spec, data


def check(programs: Programs, bus_url: str, method: str, workers: int, shards: int) -> None:
    documents, held_out = corpus(N, 1), [{"words": words} for words in corpus(300, 2)]
    spec, data = write(programs.folder, documents, method, shards)
    programs.run("up", spec, "--data", data, "--workers", workers, "--until-idle", "--bus", bus_url)
    found = document(spec, bus_url)
    assert (found["n_events"], found["n_dead_lettered"], found["n_rejected"]) == (N, 3, 0)
    assert found["parameters"]["vocabulary"] == sorted({word for words in documents for word in words})
    natural = np.array(found["natural"])
    if method == "svb":
        total = sum(map(len, documents))
        np.testing.assert_allclose(natural.sum() - 0.01 * natural.size, total, rtol=1e-9)
    with connect(bus_url) as bus:
        seen = bus.snapshot(load_spec(spec))
    assert seen is not None
    np.testing.assert_array_equal(seen.posterior.natural, natural)
    serial = fit(load_spec(spec), [{"words": words} for words in documents])
    alone = unigram(documents, held_out)
    gained, possible = quality(seen, held_out) - alone, quality(serial, held_out) - alone
    assert possible > 0.4
    assert gained > possible - MOST_LOST


@pytest.mark.parametrize(("bus_url", "method", "workers", "shards"), params_with(IN_EVERY_RUN), indirect=["bus_url"])
def test_topics_have_every_word_and_predict_as_a_fit_does(
    programs: Programs, bus_url: str, method: str, workers: int, shards: int
) -> None:
    check(programs, bus_url, method, workers, shards)


@pytest.mark.long
@pytest.mark.parametrize(("bus_url", "method", "workers", "shards"), params_with(LATER), indirect=["bus_url"])
def test_topics_of_the_others(programs: Programs, bus_url: str, method: str, workers: int, shards: int) -> None:
    check(programs, bus_url, method, workers, shards)


def quality(found: Any, rows: Rows) -> float:
    """Nats a word of documents that were not absorbed; half of the words are scored."""
    return float(found.log_predictive(rows).sum() / (sum(len(row["words"]) for row in rows) / 2))


def unigram(documents: list[list[str]], rows: Rows) -> float:
    """The same by the frequency of words alone."""
    counts = Counter(word for words in documents for word in words)
    total = counts.total() + 0.01 * len(counts)
    return float(np.mean([np.log((counts[word] + 0.01) / total) for row in rows for word in row["words"]]))
