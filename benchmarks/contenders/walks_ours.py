"""Random walks on rows in memory: mh, and those that read a part of the events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.sampler_task import Steps, Taken, received, taken, tell
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import mode, remainders
from streaminfer.models.targets.density import Density
from streaminfer.sampling.chains import firefly
from streaminfer.sampling.chains.subset_methods import MOST_STEPS
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import flymc, mh, poisson_mh, subsampled_mh
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import BoundRule, Stopping
from streaminfer.sampling.subsets.proxy import proxy
from streaminfer.spec import parse_spec

KEY = Key(5, "steps")
WARM = 4
"""Blocks that are not counted: compiling, and the way from the mode to where the chain belongs."""
Block = Callable[[Any, int], tuple[Any, Matrix, int]]
"""(state, block) -> state, positions, events read."""


def main(task: Steps) -> Taken:
    spec = parse_spec({"name": "bench", "model": task.model, "inference": {"method": task.method}})
    density = Density(spec.target, np.ascontiguousarray(spec.target.rows(task.events())))
    found = mode.find(density)
    assert found.curvature is not None
    root = preconditioning.mode(found.curvature).root
    length = min(MOST_STEPS, task.steps)
    start, block = made(task, density, found.theta, root, length)
    state, path, n_read = start, [], 0
    for b in range(WARM):
        state, _, _ = block(state, 10**6 + b)
    began = time.perf_counter()
    for b in range(task.steps // length):
        state, positions, read = block(state, b)
        path.append(positions)
        n_read += read
    seconds = time.perf_counter() - began
    white = (np.concatenate(path) - found.theta) @ np.linalg.inv(root).T
    return taken(white, len(white), seconds, n_read / len(white))


def made(task: Steps, density: Density, anchor: Vector, root: Matrix, length: int) -> tuple[Any, Block]:
    """A first state of a method, and a block of its steps."""
    cov = root @ root.T
    if task.method == "mh":

        def plain(state: Any, b: int) -> tuple[Any, Matrix, int]:
            after, positions, info = mh.steps(density, state, KEY.generator(b), length)
            return after, positions, info.n_likelihood

        return mh.init(density, anchor, cov), plain
    if task.method == "flymc":
        return flying(density, anchor, root, length)
    expanded = proxy(density, remainders.expansion(density, anchor, 2), root, bounded=True)
    if task.method == "poisson_mh":

        def poisson(state: Any, b: int) -> tuple[Any, Matrix, int]:
            after, positions, info = poisson_mh.steps(expanded, state, KEY.generator(b), length)
            return after, positions, info.n_read

        return poisson_mh.init(anchor, cov), poisson
    by = subsampled_mh.subsets(expanded, Stopping("bernstein_serfling"), task.minibatch)

    def subsampled(state: Any, b: int) -> tuple[Any, Matrix, int]:
        rng, picks = KEY.generator(b), KEY.of("picks").generator(b)
        after, positions, info = subsampled_mh.steps(by, state, rng, picks, length)
        return after, positions, info.n_read

    return subsampled_mh.init(anchor, cov), subsampled


def flying(density: Density, anchor: Vector, root: Matrix, length: int) -> tuple[Any, Block]:
    """flymc with bounds that touch at the mode."""
    rule = BoundRule("mode", None, "implicit", None)
    numbers, _ = firefly.measured(density, rule, anchor, root, KEY)
    bounds, update = firefly.restored(density, rule, anchor, numbers), flymc.Update("implicit", float(numbers[0]))
    cov = root @ root.T
    by = Preconditioner(cov, root)

    def bright(state: Any, b: int) -> tuple[Any, Matrix, int]:
        after, positions, info = flymc.steps(density, bounds, state, KEY.generator(b), length, update, by)
        return after, positions, info.n_likelihood

    return flymc.init(density, bounds, anchor, 1.0, KEY.of("brightness").generator(1), cov), bright


if __name__ == "__main__":
    tell(main(received()))
