"""What a chain must know of all data before its first step: mode, whitening, anchor and size of steps.

It is the same for all chains of a segment, and a function of the data and the seed alone. It comes in slices: between
two of them its caller does other things.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import mode, remainders
from streaminfer.models.targets.corpus import Corpus
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.mode import Mode
from streaminfer.models.targets.target import Curved
from streaminfer.sampling.chains import firefly, first_topics, packing
from streaminfer.sampling.gradients import bias, preconditioning, tuning
from streaminfer.sampling.gradients.estimates import Gradients, anchor
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Settings

LEAST_THIN: Final = 10
"""Steps between two draws of a stochastic-gradient method, at least."""

Slices = Generator[str, None, "Setup"]
"""Work in slices; each yields what it is doing."""


_NOTHING: Final = np.empty(0)


class Setup(NamedTuple):
    """What is fixed in a segment. What a method does not need has no numbers."""

    mode: Vector
    """(d,) or (0,). Of topics the weights that all chains start from."""
    root: Matrix
    """(d, d): R with R R' the inverse curvature at the mode; or (0, 0)."""
    gradient: Vector
    """(d,): that of the log likelihood of all rows at the mode, for control variates; or (0,)."""
    second: Matrix
    """(d, d): its second derivatives there, for those of order 2; or (0, 0)."""
    size: float
    """Of the first step; 0 if the method has none, or learns it."""
    noise: float
    """The variance V of gradients in whitened coordinates; 0 if it was not measured."""
    thin: int
    warmup: int
    """Steps before the first draw."""
    n_setup: int
    """Likelihoods and gradients of single events that it took."""
    bound: Vector = _NOTHING
    """Of flymc: the part of the events that a step looks at, then the sum of all bounds; or (0,)."""


def of_stream(settings: Settings, first: bool) -> Setup:
    """That of events that pass by: nothing is known of them, and only a `first` segment has a warm-up."""
    thin = settings.thin or LEAST_THIN
    size = 0.0 if settings.step is None else settings.step.size or 0.0
    none, nothing = np.empty(0), np.empty((0, 0))
    return Setup(none, nothing, none, nothing, size, 0.0, thin, _n_warmup(settings, thin, first), 0)


def blank(density: Density, settings: Settings) -> Setup:
    """One with the shapes of all set-ups of these settings."""
    d, at_mode = density.dimension, _needs_mode(settings)
    root = np.zeros((d, d) if at_mode and isinstance(density.target, Curved) else (0, 0))
    gradient = np.zeros(d if _has_anchor(settings) else 0)
    second = np.zeros((d, d) if settings.order == 2 else (0, 0))
    mode = np.zeros(d if at_mode or isinstance(density, Corpus) else 0)
    bound = np.zeros(firefly.n_numbers(d) if settings.bound is not None else 0)
    return Setup(mode, root, gradient, second, 0.0, 0.0, 1, 0, 0, bound)


def _needs_mode(settings: Settings) -> bool:
    tuned = settings.bound is not None and settings.bound.tune == "mode"
    return settings.start == "mode" or settings.precondition == "mode" or _has_anchor(settings) or tuned


def _has_anchor(settings: Settings) -> bool:
    return bool(settings.control_variates) or bool(settings.order)


def slices(density: Density, settings: Settings, key: Key, first: bool) -> Slices:
    """The set-up of a segment, whose `key` is that of its first chain; warm-up is half as long after the `first`."""
    made = blank(density, settings)
    if _needs_mode(settings):
        found = yield from _mode(density)
        passes = density.n * (found.n_gradient + found.n_likelihood)
        root = made.root if found.curvature is None else preconditioning.mode(found.curvature).root
        made = made._replace(mode=found.theta, root=root, n_setup=passes)
    if isinstance(density, Corpus):
        topics, n_read = yield from first_topics.slices(density, settings.minibatch or 1, key)
        made = made._replace(mode=topics, n_setup=n_read)
    if _has_anchor(settings):
        yield "the gradient of all events at the mode"
        gradient = density.likelihood_gradient(made.mode[None])[0]
        made = made._replace(gradient=gradient, n_setup=made.n_setup + density.n)
    if settings.order == 2:
        yield "the second derivatives of all events at the mode"
        second = remainders.second_derivatives(density, made.mode)
        made = made._replace(second=second, n_setup=made.n_setup + density.n)
    if settings.bound is not None:
        yield "the lower bounds of all events"
        bound, n_read = firefly.measured(density, settings.bound, made.mode, made.root, key)
        made = made._replace(bound=bound, n_setup=made.n_setup + n_read)
    made = yield from _sized(density, settings, key, made)
    thin = settings.thin or _usual_thin(density, settings, made)
    made = made._replace(thin=thin, warmup=_n_warmup(settings, thin, first))
    # As a chain has it that was killed: products depend, in their last digits, on how a matrix lies in memory.
    return packing.unflatten(made, packing.flatten(made))


def _n_warmup(settings: Settings, thin: int, first: bool) -> int:
    """Steps before the first draw of a segment."""
    warmup = settings.warmup if settings.warmup is not None else settings.draws * thin
    if first:
        return warmup
    return 0 if settings.source == "stream" else warmup // 2


def n_steps(settings: Settings, thin: int, first: bool) -> int:
    """All steps of a segment, which is maybe the `first`."""
    return _n_warmup(settings, thin, first) + settings.draws * thin


def _mode(density: Density) -> Generator[str, None, Mode]:
    """The mode, a pass over the data in each slice; raises NoModeError."""
    for state in mode.search(density):
        yield f"step {state.n_steps} towards the mode"
    return mode.found(density, state)


def _sized(density: Density, settings: Settings, key: Key, made: Setup) -> Slices:
    """With the size of steps, and the noise that it follows from."""
    rule = settings.step
    if rule is None or settings.minibatch is None or settings.adapt is not None:
        return made
    if rule.bias is None:
        # Steps of weights on the simplex have no preconditioner that could know how many events there are.
        scale = 1 / max(density.n, 1) if settings.method == "sgrld" else 1.0
        return made._replace(size=(rule.size or 0.0) * scale)
    rows = min(settings.minibatch, density.n)
    if settings.method == "sgrld":
        # Counts of a minibatch have N/B times the variance that the weights of a Gamma posterior have.
        noise = density.n / rows
        return made._replace(size=bias.sgld_step(rule.bias, noise), noise=noise)
    fixed = anchor(density, made.mode) if settings.control_variates else None
    by, draws_of = Preconditioner(made.root @ made.root.T, made.root), key.of("noise").generator(0)
    found = bias.NoiseSum(Gradients(density, fixed), made.mode, by, rows, draws_of)
    for i in range(bias.DRAWS):
        yield f"the noise of gradients, {i} of {bias.DRAWS}"
        found.add(i)
    size = tuning.STEPS[settings.method](rule.bias, found.noise, settings.friction or 1.0)
    cost = (min(density.n, bias.MOST_ROWS) + density.n) * bias.DRAWS
    return made._replace(size=size, noise=found.noise, n_setup=made.n_setup + cost)


def _usual_thin(density: Density, settings: Settings, made: Setup) -> int:
    """Steps over which a chain moves about as far as the posterior is wide, if that can be said."""
    if settings.adapt is not None and settings.precondition is None and settings.proposal != "langevin":
        return max(1, density.dimension)
    if settings.minibatch is None:
        return 1
    whitened = settings.precondition == "mode" or settings.method == "sgrld"
    return max(LEAST_THIN, math.ceil(1 / made.size)) if whitened and made.size > 0 else LEAST_THIN


def all_at_once(density: Density, settings: Settings, key: Key, first: bool = True) -> Setup:
    """The set-up without a pause."""
    return exhausted(slices(density, settings, key, first))


def exhausted(work: Slices) -> Setup:
    """What slices of work return in the end."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            made: Setup = end.value
            return made
