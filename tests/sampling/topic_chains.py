"""Chains of topics for tests: models without a spec's limits, documents in memory, all draws of a chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.models.lda.documents import Documents
from streaminfer.models.lda.model import Lda
from streaminfer.models.targets.corpus import Corpus, rows_of
from streaminfer.models.targets.kinds.lda import Lda as Target
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import setting_up
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Settings, StepRule


def model(topics: int, words: int, alpha: float = 0.5, concentration: float = 0.5) -> Lda:
    names = tuple(f"w{i:04d}" for i in range(words))
    return Lda("words", topics, names, 1, 0, "mean", alpha, concentration)


def settings(**given: Any) -> Settings:
    """Shuffled minibatches, so that one of all documents has each of them once."""
    said: dict[str, Any] = dict.fromkeys(Settings.__dataclass_fields__) | {
        "method": "sgrld", "seed": 3, "chains": 1, "draws": 100, "thin": 1, "warmup": 20, "segment": {"growth": 1.5},
        "subposteriors": 1, "minibatch": 1000, "batches": "shuffled", "start": "prior", "transition": "cir",
        "step": StepRule(size=100.0),
    }  # fmt: skip
    return Settings(**{**said, **given})


def prepared(made: Lda, documents: Documents, said: Settings, unit: int = 0) -> Prepared:
    corpus = Corpus(Target(made), rows_of(documents))
    setup = setting_up.all_at_once(corpus, said, Key(said.seed, "steps"))
    return Prepared(corpus, said, Key(said.seed, "steps", unit), setup)


def draws(made: Prepared) -> np.ndarray:
    """All draws of a chain, (n, K, W)."""
    chain, found = chains.begin(made, None), []
    while not chain.done:
        chain, drawn = chains.advance(made, chain)
        found.append(drawn.values)
    return np.concatenate(found).reshape(-1, *made.density.target.shapes["topics"])


def batch_errors(values: np.ndarray, batches: int = 40) -> np.ndarray:
    """Standard errors of the means over the first axis, by means of batches."""
    means = np.array([each.mean(axis=0) for each in np.array_split(values, batches)])
    return np.asarray(means.std(axis=0, ddof=1) / np.sqrt(batches))
