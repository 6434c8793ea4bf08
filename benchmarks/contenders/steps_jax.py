"""BlackJAX's formulas in JAX, float32: a compiled scan over 64 minibatches that come from host memory.

sgld: theta + e g + sqrt(2 e) z. sghmc: theta + v, then (1 - a) v + e g + sqrt(2 e a) z. Both have plain gradients and
no preconditioner, as there; data are of unit scale, so that it does not matter.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp

from benchmarks.sampler_task import Steps, Taken, received, taken, tell
from streaminfer.models.targets import mode
from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.bias import sgld_step
from streaminfer.spec import parse_spec

BLOCK = 64
FRICTION = 0.1


def main(task: Steps) -> Taken:
    spec = parse_spec({"name": "bench", "model": task.model, "inference": {"method": task.method}})
    density = Density(spec.target, np.ascontiguousarray(spec.target.rows(task.events())))
    found = mode.find(density)
    assert found.curvature is not None
    rows, scale = density.rows.astype(np.float32), np.float32(task.n / task.minibatch)
    white = np.linalg.inv(preconditioning.mode(found.curvature).root).T
    # A step of plain gradients whose bias is that of ours: V = N/B, in units of the posterior's variance.
    size = np.float32(0.5 * sgld_step(task.bias, float(scale)) / np.diag(found.curvature).mean())

    def log_density(theta: Any, batch: Any) -> Any:
        return scale * jax.nn.log_sigmoid(batch @ theta).sum() - 0.5 * 1e-6 * (theta**2).sum()

    gradient = jax.grad(log_density)

    def sgld(state: Any, given: Any) -> Any:
        theta, velocity, key = state
        key, now = jax.random.split(key)
        noise = jax.random.normal(now, theta.shape)
        theta = theta + size * gradient(theta, given) + jnp.sqrt(2 * size) * noise
        return (theta, velocity, key), theta

    def sghmc(state: Any, given: Any) -> Any:
        theta, velocity, key = state
        key, now = jax.random.split(key)
        noise = jax.random.normal(now, theta.shape)
        theta = theta + velocity
        velocity = (1 - FRICTION) * velocity + size * gradient(theta, given) + jnp.sqrt(2 * size * FRICTION) * noise
        return (theta, velocity, key), theta

    step = {"sgld": sgld, "sghmc": sghmc}[task.method]
    scanned = jax.jit(lambda state, batches: jax.lax.scan(step, state, batches))
    rng, start = np.random.default_rng(5), jnp.asarray(found.theta, dtype=jnp.float32)
    state: Any = (start, jnp.zeros_like(start), jax.random.PRNGKey(1))
    path = []
    for block in range(-4, task.steps // BLOCK):
        if block == 0:
            state[0].block_until_ready()
            began = time.perf_counter()
        batches = rows[rng.integers(0, task.n, (BLOCK, task.minibatch))]
        state, positions = scanned(state, batches)
        if block >= 0:
            path.append(np.asarray(positions)[:: task.stride].copy())
    seconds = time.perf_counter() - began
    return taken((np.concatenate(path).astype(np.float64) - found.theta) @ white, task.steps // BLOCK * BLOCK, seconds)


if __name__ == "__main__":
    tell(main(received()))
