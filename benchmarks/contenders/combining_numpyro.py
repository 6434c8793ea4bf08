"""NumPyro's consensus of draws in memory, float32, one thread; the second call, which does not compile."""

from __future__ import annotations

import os
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax.numpy as jnp
from numpyro.infer.hmc_util import consensus

from benchmarks.combiner_task import Told, Work, received, tell


def main(work: Work) -> Told:
    draws = [jnp.asarray(values) for values in work.draws()]
    consensus(draws).block_until_ready()
    began = time.perf_counter()
    consensus(draws).block_until_ready()
    return Told(time.perf_counter() - began, 0.0)


if __name__ == "__main__":
    tell(main(received()))
