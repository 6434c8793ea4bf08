"""Our kernels on rows in memory, 64 steps at a time, as a sampler takes them; with numba if it is installed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.sampler_task import Steps, Taken, received, taken, tell
from streaminfer.models.targets import mode
from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import tuning
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import sghmc, sgld, sgnht
from streaminfer.sampling.randomness import Key
from streaminfer.spec import parse_spec

BLOCK = 64
KERNELS: dict[str, Any] = {"sgld": sgld, "sghmc": sghmc, "sgnht": sgnht}


def main(task: Steps) -> Taken:
    spec = parse_spec({"name": "bench", "model": task.model, "inference": {"method": task.method}})
    density = Density(spec.target, np.ascontiguousarray(spec.target.rows(task.events())))
    found = mode.find(density)
    cv = task.control_variates
    rng = np.random.default_rng(1)
    made = tuning.tuned(density, found, task.method, rng, task.bias, task.minibatch, control_variates=cv).dynamics
    kernel, by, key = KERNELS[task.method], made.preconditioner, Key(5, "steps")
    state = started(task.method, tuning.start(found, by, rng), by, rng)
    # Compiling, and the way from the start to where the chain belongs.
    state, _, _ = kernel.steps(made, state, key.generator(10**6), 64 * BLOCK)
    white, path = np.linalg.inv(by.root).T, []
    began = time.perf_counter()
    for block in range(task.steps // BLOCK):
        state, steps, _ = kernel.steps(made, state, key.generator(block), BLOCK)
        path.append(steps.positions[:: task.stride].copy())
    seconds = time.perf_counter() - began
    return taken((np.concatenate(path) - found.theta) @ white, task.steps // BLOCK * BLOCK, seconds)


def started(method: str, position: Any, by: Preconditioner, rng: np.random.Generator) -> Any:
    if method == "sgld":
        return sgld.init(position)
    return sghmc.init(position, by, rng) if method == "sghmc" else sgnht.init(position, rng)


if __name__ == "__main__":
    tell(main(received()))
