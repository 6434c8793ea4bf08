"""All that a chain of one segment is computed from: its target with the data, the settings, and the set-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Density
from streaminfer.sampling import flat
from streaminfer.sampling.chains.setting_up import Setup
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.estimates import Anchor, Gradients, anchor
from streaminfer.sampling.gradients.minibatches import Minibatches, Passing, Random, Shuffled
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.pooled import labels
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Settings


@dataclass(frozen=True, eq=False)
class Prepared:
    """`key` is that of the chain's unit and segment."""

    density: Density
    settings: Settings
    key: Key
    setup: Setup
    anchored: Anchor | None = None
    """For control variates. It depends on the data alone, so chains of one process share it."""

    @cached_property
    def whitening(self) -> Preconditioner:
        """That of the mode; without one the identity."""
        root = self.setup.root
        return Preconditioner(root @ root.T, root) if len(root) else preconditioning.none(self.density.dimension)

    @cached_property
    def preconditioner(self) -> Preconditioner:
        """That of steps; one that is learned comes with the state."""
        if self.settings.precondition == "mode":
            return self.whitening
        return preconditioning.none(self.density.dimension, max(1, self.density.n))

    @cached_property
    def dynamics(self) -> Dynamics:
        """Of a stochastic-gradient method."""
        gradients = Gradients(self.density, self.anchored)
        return Dynamics(gradients, self.minibatches, self.schedule, self.preconditioner)

    def learned(self, squares: Vector) -> Dynamics:
        """The same with a preconditioner from mean squares of gradients (d,)."""
        return replace(self.dynamics, preconditioner=preconditioning.rms(squares, self.density.n))

    @cached_property
    def _reference(self) -> Mapping[str, Any] | None:
        """Parameters whose components the published draws have in the same order; None if the order is always one."""
        target = self.density.target
        if not getattr(target, "is_exchangeable", False):
            return None
        guessed: Mapping[str, Any] = target.constrain(target.guess(self.density.rows)[None])
        return {name: values[0] for name, values in guessed.items()}

    def in_order(self, values: Matrix) -> Matrix:
        """Parameters (n, D) with the components of a mixture in the order that all chains of the segment share."""
        reference, target = self._reference, self.density.target
        if reference is None:
            return values
        return flat.flatten(labels.matched(target, flat.unflatten(values, target.shapes), reference), target.shapes)

    @cached_property
    def minibatches(self) -> Minibatches:
        if self.settings.source == "stream":
            return Passing(len(self.density.rows))
        n, size = self.density.n, min(self.settings.minibatch or 1, self.density.n)
        return Shuffled(n, size, self.key.of("minibatches")) if self.settings.batches == "shuffled" else Random(n, size)

    @cached_property
    def schedule(self) -> Schedule:
        size, rule = self.setup.size, self.settings.step
        if rule is None or not rule.size:
            return Schedule(size)
        return Schedule(size, rule.after, rule.power, rule.floor * size / rule.size)


def anchored(density: Density, setup: Setup) -> Anchor | None:
    """The anchor of a set-up: its gradient is kept, the slopes of all rows are computed again."""
    if not len(setup.gradient):
        return None
    return anchor(density, setup.mode, setup.gradient)


def start(prepared: Prepared, rng: np.random.Generator) -> Vector:
    """Where a first chain starts: two deviations of the Laplace approximation from the mode, or a draw of the prior."""
    density, setup = prepared.density, prepared.setup
    if prepared.settings.start == "mode":
        return setup.mode + (
            prepared.whitening.spread(2 * rng.standard_normal(len(setup.mode))) if len(setup.root) else 0.0
        )
    target = density.target
    if hasattr(target, "sample_prior"):
        return np.asarray(target.sample_prior(rng, 1)[0], dtype=np.float64)
    return np.asarray(target.guess(density.rows) if hasattr(target, "guess") else np.zeros(density.dimension))
