"""All that a chain of one segment is computed from: its target with the data, the settings, and the set-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.remainders import Expansion
from streaminfer.sampling import flat
from streaminfer.sampling.chains import firefly
from streaminfer.sampling.chains.setting_up import Setup
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.estimates import Anchor, Gradients, anchor
from streaminfer.sampling.gradients.minibatches import Minibatches, Passing, Random, Shuffled
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.kernels.flymc import Bound
from streaminfer.sampling.kernels.subsampled_mh import Subsets, subsets
from streaminfer.sampling.pooled import labels
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.subsets.proxy import Proxy, plain, proxy


class OfData(NamedTuple):
    """What is computed of all rows, if a method needs it: control variates of gradients, and of decisions; bounds."""

    anchor: Anchor | None = None
    proxy: Proxy | None = None
    bound: Bound | None = None


NOTHING: Final = OfData()


@dataclass(frozen=True, eq=False)
class Prepared:
    """`key` is that of the chain's unit and segment."""

    density: Density
    settings: Settings
    key: Key
    setup: Setup
    of_data: OfData = NOTHING
    """It depends on the data alone, so chains of one process share it."""

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
        gradients = Gradients(self.density, self.of_data.anchor)
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

    @property
    def bound(self) -> Bound:
        """The lower bounds of flymc."""
        if self.of_data.bound is None:
            raise ValueError(f"the method {self.settings.method} has no lower bounds")
        return self.of_data.bound

    @property
    def proxy(self) -> Proxy:
        """Of a method that decides on subsets."""
        if self.of_data.proxy is None:
            raise ValueError(f"the method {self.settings.method} has no expansion")
        return self.of_data.proxy

    @cached_property
    def subsets(self) -> Subsets:
        """What tests on subsets are made by."""
        test = self.settings.stopping
        if test is None:
            raise ValueError(f"the method {self.settings.method} has no test")
        return subsets(self.proxy, test, self.settings.minibatch or 1)

    @cached_property
    def schedule(self) -> Schedule:
        size, rule = self.setup.size, self.settings.step
        if rule is None or not rule.size:
            return Schedule(size)
        return Schedule(size, rule.after, rule.power, rule.floor * size / rule.size)


def of_data(density: Density, settings: Settings, setup: Setup) -> OfData:
    """The derivatives at the anchor are kept in a set-up; slopes and scales of all rows are computed again."""
    fixed, found = None, None
    if settings.control_variates is True:
        fixed = anchor(density, setup.mode, setup.gradient)
    if settings.order is not None:
        bounded = settings.stopping is None or settings.stopping.rule != "t"
        found = proxy(density, _expansion(density, settings.order, setup), setup.root, bounded)
    rule = settings.bound
    bound = None if rule is None else firefly.restored(density, rule, setup.mode, setup.bound)
    return OfData(fixed, found, bound)


def _expansion(density: Density, order: int, setup: Setup) -> Expansion:
    if order == 0:
        return plain(density)
    second = setup.second if order > 1 else np.zeros((density.dimension,) * 2)
    return Expansion(order, setup.mode, 0.0, setup.gradient, second)


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
