"""sgrld of topics: the probabilities of words in each topic, by their expanded means."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.corpus import Corpus
from streaminfer.sampling.chains.kernel import Block
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.kernels import sgrld
from streaminfer.sampling.kernels.topics import scaled_counts


class SgrldTopics:
    """A place is weights (K W,) above 0; the parameters are their proportions in each topic."""

    exactness: Final = "approximate"
    knows_density: Final = False

    def block(self, prepared: Prepared) -> int:  # noqa: ARG002 (the same for all)
        return 1

    """A step draws the topics of all tokens of a minibatch, and moves every weight."""

    def first(self, prepared: Prepared, rng: np.random.Generator) -> Vector:  # noqa: ARG002 (all chains start alike)
        """What set-up has found, the same for all chains.

        The posterior has a mode for each order of the topics, and more. Chains that started apart would end in
        different ones, and the average of their topic k would be that of different topics.
        """
        return prepared.setup.mode

    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> sgrld.State:  # noqa: ARG002 (nothing is random)
        return sgrld.init(position.reshape(_shape(prepared)))

    def like(self, prepared: Prepared, n_events: int) -> sgrld.State:  # noqa: ARG002 (the same for all)
        return sgrld.init(np.zeros(_shape(prepared)))

    def learns_until(self, prepared: Prepared) -> int:  # noqa: ARG002 (there is nothing to learn)
        return 0

    def steps(
        self,
        prepared: Prepared,
        state: sgrld.State,
        rng: np.random.Generator,
        count: int,
        learning: bool,  # noqa: ARG002
    ) -> Block:
        corpus, target = _corpus(prepared), prepared.density.target
        indices = prepared.minibatches.indices(rng, state.n_steps, count)
        sizes = prepared.schedule.sizes(state.n_steps, count)
        transition: sgrld.Transition = "euler" if prepared.settings.transition == "euler" else "cir"
        positions, undone = np.empty((count, state.weights.size)), 0
        for t, (which, size) in enumerate(zip(indices, sizes.tolist(), strict=True)):
            counts = scaled_counts(sgrld.probabilities(state.weights), corpus, which, rng)
            state, info = sgrld.advance(state, corpus.share * target.concentration, counts, rng, size, transition)
            positions[t] = sgrld.probabilities(state.weights).ravel()
            undone += info.n_undone
        spent = Counters(n_gradient=indices.size, n_undone=undone, n_read=indices.size)
        return Block(state, positions, sizes, np.empty(0), spent)

    def position(self, state: sgrld.State) -> Vector:
        return state.weights.ravel()

    def undone(self, state: sgrld.State) -> int:
        return state.undone

    def values(self, prepared: Prepared, positions: Matrix) -> Matrix:  # noqa: ARG002 (they are the parameters)
        return positions


def _corpus(prepared: Prepared) -> Corpus:
    density: Any = prepared.density
    if not isinstance(density, Corpus):
        raise TypeError("topics are of documents, and the rows are not those of documents")
    return density


def _shape(prepared: Prepared) -> tuple[int, ...]:
    shape: tuple[int, ...] = prepared.density.target.shapes["topics"]
    return shape
