"""Where chains of topics start: near one mode of the posterior, which is the same for all of them.

Topics that start almost equal become different by chance, each chain's by its own minibatches. So it is not enough that
chains start from the same place: this one lies behind the point where topics part.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import parts
from streaminfer.models.targets.corpus import COUNT, Corpus
from streaminfer.sampling.kernels import sgrld
from streaminfer.sampling.kernels.topics import scaled_counts
from streaminfer.sampling.randomness import Key

SHAPE: Final = 100.0
"""Of the Gamma(100, 1/100) draws of Hoffman et al. (2010): mean 1, sd 0.1."""
LEAST: Final = 200
"""Steps, and at least as many as PASSES over the documents take."""
PASSES: Final = 2
TAU, KAPPA = 16.0, 0.7


def slices(corpus: Corpus, minibatch: int, key: Key) -> Generator[str, None, tuple[Vector, int]]:
    """Weights (K W,) of topics, and how many documents were read for them; each slice is a minibatch.

    Stochastic expectation maximisation (Cappé, Moulines 2009): w <- (1 - rho) w + rho (c + N/B counts), with
    rho = (16 + t)^-0.7. It is a step of sgrld without noise.
    """
    size = min(minibatch, corpus.n)
    n_steps = max(LEAST, -(-PASSES * corpus.n // size))
    weights, concentration = almost_equal(corpus), corpus.share * corpus.target.concentration
    for t in range(n_steps):
        yield f"step {t} of {n_steps} towards first topics"
        rng = key.of("first topics").generator(t)
        which = rng.integers(0, corpus.n, size)
        counts = scaled_counts(sgrld.probabilities(weights), corpus, which, rng)
        rho = (TAU + t) ** -KAPPA
        weights = (1 - rho) * weights + rho * (concentration + counts)
    return weights.ravel(), n_steps * size


def almost_equal(corpus: Corpus) -> Matrix:
    """Draws of Gamma(100, 1/100) (K, W) by the model's seed, scaled to the number of all words."""
    shape = corpus.target.shapes["topics"]
    total = sum(float(corpus.rows[each, COUNT].sum()) for each in parts.slices(corpus.rows))
    drawn = Key(corpus.target.model.seed, "topics").generator(0).gamma(SHAPE, 1 / SHAPE, shape)
    scale = max(total, 1.0) / float(np.prod(shape))
    return np.asarray(scale * drawn, dtype=np.float64)
